"""The embedded benchmark: our questions and sessions, put together into histories.

`build` writes `data/mini/oracle.json` (evidence only), `s.json` (histories of about
`S_TOKENS` tokens), `sidecar.json` (what is no model's business: attribute, split,
evidence statements) and `audit.csv`. The same sources give the same bytes.

    python -m lme_utils.construct.mini
    python -m lme_utils build-history --data data/mini/s.json --sessions 400 --out FILE

Paper: §3.2, appendix A.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config import ROOT, SEED
from ..files import written_aside
from ..llm import count_tokens
from ..schema import format_date
from .haystack import Filler, Placed, Recipe, eligible, place
from .histories import dumps, history_rng, official_line, write_instances
from .items import SOURCES, Chat, Question, load_chats, load_questions, turns

S_TOKENS = 9_000  # turns as JSON, 4 bytes each; about 16 sessions
DEV_NUMBERS = (1, 4, 7, 10, 13, 16)  # of each kind; two kinds have only five


def build(sources: Path = SOURCES, out: Path = ROOT / "data" / "mini") -> None:
    """Write the files of the embedded benchmark."""
    from .audit import audit_table  # reads what the machine checks say

    questions = load_questions(sources / "questions.json")
    pool = Pool(questions, load_chats(sources / "chats.json"))
    for name, recipe in {
        "oracle.json": Recipe(n_sessions=0),
        "s.json": Recipe(n_tokens=S_TOKENS),
    }.items():
        write_instances(
            out / name, (compose(question, pool, recipe) for question in questions)
        )
    with written_aside(out / "sidecar.json") as aside:
        side = {q.question_id: sidecar(q) for q in questions}
        aside.write_text(
            json.dumps(side, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    with written_aside(out / "audit.csv") as aside:
        table = audit_table(questions, sources / "decisions.csv")
        table.to_csv(aside, index=False, lineterminator="\n")


class Pool:
    """Every session that can stand in a history, by id.

    Evidence of one question is a simulated session to the others: its id loses
    `answer_`, its turns lose their labels.
    """

    def __init__(self, questions: Sequence[Question], chats: Sequence[Chat]) -> None:
        self.fillers: list[Filler] = []
        self._sessions: dict[str, Sequence[str]] = {}
        self.texts: dict[str, str] = {}
        for question in questions:
            if not question.twin_of:
                for name, entry in zip(
                    question.session_ids, question.evidence, strict=True
                ):
                    bare = name.removeprefix("answer_")
                    self._add(bare, "simulated", question.attribute, entry.session)
        for chat in chats:
            self._add(chat.session_id, chat.source, chat.attribute or "", chat.session)

    def _add(
        self, name: str, source: str, attribute: str, texts: Sequence[str]
    ) -> None:
        if name in self._sessions:
            raise ValueError(f"session {name} stands twice in the sources")
        self._sessions[name] = texts
        self.texts[name] = " ".join(texts).lower()
        n_tokens = count_tokens(dumps(turns(texts)))
        self.fillers.append(Filler(name, source, attribute, n_tokens))

    def turns(self, name: str) -> list[dict]:
        """A filler's turns as the data files write them, without labels."""
        return turns(self._sessions[name])

    def for_question(self, question: Question) -> list[Filler]:
        """The fillers that neither share a question's attribute nor its keywords."""
        return eligible(
            self.fillers, {question.attribute}, question.keywords, self.texts
        )


def history_of(
    question: Question, pool: Pool, recipe: Recipe, seed: int = SEED
) -> list[Placed]:
    """Where everything stands in one history; `seed` decides what chance decides."""
    evidence = [
        Placed(name, entry.date, count_tokens(dumps(turns(entry.session, entry.turns))))
        for name, entry in zip(question.session_ids, question.evidence, strict=True)
    ]
    return place(
        evidence,
        question.question_date,
        question.question_type,
        pool.for_question(question),
        recipe,
        history_rng(seed, question.question_id),
    )


def compose(question: Question, pool: Pool, recipe: Recipe, seed: int = SEED) -> str:
    """One instance in the official format, as JSON."""
    history = history_of(question, pool, recipe, seed)
    labelled = {
        name: dumps(turns(entry.session, entry.turns))
        for name, entry in zip(question.session_ids, question.evidence, strict=True)
    }
    fields = {
        "question_id": question.question_id,
        "question_type": question.question_type,
        "question": question.question,
        "answer": question.answer,
        "question_date": format_date(question.question_date),
    }
    return official_line(
        fields,
        history,
        lambda name: labelled.get(name) or dumps(pool.turns(name)),
        question.session_ids,
    )


def split(question: Question) -> str:
    """dev or test: of each kind every third question from the first on is dev.

    That is 1, 4, 7, 10, 13, and 16 where the kind is neither preference nor abstention:
    40 of 140. A twin stands in its original's split.
    """
    number = int(question.question_id.removesuffix("_abs").rsplit("_", 1)[1])
    five = question.kind in ("single-session-preference", "abstention")
    return "dev" if number in DEV_NUMBERS[: 5 if five else 6] else "test"


def sidecar(question: Question) -> dict[str, Any]:
    """What is known about a question beside its instance."""
    known = {
        "attribute": question.attribute,
        "split": split(question),
        "difficulty": question.difficulty,
        "trap": question.trap,
        "time_cue": question.time_cue,
        "twin_of": question.twin_of,
        "evidence": [
            {
                "session_id": name,
                "turns": list(entry.turns),
                "statement": entry.statement,
            }
            for name, entry in zip(question.session_ids, question.evidence, strict=True)
        ],
    }
    return {name: value for name, value in known.items() if value != ""}


if __name__ == "__main__":
    build()
