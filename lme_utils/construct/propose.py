"""Stages 2 to 4 with a language model: backgrounds, questions, evidence sessions.

Each stage reads the file of the one before and writes a JSON line for each thing it was
asked for, failures included: a line has `status` and `reason`, and the next stage goes
on with those that are "ok". Paper: §3.2, Figures 7 and 8, appendix A.1.

An `ask` is `Models.ask` with a model's name filled in: it takes (messages, max_tokens)
pairs and keyword `json_schema`, and gives a `Reply` for each.
"""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config import PROMPTS, read_prompt
from ..files import written_aside
from ..request import Ask, Reply
from ..schema import QUESTION_TYPES
from .items import MOST_ROUNDS, Attribute

Line = dict[str, Any]
END = "(end)"
MAX_TOKENS = {"background": 320, "question": 260, "user": 80, "assistant": 160}
# Share of evidence first told in round 1, 2, ...: as in the real sessions.
ROUND_SHARES = (0.55, 0.18, 0.1, 0.08, 0.05, 0.04)


def write_backgrounds(
    attributes: Sequence[Attribute],
    out: Path,
    ask: Ask,
    start: str = "2024/01/01",
    end: str = "2024/09/30",
) -> list[Line]:
    """Stage 2: for each attribute a text about a person, with dated events."""
    prompts = [
        (
            _message(
                read_prompt("background").format(
                    attribute=a.name, subgroup=a.subgroup, start=start, end=end
                )
            ),
            MAX_TOKENS["background"],
        )
        for a in attributes
    ]
    lines = [
        {"attribute": a.attribute, "topic": a.name, "background": reply.text.strip()}
        | _outcome([reply])
        for a, reply in zip(attributes, ask(prompts), strict=True)
    ]
    return write_lines(out, lines)


def propose_questions(
    backgrounds: Path,
    out: Path,
    ask: Ask,
    types: Sequence[str] = QUESTION_TYPES,
    question_date: str = "2024/10/20",
) -> list[Line]:
    """Stage 3: from each background a question of each type, then false-premise twins.

    A line has question_id, question_type, question, answer, statements (each with text
    and date), attribute and background; a twin also `twin_of`.
    """
    kinds = tomllib.loads((PROMPTS / "propose_kinds.toml").read_text(encoding="utf-8"))
    found = list(read_lines(backgrounds))
    lines = []
    for kind in types:
        prompts = [
            read_prompt("propose_start").format(
                background=line["background"],
                question_date=question_date,
                kind=kinds[kind]["kind"],
                n_statements=kinds[kind]["n_statements"],
            )
            for line in found
        ]
        replies = ask(
            [(_message(text), MAX_TOKENS["question"]) for text in prompts],
            json_schema=_question_schema(kinds[kind]["most"]),
        )
        lines += [
            {
                "question_id": f"{line['attribute']}_{kind}",
                "question_type": kind,
                "question_date": question_date,
            }
            | {name: line[name] for name in ("attribute", "topic", "background")}
            | (reply.parsed or {})
            | _outcome([reply])
            for line, reply in zip(found, replies, strict=True)
        ]
    return write_lines(out, lines + _twins(lines, ask))


def _twins(lines: Sequence[Line], ask: Ask) -> list[Line]:
    """For each background a false-premise twin of its last usable question."""
    last = {line["attribute"]: line for line in lines if line["status"] == "ok"}
    prompts = [
        read_prompt("propose_twin").format(
            statements="\n".join(f"- {s['statement']}" for s in line["statements"]),
            question=line["question"],
        )
        for line in last.values()
    ]
    replies = ask(
        [(_message(text), MAX_TOKENS["question"]) for text in prompts],
        json_schema=_question_schema(0),
    )
    return [
        line
        | {"question_id": line["question_id"] + "_abs"}
        | {"twin_of": line["question_id"]}
        | (reply.parsed or {})
        | _outcome([reply])
        for line, reply in zip(last.values(), replies, strict=True)
    ]


