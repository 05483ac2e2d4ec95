"""From a history to records: what is searched (key) and what is read (value).

Keys hold the user's side only, as in the paper (§5.1); values hold both sides. Two ways
of building them: `official` follows the authors' code, `fixed` is the default. Where
they differ:

                       official                        fixed
    gold               ids with "answer" in them       `answer_session_ids`; a round, if
                                                       a turn of it has a true label
    evidence on the    is renamed, no longer counts    counts: a miss is a miss
    assistant's side
    what is read       a user turn and the next turn   a user turn and all replies to it
    with a round
    expanded by an     leaves the index                keeps its own text
    empty list
    no evidence, in    is never expanded               is expanded like the rest
    an evidence
    session
    its expansions     become gold                     are gold if the item is
    kept separate
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Literal

from .schema import Compat, Entry, Granularity, Instance, Record, Session, Turn

Join = Literal["merge", "replace", "separate"]
Expansions = Mapping[str, str | list[str]]


def build_records(
    instance: Instance,
    granularity: Granularity = "session",
    compat: Compat = "fixed",
    expansions: Expansions | None = None,
    join: Join = "merge",
) -> tuple[Record, ...]:
    """The index of one history, in the history's order.

    granularity  "session": one record a session. "turn": one record a user turn, read
                 together with the reply (the paper's round).
    expansions   text to find an item by, under its id without `answer_` or `noans_`:
                 one text (summary, keyphrases) or a list of texts (facts)
    join         merge: before the key; replace: instead of it; separate: records of
                 their own with the same value

    Paper §4 (CP1, CP2), §5.3, appendix D.
    """
    records = [
        record
        for place, entry in enumerate(instance.history)
        for record in _records_of(instance, place, entry, granularity, compat)
    ]
    if expansions is None:
        return tuple(records)
    expand = _expand_official if compat == "official" else _expand_fixed
    return tuple(expand(records, expansions, join))


def bare_id(record_id: str) -> str:
    """The id without the label that the authors put in front of it.

    >>> bare_id("answer_280352e9_1"), bare_id("noans_280352e9_1"), bare_id("7b_2")
    ('280352e9_1', '280352e9_1', '7b_2')
    """
    return record_id.removeprefix("answer_").removeprefix("noans_")


def session_of(record_id: str) -> str:
    """The session's part of a turn's id.

    >>> session_of("answer_280352e9_1_5")
    'answer_280352e9_1'
    """
    return record_id.rpartition("_")[0]


@cache
def user_text(session: Session) -> str:
    """The user's side of a session, joined by spaces."""
    return " ".join(turn.content for turn in session.turns if turn.role == "user")


def _records_of(
    instance: Instance,
    place: int,
    entry: Entry,
    granularity: Granularity,
    compat: Compat,
) -> list[Record]:
    official = compat == "official"
    turns, labels = entry.session.turns, entry.has_answer
    listed = entry.session_id in instance.answer_session_ids
    user_turns = [i for i, turn in enumerate(turns) if turn.role == "user"]
    if granularity == "session":
        labelled = any(labels[i] for i in user_turns)
        name, gold = _official_label(entry.session_id, labelled)
        return [
            Record(
                id=name if official else entry.session_id,
                key=user_text(entry.session),
                value=turns,
                date=entry.date,
                position=(place, -1),
                gold=gold if official else listed,
            )
        ]
    records = []
    for n, i in enumerate(user_turns):
        end = user_turns[n + 1] if n + 1 < len(user_turns) else len(turns)
        start = 0 if n == 0 else i  # what the assistant says first goes to round one
        if official:  # the authors add the next turn, whatever its role
            start, end = i, i + 2
        name, gold = _official_label(f"{entry.session_id}_{i + 1}", bool(labels[i]))
        records.append(
            Record(
                id=name if official else f"{entry.session_id}_{i + 1}",
                key=turns[i].content,
                value=turns[start:end],
                date=entry.date,
                position=(place, i),
                gold=gold if official else listed and any(labels[start:end]),
            )
        )
    return records


def _official_label(name: str, labelled: bool) -> tuple[str, bool]:
    """The id as the authors rename it, and whether they count it as evidence."""
    if "answer" in name and not labelled:
        name = name.replace("answer", "noans")
    return name, "answer" in name


def _texts(found: str | list[str] | None) -> list[str]:
    """The expansion as the texts that stand for an item: one, or none."""
    if isinstance(found, list):
        return [" ".join(found)] if found else []
    return [found or ""]


def _expand_official(
    records: list[Record], expansions: Expansions, join: Join
) -> list[Record]:
    if join == "separate":
        extra = []
        for record in records:
            name = record.id.replace("noans", "answer")
            extra += [
                replace(record, id=name, key=text, gold="answer" in name)
                for text in _texts(expansions.get(bare_id(name)))
            ]
        return records + extra
    expanded = []
    for record in records:
        if "noans" in record.id:
            expanded.append(record)
            continue
        for text in _texts(expansions.get(bare_id(record.id))):
            key = f"{text} {record.key}" if join == "merge" else text
            expanded.append(replace(record, key=key))
    return expanded


def _expand_fixed(
    records: list[Record], expansions: Expansions, join: Join
) -> list[Record]:
    expanded, extra = [], []
    for record in records:
        text = " ".join(_texts(expansions.get(bare_id(record.id)))).strip()
        if not text:
            expanded.append(record)
        elif join == "merge":
            expanded.append(replace(record, key=f"{text} {record.key}"))
        elif join == "replace":
            expanded.append(replace(record, key=text))
        else:
            expanded.append(record)
            extra.append(replace(record, key=text))
    return expanded + extra


def turns_text(turns: tuple[Turn, ...]) -> str:
    """Turns as plain text, one `role: content` paragraph each."""
    return "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns)
