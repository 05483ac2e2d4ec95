"""Reading: from ranked records to a prompt, and from a prompt to an answer (CP4).

Two layouts of the history, JSON and natural language (NL), and three methods (paper
§5.5, appendix D):

    direct         the answer at once
    con            Chain-of-Note in one call: first notes, then the answer
    con-separate   one call a record for its notes, then an answer from the notes

A prompt starts with what never changes, goes on with the history, and ends with what
differs between calls (method, date, question), so that a server can keep the history it
has read for the next question about it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .config import read_prompt
from .index import turns_text
from .schema import Instance, Layout, Method, Ranking, Record, format_date

Messages = tuple[dict[str, str], ...]
METHODS: tuple[Method, ...] = ("direct", "con", "con-separate")
LAYOUTS: tuple[Layout, ...] = ("json", "nl")
# How a prompt over records ends; the answer of con-separate is asked for as in direct.
ENDS: dict[Method, str] = {
    "direct": "read_direct",
    "con": "read_con",
    "con-separate": "read_note",
}
SEPARATOR = "\n\n"  # between records


def exchange_values(
    ranking: Ranking,
    texts: Mapping[tuple[int, int], tuple[str, ...]],
    k: int | None = None,
) -> tuple[Ranking, int]:
    """The best records, to be read by their notes instead of their turns (CP1).

    texts    what is read of a record, by its position, from `jobs.value_texts`
    k        at most so many records, from the best (None: all), each once
    returns  (ranking, how many of the k leave it because nothing is to be read of them;
             no record after the k comes in for them)
    """
    found: dict[tuple[int, int], tuple[Record, float]] = {}
    for record, score in zip(ranking.records, ranking.scores, strict=True):
        found.setdefault(record.position, (record, score))
    best = list(found.values())[:k]
    kept = [
        (replace(record, value=texts[record.position]), score)
        for record, score in best
        if texts[record.position]
    ]
    records, scores = zip(*kept, strict=True) if kept else ((), ())
    return Ranking(ranking.question_id, records, scores), len(best) - len(kept)


def choose_records(
    ranking: Ranking,
    k: int | None = None,
    budget_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
    layout: Layout = "json",
    holes: bool = True,
) -> tuple[tuple[Record, ...], int]:
    """What the reader gets: the best records that fit, in order of date.

    k              at most so many records, from the best (None: all)
    budget_tokens  at most so many tokens (None: no limit), each record counted as
                   `lay_out` shows it, with number, date and separator. A record that
                   does not fit is left out whole
    count_tokens   the reader's tokeniser; needed with `budget_tokens`
    holes          whether smaller records after one that does not fit may still come
                   in. A history cut at one end has no holes
    returns        (records by date, how many did not fit)

    A record that stands in the ranking twice (separate keys) is read once.
    """
    if budget_tokens is not None and count_tokens is None:
        raise ValueError("budget_tokens needs count_tokens, the reader's tokeniser")
    distinct = list({record.position: record for record in ranking.records}.values())
    best = distinct[:k]
    kept, used = [], 0
    for record in best:
        if budget_tokens is not None:
            # Whatever the order by date, the kept ones are numbered 1, 2, 3 and so on.
            block = _block(len(kept) + 1, record, layout)
            n_tokens = count_tokens(block + SEPARATOR)
            if used + n_tokens > budget_tokens:
                if holes:
                    continue
                break
            used += n_tokens
        kept.append(record)
    kept.sort(key=lambda record: (record.date, record.position))
    return tuple(kept), len(best) - len(kept)


def lay_out(
    records: Sequence[Record], layout: Layout, notes: Sequence[str] | None = None
) -> str:
    """The history as text: a block for each record, with number, date and content.

    notes  what to show instead of each record's value (con-separate)

    A value of note texts is a list of strings in JSON, and has a line a text in NL.

    >>> from datetime import datetime
    >>> from lme_utils.schema import Turn
    >>> turns = (Turn("user", "Hi"), Turn("assistant", "Hello"))
    >>> one = Record("a", "Hi", turns, datetime(2023, 5, 20, 2, 21), (0, -1), False)
    >>> print(lay_out([one], "json"))
    ### Session 1
    Date: 2023/05/20 (Sat) 02:21
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    """
    return SEPARATOR.join(
        _block(i + 1, record, layout, None if notes is None else notes[i])
        for i, record in enumerate(records)
    )


def answer_messages(
    instance: Instance,
    records: Sequence[Record],
    layout: Layout,
    method: Method,
    notes: Sequence[str] | None = None,
) -> Messages:
    """The one user message that asks for the answer.

    notes  one text a record, for con-separate; its answer is then asked for directly
    """
    if (method == "con-separate") != (notes is not None):
        raise ValueError(
            f"method {method!r}: notes are for con-separate, and only there"
        )
    end = ENDS["direct" if method == "con-separate" else method]
    return _message(instance, lay_out(records, layout, notes), end)


def note_messages(instance: Instance, record: Record, layout: Layout) -> Messages:
    """The message that asks for notes on one record (con-separate)."""
    return _message(instance, lay_out([record], layout), ENDS["con-separate"])


def _block(number: int, record: Record, layout: Layout, note: str | None = None) -> str:
    content = _content(record, layout) if note is None else note
    return f"### Session {number}\nDate: {format_date(record.date)}\n{content}"


def _content(record: Record, layout: Layout) -> str:
    """A record's value: its turns, or the texts of a note."""
    of_texts = bool(record.value) and isinstance(record.value[0], str)
    if layout == "nl":
        return "\n".join(record.value) if of_texts else turns_text(record.value)
    shown = (
        record.value
        if of_texts
        else [{"role": t.role, "content": t.content} for t in record.value]
    )
    return json.dumps(shown, ensure_ascii=False)


def _message(instance: Instance, history: str, end: str) -> Messages:
    closing = read_prompt(end).format(
        date=format_date(instance.question_date), question=instance.question
    )
    content = f"{read_prompt('read_start')}\n\n{history}\n\n{closing}"
    return ({"role": "user", "content": content},)