def write_sessions(
    questions: Path, out: Path, ask: Ask, rng: random.Random, most_rounds: int = 6
) -> list[Line]:
    """Stage 4: for each statement a conversation that two roles of a model make.

    The user's role sees its statement only in the round in which it is to slip out, so
    that nothing else can leak; that round is drawn by `ROUND_SHARES`. All conversations
    go on side by side. A line has question_id, statement, session (texts, the user's
    first) and turns (where the statement was to be told).
    Raises ValueError for more than `MOST_ROUNDS` rounds.
    """
    if not 1 <= most_rounds <= MOST_ROUNDS:
        raise ValueError(f"most_rounds: got {most_rounds}, wanted 1 to {MOST_ROUNDS}")
    chats = [
        _Chat(line, statement, _draw_round(rng, most_rounds))
        for line in read_lines(questions)
        if "twin_of" not in line
        for statement in line["statements"]
    ]
    for number in range(most_rounds):
        for side in ("user", "assistant"):
            going = [chat for chat in chats if chat.goes_on]
            prompts = [(chat.prompt(side, number), MAX_TOKENS[side]) for chat in going]
            for chat, reply in zip(going, ask(prompts) if prompts else (), strict=True):
                chat.take(reply)
    return write_lines(out, [chat.line() for chat in chats])


class _Chat:
    """One conversation while it is being made."""

    def __init__(self, line: Line, statement: Mapping[str, str], round_: int) -> None:
        self.question, self.statement, self.round = line, statement, round_
        self.texts: list[str] = []
        self.replies: list[Reply] = []
        self.goes_on = True

    def prompt(self, side: str, number: int) -> tuple[dict[str, str], ...]:
        if side == "assistant":
            roles = ("user", "assistant")
            return tuple(
                {"role": roles[i % 2], "content": text}
                for i, text in enumerate(self.texts)
            )
        name = "chat_user_fact" if number == self.round else "chat_user_plain"
        now = read_prompt(name).format(statement=self.statement["statement"])
        system = read_prompt("chat_user").format(topic=self.question["topic"], now=now)
        start = {"role": "user", "content": "How can I help?"}
        roles = ("assistant", "user")  # the user's role speaks as the model does
        said = [
            {"role": roles[i % 2], "content": text} for i, text in enumerate(self.texts)
        ]
        return ({"role": "system", "content": system}, start, *said)

    def take(self, reply: Reply) -> None:
        self.replies.append(reply)
        text = reply.text.strip()
        if not text or text.lower().strip(".") == END:
            self.goes_on = False
            return
        self.texts.append(text)

    def line(self) -> Line:
        texts = self.texts[
            : len(self.texts) // 2 * 2
        ]  # the assistant has the last word
        turn = 2 * self.round
        outcome = _outcome(self.replies)
        if turn >= len(texts):
            reason = self.replies[-1].reason or "the conversation was over before"
            outcome |= {"status": "failed", "reason": f"statement not told: {reason}"}
        return {
            "question_id": self.question["question_id"],
            "statement": self.statement["statement"],
            "date": self.statement["date"],
            "session": texts,
            "turns": [turn],
        } | outcome


def _draw_round(rng: random.Random, most_rounds: int) -> int:
    shares = ROUND_SHARES[:most_rounds]
    return rng.choices(range(len(shares)), shares)[0]


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a stage's file that are usable."""
    with path.open(encoding="utf-8") as file:
        yield from (line for line in map(json.loads, file) if line["status"] == "ok")


def _question_schema(most: int) -> dict[str, Any]:
    """Of an answer with question, answer and, unless `most` is 0, statements."""
    text = {"type": "string", "minLength": 1}
    statement = {
        "type": "object",
        "properties": {"statement": text, "date": text},
        "required": ["statement", "date"],
        "additionalProperties": False,
    }
    properties = {"question": text, "answer": text}
    if most:
        properties["statements"] = {
            "type": "array", "items": statement,
            "minItems": min(2, most), "maxItems": most,
        }  # fmt: skip
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _outcome(replies: Sequence[Reply]) -> dict[str, Any]:
    first = replies[0]
    return {
        "status": first.status,
        "reason": first.reason,
        "source": first.source,
        "keys": [reply.key for reply in replies],
    }


def _message(text: str) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": text},)


def write_lines(path: Path, lines: Sequence[Line]) -> list[Line]:
    """Write a JSON line each: the whole file, or none. Returns the lines."""
    with written_aside(path) as aside, open(aside, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return list(lines)
