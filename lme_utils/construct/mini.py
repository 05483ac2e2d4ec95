"""The embedded benchmark: questions and sessions of our own, mixed into histories.

`data/sources/questions.json` holds the questions with their evidence sessions,
`data/sources/fillers.json` the sessions that have nothing to do with them. `build`
writes `data/mini/oracle.json` (evidence only), `s.json` (histories of `HISTORY`
sessions) and `sidecar.json` (what is no model's business: attribute, split, evidence
statements). The same sources give the same bytes.

    python -m lme_utils.construct.mini

Paper: §3.2, appendix A.2 (half of the fillers simulated, a quarter each from two other
sources; dates around the evidence).
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ..config import ROOT, SEED
from ..files import written_aside
from ..formats import parse_date
from ..schema import format_date

HISTORY = 8  # sessions
MIX = (
    "simulated",
    "simulated",
    "assistant-chat",
    "simulated",
    "simulated",
    "open-chat",
)
DAYS_BEFORE = 30  # fillers may be this much older than the first evidence

Question = Mapping[str, Any]
Filler = Mapping[str, Any]


def build(sources: Path = ROOT / "data" / "sources", out: Path = ROOT / "data/mini"):
    """Write the three files of the embedded benchmark."""
    questions = json.loads((sources / "questions.json").read_text(encoding="utf-8"))
    fillers = json.loads((sources / "fillers.json").read_text(encoding="utf-8"))
    _write(out / "oracle.json", [compose(q, fillers, 0) for q in questions])
    _write(out / "s.json", [compose(q, fillers, HISTORY) for q in questions])
    _write(out / "sidecar.json", {q["question_id"]: sidecar(q) for q in questions})


def compose(
    question: Question, fillers: Sequence[Filler], n_sessions: int
) -> dict[str, Any]:
    """One instance in the official format, its sessions in order of time.

    n_sessions  length of the history; with fewer than the question has evidence
                sessions, no filler is added

    Fillers are drawn without repeats, four simulated ones to one of each other source,
    by a generator seeded with the question's id. Every session is before the question.
    """
    rng = random.Random(f"{SEED} {question['question_id']}")
    evidence = [
        (e["date"], e["session_id"], e["session"]) for e in question["evidence"]
    ]
    n_fillers = max(0, n_sessions - len(evidence))
    first = min(parse_date(date) for date, *_ in evidence)
    last = parse_date(question["question_date"])
    drawn = [
        (format_date(date), filler["session_id"], filler["session"])
        for filler, date in zip(
            _draw(fillers, n_fillers, rng),
            _dates(n_fillers, first, last, rng),
            strict=True,
        )
    ]
    history = sorted(evidence + drawn, key=lambda entry: parse_date(entry[0]))
    return {
        "question_id": question["question_id"],
        "question_type": question["question_type"],
        "question": question["question"],
        "answer": question["answer"],
        "question_date": question["question_date"],
        "haystack_dates": [date for date, _, _ in history],
        "haystack_session_ids": [name for _, name, _ in history],
        "haystack_sessions": [session for _, _, session in history],
        "answer_session_ids": [name for _, name, _ in evidence],
    }


def sidecar(question: Question) -> dict[str, Any]:
    """What is known about a question beside its instance."""
    return {
        "attribute": question["attribute"],
        "split": question["split"],
        "evidence": [
            {
                "session_id": entry["session_id"],
                "turns": [i for i, t in enumerate(entry["session"]) if t["has_answer"]],
                "statement": entry["statement"],
            }
            for entry in question["evidence"]
        ],
    }


def _draw(fillers: Sequence[Filler], n: int, rng: random.Random) -> list[Filler]:
    """n distinct fillers whose sources follow `MIX`."""
    by_source: dict[str, list[Filler]] = {}
    for filler in fillers:
        by_source.setdefault(filler["source"], []).append(filler)
    for group in by_source.values():
        rng.shuffle(group)
    return [by_source[MIX[i % len(MIX)]].pop() for i in range(n)]


def _dates(
    n: int, first: datetime, last: datetime, rng: random.Random
) -> list[datetime]:
    """n times on different days, from `DAYS_BEFORE` first to the day before last."""
    n_days = (last.date() - first.date()).days + DAYS_BEFORE
    dates = []
    for day in rng.sample(range(1, n_days), n):
        date = last - timedelta(days=day)
        clock = {"hour": rng.randint(7, 22), "minute": rng.randint(0, 59)}
        dates.append(date.replace(**clock))
    return dates


def _write(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    build()
