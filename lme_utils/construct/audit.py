"""The audit of questions and sessions: what a machine can check, and who said yes.

Paper §3.2: experts read every session and ask whether the evidence is there, whether
other evidence leaked, whether it reads like a conversation and ends like one. What of
this can be decided by rules is decided here; the rest is a reviewer's decision, kept
with the hash of what was read, so that a later edit asks for another look.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import written_aside
from .items import SOURCES, Chat, Evidence, Question

if TYPE_CHECKING:
    import pandas as pd

DECISIONS = ("accept", "edit", "reject")
COLUMNS = ("question_id", "digest", "decision", "reason")

_META = re.compile(
    r"\b(as an ai|language model|remember this|for future reference|"
    r"keep in mind that i|i want you to know|(our|your) (previous|earlier|last) "
    r"(chat|conversation|session)|as we discussed|take note of)\b",
    re.IGNORECASE,
)
_PRAISE = re.compile(
    r"^(thanks|thank you|great|perfect|awesome|wonderful|that's great|sounds good)\b",
    re.IGNORECASE,
)
_FLATTERY = re.compile(
    r"^(great|certainly|of course|absolutely|good question|what a|happy to)\b|"
    r"\b(let me know if|feel free to|hope this helps|would you like me to)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*(?!\w)")
_MONTHS = "January February March April May June July August September October"
_MONTHS = "|".join([*_MONTHS.split(), "November", "December"])
_DATE = re.compile(rf"\b\d{{1,2}} (?:{_MONTHS})(?: \d{{4}})?|\b20\d\d(?:/\d\d)*\b")
_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen"
_ONES += " fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_DENIES = re.compile(r"\b(not|never|no|nothing|neither|only)\b|n't\b", re.IGNORECASE)
USER_CHARACTERS = (15, 450)  # of one user turn
REPLY_CHARACTERS = (150, 700)  # of one reply; 60 to 120 tokens, with room


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has against one session of one item."""

    item: str
    check: str
    what: str


def _sessions(item: Question | Chat) -> list[tuple[str, Sequence[str]]]:
    if isinstance(item, Chat):
        return [("", item.session)]
    return [(f"session {i + 1}: ", e.session) for i, e in enumerate(item.evidence)]


def check_end(item: Question | Chat) -> Iterator[str]:
    """A conversation ends with a finished reply."""
    for where, session in _sessions(item):
        if len(session) % 2:
            yield f"{where}the user has the last word"
        elif not re.search(r"[.!?)\]}\"'`»”’:;\w]$", session[-1]):
            yield f"{where}the last reply breaks off: {session[-1][-30:]!r}"


def check_turns(item: Question | Chat) -> Iterator[str]:
    """No turn is empty; lengths are those the data card states."""
    for where, session in _sessions(item):
        for i, text in enumerate(session):
            low, high = REPLY_CHARACTERS if i % 2 else USER_CHARACTERS
            if isinstance(item, Chat):
                low = 1 if i % 2 == 0 else 40
            if not text.strip() or not low <= len(text) <= high:
                yield f"{where}turn {i} has {len(text)} characters"


def check_talk(item: Question | Chat) -> Iterator[str]:
    """No talk about the conversation itself, no praise, no offers."""
    for where, session in _sessions(item):
        for i, text in enumerate(session):
            for pattern in (_META, _FLATTERY if i % 2 else _PRAISE):
                if found := pattern.search(text):
                    yield f"{where}turn {i}: {found.group()!r}"


def check_roles(question: Question) -> Iterator[str]:
    """Evidence is on the side that the type asks for."""
    wanted = question.question_type == "single-session-assistant"
    for i, entry in enumerate(question.evidence):
        if wrong := [turn for turn in entry.turns if turn % 2 != wanted]:
            yield f"session {i + 1}: turn {wrong[0]} is the other side's"


def check_statement(question: Question) -> Iterator[str]:
    """The statement can be recovered: its cue is in a labelled turn, and so is every
    number of it but dates, in digits or as a word, up to there."""
    for i, entry in enumerate(question.evidence):
        labelled = " ".join(entry.session[turn] for turn in entry.turns)
        if entry.cue not in labelled:
            yield f"session {i + 1}: cue {entry.cue!r} is in no labelled turn"
        said = " ".join(entry.session[: max(entry.turns) + 1]).lower()
        for number in _NUMBER.findall(_DATE.sub("", entry.statement)):
            if number not in said and _as_word(number) not in said:
                yield f"session {i + 1}: {number} of the statement is not said"


