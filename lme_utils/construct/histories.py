"""Histories of any length for the questions of a LongMemEval file, streamed to disk.

The distinct sessions of the file are the pool. Their texts go to a scratch file and
come back from it, so that memory holds a line about each session and one history, never
the pool: an M-sized file (500 questions, 500 sessions each) needs little more than the
interpreter.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from ..files import written_aside
from ..formats import open_data, parse_date, read_raw, to_instance
from ..llm import count_tokens
from ..schema import Entry, format_date
from .haystack import Filler, Placed, Recipe, eligible, place

BARE = re.compile(r"^(?:answer|noans)_")


def write_instances(path: Path, lines: Iterable[str]) -> None:
    """Write instances, each a JSON object on a line of its own, as a JSON list."""
    with written_aside(path) as aside, open(aside, "w", encoding="utf-8") as file:
        before = "[\n"
        for line in lines:
            file.write(before + line)
            before = ",\n"
        file.write("\n]\n" if before == ",\n" else "[]\n")


def official_line(
    fields: Mapping[str, Any],
    history: Sequence[Placed],
    session_text: Callable[[str], str],
    answer_session_ids: Sequence[str],
) -> str:
    """One instance of the official format as JSON.

    fields        question_id, question_type, question, answer, question_date
    session_text  from a session id to the session's turns as JSON
    """
    head = {
        **fields,
        "haystack_dates": [format_date(p.date) for p in history],
        "haystack_session_ids": [p.session_id for p in history],
        "answer_session_ids": list(answer_session_ids),
    }
    sessions = ", ".join(session_text(p.session_id) for p in history)
    return f'{dumps(head)[:-1]}, "haystack_sessions": [{sessions}]}}'


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def history_rng(seed: int, question_id: str) -> random.Random:
    """The chance behind one history: the same for the same seed and question."""
    return random.Random(f"{seed} {question_id}")


PREFIXES = {  # of LongMemEval's ids and of mini's
    "sharegpt": "assistant-chat", "chat_": "assistant-chat",
    "ultrachat": "open-chat", "open_": "open-chat",
}  # fmt: skip


def source_of(session_id: str) -> str:
    """Where a session comes from, as its id tells.

    >>> [source_of(i) for i in ("sharegpt_yywf_0", "open_66103", "85a1be56_1")]
    ['assistant-chat', 'open-chat', 'simulated']
    """
    found = (s for prefix, s in PREFIXES.items() if session_id.startswith(prefix))
    return next(found, "simulated")


def background_of(session_id: str) -> str:
    """What stands for the attribute of a real session: the first part of its id.

    Simulated sessions made from one background share it; open sessions have none.

    >>> background_of("answer_85a1be56_2"), background_of("sharegpt_yywf_0")
    ('85a1be56', '')
    """
    bare = BARE.sub("", session_id)
    if source_of(bare) != "simulated":
        return ""
    return re.sub(r"^(gpt4|.*?)_?([0-9a-f]{8}).*$", r"\2", bare)


@dataclass(frozen=True, slots=True)
class Built:
    """What was written.

    n_moved  questions of which evidence was moved to before the question
    """

    n_questions: int
    n_sessions: int
    n_pool: int
    n_moved: int


def build_history(
    data: Path,
    out: Path,
    recipe: Recipe,
    seed: int,
    keep_clashes: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Built:
    """Write the questions of a file with new histories made of the file's sessions.

    data          official JSON, plain, `.xz` or `.gz`
    out           the new file; whole, or not there
    keep_clashes  let sessions made from the same background as the evidence stand in a
                  history. The files do not name attributes; the first part of an id is
                  all they tell
    progress      called with (questions written, questions)

    Evidence keeps its labels and dates, its session ids and its order; every other
    session loses labels and the `answer_` of its id. Raises ValueError, naming the
    question and the numbers, where a history can't be made.
    """
    with TemporaryFile(dir=_folder(out)) as spool:
        pool = _Pool(spool)
        questions = list(_collect(data, pool))
        n_sessions = n_moved = 0

        def lines() -> Iterator[str]:
            nonlocal n_sessions, n_moved
            for done, question in enumerate(questions, 1):
                history, moved = _history(question, pool, recipe, seed, keep_clashes)
                n_sessions += len(history)
                n_moved += moved
                yield official_line(
                    question.fields,
                    history,
                    lambda name, q=question: q.evidence.get(name) or pool.text(name),
                    question.answer_session_ids,
                )
                if progress:
                    progress(done, len(questions))

        write_instances(out, lines())
    return Built(len(questions), n_sessions, len(pool.fillers), n_moved)


def _folder(out: Path) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    return out.parent


class _Pool:
    """The distinct sessions of a file: a line about each, texts in a scratch file."""

    def __init__(self, spool: BinaryIO) -> None:
        self.fillers: list[Filler] = []
        self._spool = spool
        self._names: dict[str, str] = {}  # digest to the name it has here
        self._places: dict[str, tuple[int, int]] = {}

    def add(self, entry: Entry) -> str:
        """Take a session that was not seen before; returns the name it has here."""
        digest, name = entry.session.digest, BARE.sub("", entry.session_id)
        if digest in self._names or name in self._places or not entry.session.turns:
            return self._names.get(digest, name)
        text = _turns_json(entry, labels=False)
        encoded = text.encode("utf-8", "surrogatepass")
        start = self._spool.seek(0, 2)
        self._spool.write(encoded)
        self._names[digest] = name
        self._places[name] = start, len(encoded)
        self.fillers.append(
            Filler(name, source_of(name), background_of(name), count_tokens(text))
        )
        return name

    def text(self, name: str) -> str:
        start, length = self._places[name]
        self._spool.seek(start)
        return self._spool.read(length).decode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class _Question:
    """own: names of its evidence in the pool; evidence: id to turns, labels kept."""

    fields: dict[str, Any]
    answer_session_ids: tuple[str, ...]
    placed: tuple[Placed, ...]
    evidence: dict[str, str]
    own: frozenset[str]


def _collect(data: Path, pool: _Pool) -> Iterator[_Question]:
    """The questions with their evidence; every session goes into the pool."""
    with open_data(data) as file:
        for where, raw in read_raw(file, str(data)):
            instance = to_instance(raw, where, {})
            names = {e.session_id: pool.add(e) for e in instance.history}
            own = {
                e.session_id: e
                for e in sorted(instance.history, key=lambda e: e.date)
                if e.session_id in instance.answer_session_ids
            }
            if missing := set(instance.answer_session_ids) - set(own):
                raise ValueError(
                    f"{where}: evidence {', '.join(missing)} is not in its history"
                )
            fields = "question_id question_type question answer question_date".split()
            evidence = {name: _turns_json(e, labels=True) for name, e in own.items()}
            yield _Question(
                {name: raw[name] for name in fields},
                instance.answer_session_ids,
                tuple(
                    Placed(name, e.date, count_tokens(evidence[name]))
                    for name, e in own.items()
                ),
                evidence,
                frozenset(names[name] for name in own)
                | {BARE.sub("", name) for name in own},
            )


def _history(
    question: _Question, pool: _Pool, recipe: Recipe, seed: int, keep_clashes: bool
) -> tuple[list[Placed], bool]:
    clashes = () if keep_clashes else {background_of(name) for name in question.own}
    may_stand = [
        filler
        for filler in eligible(pool.fillers, clashes)
        if filler.session_id not in question.own
    ]
    name = question.fields["question_id"]
    asked = parse_date(question.fields["question_date"])
    kind = question.fields["question_type"]
    rng = history_rng(seed, name)
    try:
        history = place(question.placed, asked, kind, may_stand, recipe, rng)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    moved = recipe.compat == "fixed" and any(p.date >= asked for p in question.placed)
    return history, moved


def _turns_json(entry: Entry, labels: bool) -> str:
    return dumps(
        [
            {"role": turn.role, "content": turn.content}
            | ({"has_answer": label} if labels and label is not None else {})
            for turn, label in zip(entry.session.turns, entry.has_answer, strict=True)
        ]
    )
