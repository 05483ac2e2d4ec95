"""The objects that travel through the study: frozen, small, and free of labels where
a model could see them.

A `Session` is text only. Who said where the answer is lives beside it, in the `Entry`
that places the session in one history, so that a prompt made from sessions cannot leak
a label. Paper: §3.1 (the task), §4 (keys and values).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

QUESTION_TYPES = (
    "single-session-user",
    "single-session-assistant",
    "single-session-preference",
    "multi-session",
    "knowledge-update",
    "temporal-reasoning",
)
ABSTENTION = "abstention"
KINDS = (*QUESTION_TYPES, ABSTENTION)  # the seven kinds of the paper

Compat = Literal["official", "fixed"]
Granularity = Literal["session", "turn"]
Value = Literal["V", "summary", "fact"]
Layout = Literal["json", "nl"]
Method = Literal["direct", "con", "con-separate"]
Status = Literal["ok", "failed", "not run"]
Merging = Literal["key", "best", "rrf"]
Query = Literal["question", "rules", "model"]
Times = Literal["session", "text", "events"]
Out = Literal["end", "drop", "soft", "fall back"]

DATE_FORMAT = "%Y/%m/%d (%a) %H:%M"


def format_date(date: datetime) -> str:
    """The date as the data files write it.

    >>> format_date(datetime(2023, 5, 20, 2, 21))
    '2023/05/20 (Sat) 02:21'
    """
    return date.strftime(DATE_FORMAT)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. `role` is "user" or "assistant"; `content` may be empty."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Session:
    """The text of one conversation, stored once however many histories hold it.

    digest  hex sha256 over roles and contents, the session's identity
    turns   in order; may be empty in uncleaned files
    """

    digest: str
    turns: tuple[Turn, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in a history: a session, its id and date there, and its labels.

    has_answer  per turn: True, False, or None where the file has no label.
                Labels are for scoring only and never reach a model.
    """

    session_id: str
    date: datetime
    session: Session
    has_answer: tuple[bool | None, ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """One question with its history, in the file's order (paper §3.1).

    answer   always text; integers of the file are written out
    """

    question_id: str
    question_type: str
    question: str
    question_date: datetime
    answer: str
    answer_session_ids: tuple[str, ...]
    history: tuple[Entry, ...]

    @property
    def is_abstention(self) -> bool:
        """Whether the history does not hold the answer (`_abs` in the id)."""
        return "_abs" in self.question_id

    @property
    def kind(self) -> str:
        """One of the seven `KINDS`: the question type, or "abstention"."""
        return ABSTENTION if self.is_abstention else self.question_type


@dataclass(frozen=True, slots=True)
class Record:
    """One item of an index (paper §4): found by its key, read by its value.

    id        as the authors write it: session id, or `{session id}_{turn number}`
    key       text that is searched
    value     what the reader gets: the turns of a whole session or of one round, or
              the texts of a note on them
    position  (place in the history, turn number from 0, or -1 for a session);
              unique inside an instance where ids are not
    gold      whether it holds evidence; scoring only
    """

    id: str
    key: str
    value: tuple[Turn, ...] | tuple[str, ...]
    date: datetime
    position: tuple[int, int]
    gold: bool


@dataclass(frozen=True, slots=True)
class Ranking:
    """The records of one question, best first, with their scores (same length)."""

    question_id: str
    records: tuple[Record, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """One configuration: the four control points of the paper (§4) and who reads.

    CP1 value: `granularity`, and what is read of each item: `value` is "V" (its turns),
    or the "summary" or the facts ("fact") noted about it. Items are found by their
    keys, whatever their value.

    CP2 key: `retriever` is one of `retrieve.rank` (its "dense" means the profile's
    embedder), the name of another embedder, or "log" (the rankings of a file). `key` is
    "V" (the text itself), a kind of note ("summary", "keyphrase", "fact"), or both
    ("V+fact"); `merging` says how both become one ranking: "key" puts the note before
    the text, "best" and "rrf" rank them apart (`retrieve.fuse`). `split` searches each
    sentence, phrase or fact of a note by itself.

    CP3 query: "question", or with a range of dates found by "rules" or by a "model";
    `times` says what dates a session: its own date, dates that rules find in the
    user's text, or the events that a model noted; `out` what becomes of sessions
    outside the range (`timeline.prune`).

    CP4 reading: `layout`, `method`, and the budget: the first `k` items, or as many
    whole items as fit `budget_tokens` of the reader's tokens (None: no limit). With the
    retriever "newest" or "oldest" that is the history, cut at one end.

    reader  an endpoint of the profile; "" where only retrieval is asked for
    compat  how keys, time and scores are made, see `index`
    """

    reader: str = ""
    retriever: str = "oracle"
    granularity: Granularity = "session"
    value: Value = "V"
    key: str = "V"
    merging: Merging = "key"
    split: bool = False
    query: Query = "question"
    times: Times = "events"
    out: Out = "end"
    compat: Compat = "fixed"
    layout: Layout = "json"
    method: Method = "con"
    k: int | None = None
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader replied to one question, or why it did not.

    finish_reason           the server's; "length" where the limit cut the answer off
    n_prompt, n_completion  tokens as the server counted them
    source                  "recorded", "stored" or "live"; "" when not run
    """

    question_id: str
    hypothesis: str
    status: Status = "ok"
    reason: str = ""
    finish_reason: str = ""
    n_prompt: int = 0
    n_completion: int = 0
    latency_s: float = 0.0
    usd: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one answer is right, who says so, and why.

    label   True, False, or None where the judge gave no usable verdict
    p_yes   the judge's probability of "yes", where it gives one
    """

    question_id: str
    label: bool | None
    judge: str
    reason: str = ""
    p_yes: float | None = field(default=None)
