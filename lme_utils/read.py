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
from collections.abc import Callable, Sequence

from .config import read_prompt
from .index import turns_text
from .schema import Instance, Layout, Method, Ranking, Record, format_date

Messages = tuple[dict[str, str], ...]
METHODS: tuple[Method, ...] = ("direct", "con", "con-separate")
LAYOUTS: tuple[Layout, ...] = ("json", "nl")


def choose_records(
    ranking: Ranking,
    k: int | None = None,
    budget_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
    layout: Layout = "json",
) -> tuple[tuple[Record, ...], int]:
    """What the reader gets: the best records that fit, in order of date.

    k              at most so many records, from the best (None: all)
    budget_tokens  at most so many tokens, blocks counted as laid out (None: no limit).
                   A record that does not fit is left out whole; smaller ones after it
                   may still come in
    count_tokens   the reader's tokeniser; needed with `budget_tokens`
    returns        (records by date, how many did not fit)

    A record that stands in the ranking twice (separate keys) is read once.
    """
    if budget_tokens is not None and count_tokens is None:
        raise ValueError("budget_tokens needs count_tokens, the reader's tokeniser")
    distinct = list({record.position: record for record in ranking.records}.values())
    kept, n_left_out, used = [], 0, 0
    for record in distinct[:k]:
        if budget_tokens is not None:
            n_tokens = count_tokens(lay_out([record], layout))
            if used + n_tokens > budget_tokens:
                n_left_out += 1
                continue
            used += n_tokens
        kept.append(record)
    kept.sort(key=lambda record: (record.date, record.position))
    return tuple(kept), n_left_out


def lay_out(
    records: Sequence[Record], layout: Layout, notes: Sequence[str] | None = None
) -> str:
    """The history as text: a block for each record, with number, date and content.

    notes  what to show instead of each record's turns (con-separate)

    >>> from datetime import datetime
    >>> from lme_utils.schema import Turn
    >>> turns = (Turn("user", "Hi"), Turn("assistant", "Hello"))
    >>> one = Record("a", "Hi", turns, datetime(2023, 5, 20, 2, 21), (0, -1), False)
    >>> print(lay_out([one], "json"))
    ### Session 1
    Date: 2023/05/20 (Sat) 02:21
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    """
    blocks = []
    for i, record in enumerate(records):
        if notes is not None:
            content = notes[i]
        elif layout == "json":
            content = json.dumps(
                [{"role": t.role, "content": t.content} for t in record.value],
                ensure_ascii=False,
            )
        else:
            content = turns_text(record.value)
        blocks.append(
            f"### Session {i + 1}\nDate: {format_date(record.date)}\n{content}"
        )
    return "\n\n".join(blocks)


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
    end = "read_con" if method == "con" else "read_direct"
    return _message(instance, lay_out(records, layout, notes), end)


def note_messages(instance: Instance, record: Record, layout: Layout) -> Messages:
    """The message that asks for notes on one record (con-separate)."""
    return _message(instance, lay_out([record], layout), "read_note")


def _message(instance: Instance, history: str, end: str) -> Messages:
    closing = read_prompt(end).format(
        date=format_date(instance.question_date), question=instance.question
    )
    content = f"{read_prompt('read_start')}\n\n{history}\n\n{closing}"
    return ({"role": "user", "content": content},)
