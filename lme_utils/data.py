"""Loading LongMemEval files, streamed, and saying what is in them."""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from .config import ROOT
from .formats import SessionStore, open_data, read_raw, to_instance
from .schema import Entry, Instance, Session

if TYPE_CHECKING:
    import numpy as np

# What breaks tools that work line by line.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\u2028\u2029]")


def load_instances(
    path: str | Path, sessions: SessionStore | None = None
) -> Iterator[Instance]:
    """Yield the instances of a file one by one, in its order.

    path      official JSON, plain, `.xz` or `.gz`
    sessions  distinct sessions by digest; filled as the file is read. Pass one store
              to several files to share the text they have in common.

    Memory stays constant but for the distinct sessions, whatever the file's size.
    Raises `formats.FormatError` naming file, index, question id and field.
    """
    store = {} if sessions is None else sessions
    with open_data(path) as file:
        for where, raw in read_raw(file, str(path)):
            yield to_instance(raw, where, store)


def load_sample(path: str | Path, question_ids: Collection[str]) -> list[Instance]:
    """The instances with these ids, in the file's order; all of them if none is named.

    Raises ValueError naming ids that the file does not have.
    """
    wanted = set(question_ids)
    chosen = [
        item
        for item in load_instances(path)
        if not wanted or item.question_id in wanted
    ]
    missing = wanted - {item.question_id for item in chosen}
    if missing:
        raise ValueError(f"{path}: no question {', '.join(sorted(missing))}")
    return chosen


def shorten(instance: Instance, n_fillers: int, rng: np.random.Generator) -> Instance:
    """The question with a part of its history: the evidence and some of the rest.

    n_fillers  how many of the other sessions stay, drawn without replacement; all of
               them where there are not more
    returns    the instance with every place of a session in `answer_session_ids`, and
               the places drawn, in the history's order

    Of generators with the same seed, a longer history holds all of a shorter one.
    Raises ValueError for a negative `n_fillers`. Paper §3.2: histories of any length.
    """
    if n_fillers < 0:
        raise ValueError(f"n_fillers: got {n_fillers}, wanted 0 or more")
    is_evidence = [
        e.session_id in instance.answer_session_ids for e in instance.history
    ]
    fillers = [place for place, found in enumerate(is_evidence) if not found]
    drawn = {fillers[i] for i in rng.permutation(len(fillers))[:n_fillers]}
    kept = tuple(
        entry
        for place, entry in enumerate(instance.history)
        if is_evidence[place] or place in drawn
    )
    return replace(instance, history=kept)


def evidence_positions(instance: Instance) -> tuple[float, ...]:
    """Where in the history each evidence session stands, in the history's order.

    returns  in [0, 1]: 0 is the first session of the file (the oldest, where the file
             is in order of time), 1 the last, next to the question. The only session
             of a history is the last. A session that stands there twice counts twice,
             one that the file lists but does not hold not at all
    """
    last = len(instance.history) - 1
    return tuple(
        place / last if last else 1.0
        for place, entry in enumerate(instance.history)
        if entry.session_id in instance.answer_session_ids
    )


