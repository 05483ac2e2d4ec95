"""What the embedded benchmark is made from: attributes, questions, chats, checked.

The sources are four files in `data/sources/`:

    attributes.json  the ontology (paper, Table 5): 164 things a user can talk about
    questions.json   questions with backgrounds, evidence statements and sessions
    chats.json       sessions that answer nothing, for the histories
    decisions.csv    what the reviewers said of each question

A session is written as a list of texts, the user's first, then in turns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from ..config import ROOT
from ..formats import FormatError

SOURCES = ROOT / "data" / "sources"
MOST_ROUNDS = 10  # paper, §3.2: a simulated conversation has at most ten rounds
DATE = "%Y/%m/%d %H:%M"  # the sources' dates; the weekday follows from it

Source = Literal["simulated", "assistant-chat", "open-chat"]
Texts = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    Field(min_length=2, max_length=2 * MOST_ROUNDS),
]


def _to_date(value: Any) -> Any:
    return datetime.strptime(value, DATE) if isinstance(value, str) else value


Date = Annotated[datetime, BeforeValidator(_to_date)]


class _Item(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Attribute(_Item):
    """One line of the ontology. `attribute` is its number, as in the paper's table."""

    attribute: str
    group: str
    subgroup: str
    name: str


class Evidence(_Item):
    """One evidence session.

    statement  the one fact that it gives, in the third person
    cue        words of an evidence turn that carry the fact
    turns      places of the turns that hold it, from 0; even: user, odd: assistant
    """

    date: Date
    statement: str
    cue: str
    turns: tuple[int, ...] = Field(min_length=1)
    session: Texts
    session_id: str = ""


class Question(_Item):
    """A question with all that is known about it.

    keywords    what a filler must not mention, lest it answer or contradict
    trap        what invites a wrong answer
    time_cue    where the dates of a temporal question come from: the sessions' own
                dates, expressions in the talk, or both
    background  the user and the topic; the question was made from it
    twin_of     for a false-premise question: whose sessions it shares
    """

    question_id: str
    question_type: str
    question: str
    answer: str | int
    question_date: Date
    attribute: str
    keywords: tuple[str, ...]
    difficulty: Literal["easy", "medium", "hard"]
    trap: Literal["none", "considering", "other-person", "near-miss", "false-premise"]
    time_cue: Literal["timestamp", "expression", "both", ""] = ""
    background: str
    evidence: tuple[Evidence, ...] = Field(min_length=1, max_length=6)
    twin_of: str = ""

    @model_validator(mode="after")
    def _dates_ascend(self) -> Question:
        dates = [entry.date for entry in self.evidence] + [self.question_date]
        if any(a >= b for a, b in pairwise(dates)):
            raise ValueError("dates: wanted evidence in order, then the question")
        for i, entry in enumerate(self.evidence):
            if not all(0 <= turn < len(entry.session) for turn in entry.turns):
                raise ValueError(f"evidence[{i}].turns: no such turn in the session")
        return self

    @property
    def is_abstention(self) -> bool:
        return "_abs" in self.question_id

    @property
    def kind(self) -> str:
        """One of the seven kinds: the question type, or "abstention"."""
        return "abstention" if self.is_abstention else self.question_type

    @cached_property
    def session_ids(self) -> tuple[str, ...]:
        """An id for each evidence session; a twin has those of its original."""
        stem = hashlib.sha256((self.twin_of or self.question_id).encode()).hexdigest()
        return tuple(
            entry.session_id or f"answer_{stem[:8]}_{i + 1}"
            for i, entry in enumerate(self.evidence)
        )

    @cached_property
    def digest(self) -> str:
        """Twelve hex digits that change with anything a reader of the item sees."""
        seen = self.model_dump_json(exclude={"difficulty", "trap"})
        return hashlib.sha256(seen.encode()).hexdigest()[:12]


class Chat(_Item):
    """A session that answers nothing.

    attribute  what a simulated user talks about; None for the open sources
    """

    session_id: str
    source: Source
    topic: str
    attribute: str | None = None
    session: Texts

    @model_validator(mode="after")
    def _simulated_has_attribute(self) -> Chat:
        if (self.source == "simulated") != (self.attribute is not None):
            raise ValueError("attribute: simulated sessions have one, others none")
        return self


def load_attributes(path: Path = SOURCES / "attributes.json") -> list[Attribute]:
    """The ontology, in the order of the paper's Table 5."""
    return [_checked(Attribute, raw, path, i) for i, raw in enumerate(_read(path))]


def load_questions(path: Path = SOURCES / "questions.json") -> list[Question]:
    """All questions; a twin gets type, attribute and sessions of its original.

    Raises FormatError naming file, place and field.
    """
    raw_by_id: dict[str, dict[str, Any]] = {}
    questions = []
    for i, raw in enumerate(_read(path)):
        if original := raw.get("twin_of"):
            if original not in raw_by_id:
                raise FormatError(
                    f"{path}: item {i}: twin_of: got {original!r}, wanted the id of a "
                    "question above it"
                )
            shared = ("question_type", "attribute", "keywords", "background")
            shared += ("evidence", "time_cue")
            old = raw_by_id[original]
            raw = {f: old[f] for f in shared if f in old} | raw
        question = _checked(Question, raw, path, i)
        if question.question_id in raw_by_id:
            raise FormatError(f"{path}: item {i}: {question.question_id} stands twice")
        raw_by_id[question.question_id] = raw
        questions.append(question)
    return questions


def load_chats(path: Path = SOURCES / "chats.json") -> list[Chat]:
    """All sessions that answer nothing. Raises FormatError as `load_questions`."""
    return [_checked(Chat, raw, path, i) for i, raw in enumerate(_read(path))]


def turns(texts: Sequence[str], evidence: Sequence[int] | None = None) -> list[dict]:
    """A session as the data files write it.

    evidence  places of the turns to label true; None: no labels

    >>> turns(["Hi", "Hello"], [0])[0]
    {'role': 'user', 'content': 'Hi', 'has_answer': True}
    """
    return [
        {"role": ("user", "assistant")[i % 2], "content": text}
        | ({} if evidence is None else {"has_answer": i in evidence})
        for i, text in enumerate(texts)
    ]


def _read(path: Path) -> list[Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path}: not JSON ({error})") from None
    if not isinstance(found, list):
        raise FormatError(f"{path}: got {type(found).__name__}, wanted a list")
    return found


def _checked(model: type[_Item], raw: Any, path: Path, index: int) -> Any:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        name = ""
        if isinstance(raw, Mapping):
            name = raw.get("question_id") or raw.get("session_id") or ""
        where = ".".join(str(part) for part in first["loc"])
        raise FormatError(
            f"{path}: item {index} ({name}): {where}: {first['msg']}; got "
            f"{str(first['input'])[:60]!r}"
        ) from None
