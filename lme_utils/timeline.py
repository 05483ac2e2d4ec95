"""When things happened: the time a question is about, and sessions outside of it.

A question that names its time ("in March", "last Tuesday") has a range of dates, found
by rules or by a language model; items of sessions that tell of no day in it go down in
the ranking. A question that names none, or compares events without dates, has no range,
and nothing is pruned. Paper: §4 (CP3, time-aware query expansion), §5.4, appendix D
and E.4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, get_args

from .config import read_prompt
from .date_words import DAY, Span
from .dates_in_text import dates_by_rules, range_by_rules
from .request import Ask, Reply
from .schema import Compat, Instance, Out, Ranking, Status

__all__ = [
    "ModelRange",
    "Span",
    "ask_ranges",
    "dates_by_rules",
    "is_near",
    "official_span",
    "prune",
    "range_by_rules",
]

MAX_TOKENS = 60
_DAY_OR_NULL = {
    "anyOf": [
        {"type": "string", "pattern": "^[0-9]{4}/[0-9]{2}/[0-9]{2}$"},
        {"type": "null"},
    ]
}
SCHEMA = {
    "type": "object",
    "properties": {"start": _DAY_OR_NULL, "end": _DAY_OR_NULL},
    "required": ["start", "end"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class ModelRange:
    """The range that a model read from a question; None if it saw none, or failed.

    status  "failed" where there is no usable reply; `reason` says why
    source  where the reply comes from, as in `Reply`; `key` is its name in the store
    """

    question_id: str
    span: Span | None
    status: Status
    reason: str
    source: str
    key: str


def ask_ranges(instances: Sequence[Instance], ask: Ask) -> list[ModelRange]:
    """The dates that each question asks about, as a model reads them.

    ask      `Models.ask` with a model's name filled in: takes (messages, max_tokens)
             pairs and `json_schema`, gives a `Reply` for each
    returns  one range a question, in their order; a reply that is no range is "failed"

    The model sees the question and its date, and ten examples. Paper: §5.4, figure 12.

    >>> def ask(prompts, json_schema):
    ...     reply = {"start": "2023/03/01", "end": "2023/03/31"}
    ...     return [Reply("k", "ok", parsed=reply) for _ in prompts]
    >>> instance = Instance("q", "", "In March?", datetime(2023, 6, 1), "", (), ())
    >>> ask_ranges([instance], ask)[0].span.n_days
    31
    """
    system = {"role": "system", "content": read_prompt("range")}
    prompts = []
    for instance in instances:
        day = f"{instance.question_date:%Y/%m/%d (%a)}"
        text = f"Date: {day}\nQuestion: {instance.question}"
        prompts.append(((system, {"role": "user", "content": text}), MAX_TOKENS))
    replies = ask(prompts, json_schema=SCHEMA) if prompts else []
    return [
        _read_reply(instance, reply)
        for instance, reply in zip(instances, replies, strict=True)
    ]


def _read_reply(instance: Instance, reply: Reply) -> ModelRange:
    span, status, reason = None, reply.status, reply.reason
    if status == "ok":
        try:
            span = _parse(reply.parsed)
        except ValueError as error:
            status, reason = "failed", str(error)
    return ModelRange(
        instance.question_id, span, status, reason, reply.source, reply.key
    )


def _parse(reply: Any) -> Span | None:
    """The span in a reply; ValueError where there is neither a span nor two nulls."""
    if not isinstance(reply, dict) or not {"start", "end"} <= set(reply):
        raise ValueError(f"got {reply!r}, wanted an object with start and end")
    start, end = reply["start"], reply["end"]
    if start is None and end is None:
        return None
    if start is None or end is None:
        raise ValueError(f"got start {start} and end {end}, wanted two dates or none")
    return Span(_parse_day(start), _parse_day(end))


def _parse_day(text: str) -> date:
    try:
        return datetime.strptime(text, "%Y/%m/%d").date()
    except (TypeError, ValueError):
        raise ValueError(f"got {text!r}, wanted a date as YYYY/MM/DD") from None


def official_span(start: str, end: str, question_date_text: str) -> Span | None:
    """A model's range as the authors read it, from the two texts of its reply.

    question_date_text  as the data files write it: "2023/05/20 (Sat) 02:21"

    What is not two dates gives no range. Their quirk: neither does a `start` that the
    question's date contains, so a range of today alone is lost. They keep an end before
    the start; it gives None here.

    >>> official_span("2023/05/18", "2023/05/20", "2023/05/20 (Sat) 02:21").n_days
    3
    >>> official_span("2023/05/20", "2023/05/20", "2023/05/20 (Sat) 02:21")
    """
    if start in question_date_text:
        return None
    try:
        return Span(_parse_day(start), _parse_day(end))
    except ValueError:
        return None


def prune(
    ranking: Ranking,
    span: Span | None,
    times: Mapping[int, Collection[date]],
    out: Out = "end",
    compat: Compat = "fixed",
    slack_days: int = 2,
    places: int = 5,
    least: int = 5,
) -> Ranking:
    """The ranking with items that lie outside of the range put back.

    span        what the question asks about; None: the ranking is unchanged
    times       the days that each session tells of, by its place in the history. A
                session without any is out of range
    out         what happens to an item out of range:
                end: it goes behind all those in range (as in the paper)
                drop: it goes; where no item would be left, the ranking is unchanged,
                for a reader needs something to read
                soft: it lets up to `places` items in range pass
                fall back: as "end", but the ranking is unchanged where fewer than
                `least` different sessions are in range
    compat      official: an item whose id holds "noans" is never in range, a label that
                leaks. The authors compare dates as texts, which comes to the same
    slack_days  the range is widened by so many days on both sides, at least 0
    returns     the order inside of both parts is kept. Each record keeps its score, so
                that scores no longer fall from the first to the last

    Raises ValueError for another `out`, and for a number below 0. Paper: §5.4.

    >>> ranking = Ranking("q", (), ())
    >>> prune(ranking, Span(date(2023, 3, 1), date(2023, 3, 31)), {}) == ranking
    True
    """
    if out not in get_args(Out):
        raise ValueError(f"out: got {out!r}, wanted one of {', '.join(get_args(Out))}")
    for name, n in (("slack_days", slack_days), ("places", places), ("least", least)):
        if n < 0:
            raise ValueError(f"{name}: got {n}, wanted 0 or more")
    if span is None:
        return ranking
    fits = [
        any(is_near(day, span, slack_days) for day in times.get(r.position[0], ()))
        and not (compat == "official" and "noans" in r.id)
        for r in ranking.records
    ]
    sessions = {r.position[0] for r, f in zip(ranking.records, fits, strict=True) if f}
    order = sorted(range(len(fits)), key=lambda i: not fits[i])
    if out == "soft":
        order = sorted(
            range(len(fits)), key=lambda i: (i + places * (not fits[i]), not fits[i])
        )
    elif out == "drop" and any(fits):
        order = [i for i in order if fits[i]]
    elif out == "fall back" and len(sessions) < least:
        return ranking
    return Ranking(
        ranking.question_id,
        tuple(ranking.records[i] for i in order),
        tuple(ranking.scores[i] for i in order),
    )


def is_near(day: date, span: Span, slack_days: int) -> bool:
    """Whether a day lies in a span widened by so many days on both sides."""
    return span.start - day <= slack_days * DAY and day - span.end <= slack_days * DAY
