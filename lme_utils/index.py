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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

from .schema import Compat, Entry, Granularity, Instance, Record, Session, Turn

Join = Literal["merge", "replace", "separate"]
Quirk = Literal["delete", "skip", "promote"]
Expansions = Mapping[str, str | list[str]]
OFFICIAL_QUIRKS: frozenset[Quirk] = frozenset({"delete", "skip", "promote"})


def build_records(
    instance: Instance,
    granularity: Granularity = "session",
    compat: Compat = "fixed",
    expansions: Expansions | None = None,
    join: Join = "merge",
    split: bool = False,
) -> tuple[Record, ...]:
    """The index of one history, in the history's order.

    granularity  "session": one record a session. "turn": one record a user turn, read
                 together with the reply (the paper's round).
    expansions, join, split   as for `expand`, which follows where they are given

    Paper §4 (CP1, CP2), §5.3, appendix D.
    """
    records = tuple(
        record
        for place, entry in enumerate(instance.history)
        for record in _records_of(instance, place, entry, granularity, compat)
    )
    if expansions is None:
        return records
    quirks = OFFICIAL_QUIRKS if compat == "official" else frozenset()
    return expand(records, expansions, join, split, quirks)


def expand(
    records: Sequence[Record],
    expansions: Expansions,
    join: Join = "merge",
    split: bool = False,
    quirks: Collection[Quirk] = (),
) -> tuple[Record, ...]:
    """Change the keys of an index by what was noted about its items (paper §5.3, D).

    expansions  text to find an item by, under its id without `answer_` or `noans_`:
                one text (summary, keyphrases) or a list of texts (facts)
    join        merge: before the key; replace: instead of it; separate: records of
                their own with the same value, after all others
    split       each text of a list makes a record of its own, instead of one for all
    quirks      what the authors' code does beyond that, by name:
                delete   an item with an empty list leaves the index (merge, replace)
                skip     an item renamed `noans` is never expanded (merge, replace)
                promote  separate records of an item renamed `noans` become evidence

    Without quirks an item with nothing to expand by keeps its own text.
    """
    expanded, extra = [], []
    for record in records:
        if "skip" in quirks and join != "separate" and "noans" in record.id:
            expanded.append(record)
            continue
        texts = _texts(expansions.get(bare_id(record.id)), split)
        if "delete" not in quirks:
            texts = [text.strip() for text in texts if text.strip()]
        if join == "separate":
            expanded.append(record)
            if "promote" in quirks:
                name = record.id.replace("noans", "answer")
                record = replace(record, id=name, gold="answer" in name)
        elif not texts and "delete" not in quirks:
            expanded.append(record)
        keys = [f"{text} {record.key}" if join == "merge" else text for text in texts]
        found = extra if join == "separate" else expanded
        found += [replace(record, key=key) for key in keys]
    return tuple(expanded + extra)


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


def _texts(found: str | list[str] | None, split: bool) -> list[str]:
    """The expansion as the texts that stand for an item; what is missing is empty."""
    if isinstance(found, list):
        return list(found) if split or not found else [" ".join(found)]
    return [found or ""]


def turns_text(turns: tuple[Turn, ...]) -> str:
    """Turns as plain text, one `role: content` paragraph each."""
    return "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns)
