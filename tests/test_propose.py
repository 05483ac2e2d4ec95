"""Backgrounds, questions and sessions by a model: files in, files out, nothing lost."""

import json
import random

import pytest
from jsonschema import validate

from lme_utils.construct import propose
from lme_utils.construct.items import load_attributes
from lme_utils.request import Reply
from lme_utils.schema import QUESTION_TYPES


class Model:
    """Plays a model: answers by what it is asked, and keeps what it was asked."""

    def __init__(self, user=lambda n, text: f"How do I do part {n}?"):
        self.user, self.asked, self.n = user, [], 0

    def __call__(self, prompts, json_schema=None):
        return [self.reply(messages, json_schema) for messages, _ in prompts]

    def reply(self, messages, schema):
        self.asked.append(messages)
        self.n += 1
        first = messages[0]["content"]
        if schema:
            parsed = {"question": f"Q{self.n}?", "answer": "A"}
            if "statements" in schema["properties"]:
                n = schema["properties"]["statements"]["maxItems"]
                parsed["statements"] = [
                    {"statement": f"The user has fact {i}.", "date": "2024/03/01"}
                    for i in range(n)
                ]
            validate(parsed, schema)
            return Reply(f"k{self.n}", "ok", json.dumps(parsed), parsed=parsed)
        if messages[0]["role"] == "system":
            text = self.user(len(messages) // 2, first)
            status = "ok" if text else "failed"
            return Reply(f"k{self.n}", status, text, "" if text else "empty answer")
        if first.startswith("Invent"):
            if "bicycles" in first:
                return Reply(f"k{self.n}", "failed", reason="time-out")
            return Reply(f"k{self.n}", "ok", "The user rides on 3 March.")
        return Reply(f"k{self.n}", "ok", "Do it like this.")


@pytest.fixture
def attributes():
    return [a for a in load_attributes() if a.name in ("cars", "bicycles", "phones")]


def stages(tmp_path, attributes, model, types=QUESTION_TYPES, rounds=4, seed=1):
    names = [tmp_path / f"{stage}.jsonl" for stage in ("b", "q", "s")]
    propose.write_backgrounds(attributes, names[0], model)
    propose.propose_questions(names[0], names[1], model, types)
    propose.write_sessions(names[1], names[2], model, random.Random(seed), rounds)
    return [
        [json.loads(line) for line in name.read_text().splitlines()] for name in names
    ]


def test_each_stage_has_a_line_for_everything_it_was_asked(tmp_path, attributes):
    backgrounds, questions, sessions = stages(tmp_path, attributes, Model())
    assert [b["status"] for b in backgrounds] == ["ok", "failed", "ok"]
    assert backgrounds[1]["reason"] == "time-out"
    assert len(questions) == 2 * 6 + 2
    twins = [q for q in questions if "twin_of" in q]
    assert {q["twin_of"] + "_abs" for q in twins} == {q["question_id"] for q in twins}
    most = {"multi-session": 4, "knowledge-update": 2, "temporal-reasoning": 2}
    for q in questions:
        assert len(q["statements"]) == most.get(q["question_type"], 1)
    assert len(sessions) == 2 * (1 + 1 + 1 + 4 + 2 + 2)
    assert all(s["status"] == "ok" and s["keys"] for s in sessions)


def test_a_statement_is_shown_in_its_round_only(tmp_path, attributes):
    model = Model()
    _, _, sessions = stages(tmp_path, attributes, model)
    chats = [m for m in model.asked if m[0]["role"] == "system"]
    told = [m for m in chats if "has fact" in m[0]["content"]]
    assert len(told) == len(sessions)
    rounds = sorted(len(m) // 2 - 1 for m in told)
    assert rounds == sorted(s["turns"][0] // 2 for s in sessions)
    assert len(set(rounds)) > 1
    assert not any("3 March" in m[0]["content"] for m in chats)  # the background
    for s in sessions:
        assert len(s["session"]) == 8 and s["turns"][0] % 2 == 0
    assistant = [m for m in model.asked if m[0]["role"] == "user" and len(m) > 1]
    assert all(m[-1]["role"] == "user" for m in assistant)


@pytest.mark.parametrize("word", ["", "(end)", " (End). "])
def test_an_empty_turn_ends_a_conversation(tmp_path, attributes, word):
    model = Model(user=lambda n, text: word if n > 2 else f"Question {n}?")
    _, _, sessions = stages(tmp_path, attributes, model, rounds=6)
    assert {len(s["session"]) for s in sessions} == {4}
    for s in sessions:
        late = s["turns"][0] >= 4
        assert s["status"] == ("failed" if late else "ok")
        assert late == s["reason"].startswith("statement not told")


def test_rounds_are_limited(tmp_path):
    for rounds in (0, 11):
        with pytest.raises(ValueError, match=f"got {rounds}, wanted 1 to 10"):
            propose.write_sessions(
                tmp_path / "q", tmp_path / "s", Model(), random.Random(1), rounds
            )
