"""The official file format: every field checked at the door, nothing guessed.

The format is the authors' (paper §3.1 and their released JSON): a list of objects with
`question_id`, `question_type`, `question`, `answer`, `question_date`,
`answer_session_ids` and three lists of equal length, `haystack_dates`,
`haystack_session_ids` and `haystack_sessions`.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import ijson

from .schema import (
    DATE_FORMAT,
    QUESTION_TYPES,
    Entry,
    Instance,
    Session,
    Turn,
    format_date,
)

ROLES = ("user", "assistant")
SessionStore = dict[str, Session]


class FormatError(ValueError):
    """A file that is not in the format: says where, what was got, what was wanted."""


def open_data(path: str | Path) -> BinaryIO:
    """Open a plain, `.xz` or `.gz` file for reading bytes."""
    path = Path(path)
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    return opener(path, "rb")


def parse_date(text: str) -> datetime:
    """The date of a data file, with its clock.

    >>> parse_date("2023/05/20 (Sat) 02:21")
    datetime.datetime(2023, 5, 20, 2, 21)

    Raises ValueError for another form, and for a weekday that is not that day's.
    """
    date = datetime.strptime(text, DATE_FORMAT)
    if format_date(date) != text:
        raise ValueError(f"{text!r} is written {format_date(date)!r}")
    return date


def make_session(turns: tuple[Turn, ...]) -> Session:
    """A session with its digest, the same for the same roles and words."""
    digest = hashlib.sha256()
    for turn in turns:
        content = turn.content.encode("utf-8", "surrogatepass")
        digest.update(f"{turn.role} {len(content)} ".encode())
        digest.update(content)
    return Session(digest.hexdigest(), turns)


def to_official(instance: Instance) -> dict[str, Any]:
    """The instance as the authors' files write it, `has_answer` where it was."""
    return {
        "question_id": instance.question_id,
        "question_type": instance.question_type,
        "question": instance.question,
        "answer": instance.answer,
        "question_date": format_date(instance.question_date),
        "haystack_dates": [format_date(e.date) for e in instance.history],
        "haystack_session_ids": [e.session_id for e in instance.history],
        "haystack_sessions": [
            [
                {"role": turn.role, "content": turn.content}
                | ({} if label is None else {"has_answer": label})
                for turn, label in zip(e.session.turns, e.has_answer, strict=True)
            ]
            for e in instance.history
        ],
        "answer_session_ids": list(instance.answer_session_ids),
    }


def read_raw(file: BinaryIO, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where, object) for each object of the list; `where` starts messages.

    Raises FormatError for broken JSON, a list without objects, and ids given twice.
    """
    seen: dict[str, int] = {}
    try:
        for index, raw in enumerate(ijson.items(file, "item", use_float=True)):
            where = f"{name}: instance {index}"
            if not isinstance(raw, dict):
                raise FormatError(f"{where}: got {_show(raw)}, wanted an object")
            key = raw.get("question_id")
            if not isinstance(key, str) or not key:
                raise FormatError(
                    f"{where}: question_id: got {_show(key)}, wanted a text"
                )
            if key in seen:
                raise FormatError(
                    f"{where}: question_id: {key} is that of instance "
                    f"{seen[key]} too, wanted one of its own"
                )
            seen[key] = index
            yield f"{where} ({key})", raw
    except (ijson.JSONError, EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        after = f"after {len(seen)} whole instances" if seen else "at the start"
        raise FormatError(
            f"{name}: {after}: not complete JSON ({' '.join(str(error).split())}); "
            "wanted the whole official file: download it again"
        ) from None
    if not seen:
        raise FormatError(f"{name}: no instances: wanted a JSON list of objects")


def to_instance(raw: dict[str, Any], where: str, store: SessionStore) -> Instance:
    """The checked instance; its sessions are shared through `store`.

    Raises FormatError naming `where`, the field, what was got and what was wanted.
    """
    kind = _get(raw, "question_type", str, where)
    if kind not in QUESTION_TYPES:
        raise FormatError(
            f"{where}: question_type: got {_show(kind)}, wanted one of "
            + ", ".join(QUESTION_TYPES)
        )
    answer = raw.get("answer")
    if not isinstance(answer, str | int) or isinstance(answer, bool):
        raise FormatError(
            f"{where}: answer: got {_show(answer)}, wanted a text or a whole number"
        )
    dates = _get(raw, "haystack_dates", list, where)
    ids = _get(raw, "haystack_session_ids", list, where)
    sessions = _get(raw, "haystack_sessions", list, where)
    if not len(dates) == len(ids) == len(sessions):
        raise FormatError(
            f"{where}: haystack_dates, haystack_session_ids, haystack_sessions: got "
            f"{len(dates)}, {len(ids)}, {len(sessions)} items, wanted the same number"
        )
    evidence_ids = _get(raw, "answer_session_ids", list, where)
    for i, name in enumerate([*ids, *evidence_ids]):
        if not isinstance(name, str) or not name:
            field = "haystack_session_ids" if i < len(ids) else "answer_session_ids"
            raise FormatError(f"{where}: {field}: got {_show(name)}, wanted a text")
    return Instance(
        question_id=raw["question_id"],
        question_type=kind,
        question=_get(raw, "question", str, where),
        question_date=_date(raw.get("question_date"), f"{where}: question_date"),
        answer=str(answer),
        answer_session_ids=tuple(evidence_ids),
        history=tuple(
            _entry(name, date, turns, f"{where}: haystack_%s[{i}]", store)
            for i, (name, date, turns) in enumerate(
                zip(ids, dates, sessions, strict=True)
            )
        ),
    )


def _entry(
    name: str, date: Any, raw_turns: Any, where: str, store: SessionStore
) -> Entry:
    turns, labels = [], []
    if not isinstance(raw_turns, list):
        raise FormatError(
            f"{where % 'sessions'}: got {_show(raw_turns)}, wanted a list of turns"
        )
    for j, raw in enumerate(raw_turns):
        if not isinstance(raw, dict):
            raise FormatError(
                f"{where % 'sessions'}[{j}]: got {_show(raw)}, wanted a turn"
            )
        role, content = raw.get("role"), raw.get("content")
        label = raw.get("has_answer")
        for field, got, wanted, fine in (
            ("role", role, "user or assistant", role in ROLES),
            ("content", content, "a text", isinstance(content, str)),
            (
                "has_answer",
                label,
                "true or false",
                label is None or isinstance(label, bool),
            ),
        ):
            if not fine:
                raise FormatError(
                    f"{where % 'sessions'}[{j}].{field}: got {_show(got)}, "
                    f"wanted {wanted}"
                )
        turns.append(Turn(role, content))
        labels.append(label)
    session = make_session(tuple(turns))
    session = store.setdefault(session.digest, session)
    return Entry(name, _date(date, where % "dates"), session, tuple(labels))


def _get(raw: dict[str, Any], field: str, kind: type, where: str) -> Any:
    value = raw.get(field)
    if not isinstance(value, kind):
        wanted = {str: "a text", list: "a list"}[kind]
        got = _show(value) if field in raw else "nothing"
        raise FormatError(f"{where}: {field}: got {got}, wanted {wanted}")
    return value


def _date(value: Any, where: str) -> datetime:
    try:
        return parse_date(value)
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"{where}: got {_show(value)}, wanted a date like "
            f"'2023/05/20 (Sat) 02:21' ({error})"
        ) from None


def _show(value: Any) -> str:
    """A short picture of a value for a message."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