def check_leaks(question: Question) -> Iterator[str]:
    """A fact is said once: in its own turns, and in no other evidence session."""
    for i, entry in enumerate(question.evidence):
        for turn, text in enumerate(entry.session):
            if turn not in entry.turns and entry.cue.lower() in text.lower():
                yield f"session {i + 1}: cue also in turn {turn}"
        for j, other in enumerate(question.evidence):
            if j != i and entry.cue.lower() in " ".join(other.session).lower():
                yield f"session {j + 1} holds the cue of session {i + 1}"


def check_sum(question: Question) -> Iterator[str]:
    """No session of a multi-session question holds the number of the answer."""
    numbers = _NUMBER.findall(str(question.answer))
    if question.kind != "multi-session" or not numbers:
        return
    for i, entry in enumerate(question.evidence):
        users = " ".join(entry.session[::2])
        if numbers[0] in _NUMBER.findall(users):
            yield f"session {i + 1}: the user says {numbers[0]}"


def check_twin(question: Question) -> Iterator[str]:
    """An unanswerable question says in its answer that something was not said."""
    denied = _DENIES.search(str(question.answer))
    if question.is_abstention and not denied:
        yield "the answer does not say that something was not mentioned"
    if question.is_abstention != (question.trap == "false-premise"):
        yield f"trap {question.trap!r} does not fit the kind"


CHECKS: dict[str, Callable] = {
    "natural end": check_end,
    "turn lengths": check_turns,
    "no meta-talk": check_talk,
    "evidence on the right side": check_roles,
    "statement recoverable": check_statement,
    "said once, no leak": check_leaks,
    "answer not given away": check_sum,
    "twin has no answer": check_twin,
}
FOR_CHATS = ("natural end", "turn lengths", "no meta-talk")


def run_checks(items: Iterable[Question | Chat]) -> list[Finding]:
    """Every machine check over every item; an empty list says that nothing is amiss."""
    findings = []
    for item in items:
        is_chat = isinstance(item, Chat)
        name = item.session_id if is_chat else item.question_id
        for check in FOR_CHATS if is_chat else CHECKS:
            findings += [Finding(name, check, what) for what in CHECKS[check](item)]
    return findings


def audit_table(
    questions: Sequence[Question], decisions_path: Path = SOURCES / "decisions.csv"
) -> pd.DataFrame:
    """A row for each question: what the checks found, what the reviewers decided.

    Columns: question_id, kind, n_sessions, evidence_rounds (of each session, from 1),
    n_findings, findings, decision ("none" where nobody decided, "stale" where the item
    changed since), reason.
    """
    import pandas as pd

    decisions = read_decisions(decisions_path)
    rows = []
    for question in questions:
        found = run_checks([question])
        row = decisions.get(question.question_id)
        decision = "none" if row is None else row["decision"]
        if row is not None and row["digest"] != question.digest:
            decision = "stale"
        rows.append(
            {
                "question_id": question.question_id,
                "kind": question.kind,
                "n_sessions": len(question.evidence),
                "evidence_rounds": " ".join(map(str, evidence_rounds(question))),
                "n_findings": len(found),
                "findings": "; ".join(f"{f.check}: {f.what}" for f in found),
                "decision": decision,
                "reason": "" if row is None else row["reason"],
            }
        )
    return pd.DataFrame(rows)


def evidence_rounds(question: Question) -> list[int]:
    """The round, from 1, in which each session first gives its evidence."""
    return [first_round(entry) for entry in question.evidence]


def first_round(entry: Evidence) -> int:
    return min(entry.turns) // 2 + 1


def read_decisions(path: Path) -> dict[str, dict[str, str]]:
    """Decisions by question id; an empty dictionary where there is no file."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["question_id"]: row for row in csv.DictReader(file)}


def write_decision(path: Path, question: Question, decision: str, reason: str) -> None:
    """Keep what a reviewer decided about the item as it is now; replaces an older one.

    Raises ValueError for another word than `DECISIONS`, and for an edit or a rejection
    without a reason.
    """
    if decision not in DECISIONS:
        raise ValueError(f"got {decision!r}, wanted one of {', '.join(DECISIONS)}")
    if decision != "accept" and not reason.strip():
        raise ValueError(f"{decision}: wanted a reason")
    decisions = read_decisions(path) | {
        question.question_id: {
            "question_id": question.question_id,
            "digest": question.digest,
            "decision": decision,
            "reason": reason.strip(),
        }
    }
    with (
        written_aside(path) as aside,
        aside.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(decisions[name] for name in sorted(decisions))


def _as_word(number: str) -> str:
    """A whole number below a hundred in words, any other as it is.

    >>> _as_word("7"), _as_word("42"), _as_word("300")
    ('seven', 'forty-two', '300')
    """
    if not number.isdigit() or int(number) > 99:
        return number
    ones, tens = _ONES.split(), _TENS.split()
    n = int(number)
    if n < 20:
        return ones[n]
    return tens[n // 10 - 2] + (f"-{ones[n % 10]}" if n % 10 else "")