def describe(path: str | Path) -> dict[str, Any]:
    """Count what is in a file, its traps included.

    Returns a dictionary that can be written as JSON:
    file       name, bytes and sha256 of the JSON (unpacked), order of the keys
    questions  by type, abstention by type, answers that are integers, and how many
               answerable ones need more than one session (by id, and by label)
    sessions   how many, how many distinct ids and texts, shapes that break a loop
               over rounds, turns that are empty, the longest turn (characters)
    labels     evidence sessions, those without a true turn, fillers with a label
    order      histories sorted by clock, by day only, unsorted; tied times; times
               after the question's
    ids        for each trap that a question can have, the ids of those that do

    Sessions are counted each time a history holds them. Raises as `load_instances`.
    """
    store: SessionStore = {}
    session_ids: set[str] = set()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    ids: dict[str, list[str]] = defaultdict(list)
    key_orders: Counter[str] = Counter()
    disputed = known_issues()
    longest = 0
    with open_data(path) as packed:
        file = _Hashing(packed)
        for where, raw in read_raw(file, str(path)):
            item = to_instance(raw, where, store)
            key_orders[", ".join(raw)] += 1
            session_ids.update(entry.session_id for entry in item.history)
            if isinstance(raw["answer"], int):
                ids["answer is an integer"].append(item.question_id)
            if item.question_id in disputed:
                ids["label disputed upstream"].append(item.question_id)
            for trap in _question_traps(item):
                ids[trap].append(item.question_id)
            counts["types"][item.question_type] += 1
            counts["abstention"][item.question_type] += item.is_abstention
            counts["order"][_order(item)] += 1
            for entry in item.history:
                counts["sessions"].update(_session_shapes(entry.session))
                counts["labels"].update(_label_shapes(item, entry))
                longest = max(
                    longest, *(len(t.content) for t in entry.session.turns), 0
                )
    return {
        "file": {
            "name": Path(path).name,
            "bytes": file.n_bytes,
            "sha256": file.digest.hexdigest(),
            "key_order": dict(key_orders),
        },
        "questions": {
            "total": counts["types"].total(),
            "by_type": dict(counts["types"]),
            "abstention": counts["abstention"].total(),
            "abstention_by_type": dict(+counts["abstention"]),
        },
        "sessions": {
            "total": counts["labels"].total(),
            "distinct_ids": len(session_ids),
            "distinct_texts": len(store),
            "longest_turn_chars": longest,
            **dict(counts["sessions"]),
        },
        "labels": dict(counts["labels"]),
        "order": dict(counts["order"]),
        "traps": {trap: len(names) for trap, names in sorted(ids.items())},
        "ids": {trap: names for trap, names in sorted(ids.items())},
    }


def known_issues() -> dict[str, str]:
    """Questions whose labels are disputed upstream: id to note."""
    with open(ROOT / "data" / "known_issues.csv", encoding="utf-8", newline="") as file:
        return {row["question_id"]: row["note"] for row in csv.DictReader(file)}


class _Hashing:
    """A file that hashes and counts what is read from it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest, self.n_bytes = file, hashlib.sha256(), 0

    def read(self, size: int = -1) -> bytes:
        block = self.file.read(size)
        self.digest.update(block)
        self.n_bytes += len(block)
        return block


def _question_traps(item: Instance) -> Iterator[str]:
    evidence = [e for e in item.history if e.session_id in item.answer_session_ids]
    names = [e.session_id for e in item.history]
    dates = [e.date for e in item.history]
    if not item.is_abstention:
        if len(item.answer_session_ids) > 1:
            yield "answerable, more than one evidence session"
        if sum(any(e.has_answer) for e in evidence) > 1:
            yield "answerable, more than one labelled evidence session"
        if not any(
            label and turn.role == "user"
            for e in evidence
            for turn, label in zip(e.session.turns, e.has_answer, strict=True)
        ):
            yield "answerable, no evidence on the user's side"
    if len(set(names)) < len(names):
        yield "a session id repeats"
    if len(set(dates)) < len(dates):
        yield "two sessions at the same time"
    if any(date > item.question_date for date in dates):
        yield "a session after the question"
    if any(e.date > item.question_date for e in evidence):
        yield "an evidence session after the question"
    if set(item.answer_session_ids) - set(names):
        yield "an evidence session not in the history"


def _order(item: Instance) -> str:
    dates = [entry.date for entry in item.history]
    if all(a <= b for a, b in pairwise(dates)):
        return "by clock"
    by_day = all(a.date() <= b.date() for a, b in pairwise(dates))
    return "by day only" if by_day else "unsorted"


def _session_shapes(session: Session) -> Iterator[str]:
    turns = session.turns
    if not turns:
        yield "empty"
        return
    if turns[0].role == "assistant":
        yield "start with the assistant"
    if turns[-1].role == "user":
        yield "end with the user"
    if len(turns) == 1:
        yield "one turn"
    if any(a.role == b.role for a, b in pairwise(turns)):
        yield "two turns of one role in a row"
    if any(_UNPRINTABLE.search(turn.content) for turn in turns):
        yield "control characters or U+2028"
    yield from ("empty turns" for turn in turns if not turn.content)


def _label_shapes(item: Instance, entry: Entry) -> Iterator[str]:
    if entry.session_id not in item.answer_session_ids:
        labelled = any(label is not None for label in entry.has_answer)
        yield "filler with a label" if labelled else "filler"
    else:
        yield "evidence" if any(entry.has_answer) else "evidence without a true turn"
