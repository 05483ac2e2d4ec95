"""Each check finds what it is for; decisions are kept, and go stale."""

import json

import pytest

from lme_utils.construct import audit, items, panel
from lme_utils.formats import FormatError

REPLY = " ".join(["Hang it on the wall."] * 10)


def raw(**changes):
    return {
        "question_id": "t_ms_01",
        "question_type": "multi-session",
        "question": "How many lamps do I own?",
        "answer": "5 lamps",
        "question_date": "2024/05/01 10:00",
        "attribute": "3.1.05",
        "keywords": ["lamp"],
        "difficulty": "easy",
        "trap": "none",
        "background": "The user collects lamps.",
        "evidence": [
            {
                "date": f"2024/04/0{i} 10:00",
                "statement": f"The user owns {i + 1} lamps of the kind {i}.",
                "cue": f"my {word} lamps of kind {i}",
                "turns": [0],
                "session": [f"Where do I put my {word} lamps of kind {i}?", REPLY],
            }
            for i, word in ((1, "two"), (2, "three"))
        ],
    } | changes


def load(tmp_path, *questions):
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(questions), encoding="utf-8")
    return items.load_questions(path)


def spoil(item, place, text):
    item["evidence"][0]["session"][place] = text


SPOILED = {
    "natural end": lambda q: q["evidence"][0]["session"].append("And then what else?"),
    "turn lengths": lambda q: spoil(q, 1, "Short."),
    "no meta-talk": lambda q: spoil(q, 1, "As an AI I can't. " + REPLY),
    "evidence on the right side": lambda q: q["evidence"][0].update(turns=[0, 1]),
    "statement recoverable": lambda q: q["evidence"][0].update(cue="nowhere said"),
    "said once, no leak": lambda q: spoil(
        q, 1, f"{REPLY} Then my three lamps of kind 2."
    ),
    "answer not given away": lambda q: q["evidence"][0]["session"].extend(
        ["With the others that makes 5 in the room, is it much?", REPLY]
    ),
    "twin has no answer": lambda q: q.update(question_id="t_ms_01_abs"),
}


def test_a_good_item_passes(tmp_path):
    assert audit.run_checks(load(tmp_path, raw())) == []


@pytest.mark.parametrize("check", audit.CHECKS)
def test_each_check_can_fail(tmp_path, check):
    item = raw()
    SPOILED[check](item)
    assert check in {f.check for f in audit.run_checks(load(tmp_path, item))}


def test_chats_are_checked_too(tmp_path):
    path = tmp_path / "chats.json"
    chat = {"session_id": "open_1", "source": "open-chat", "topic": "x"}
    path.write_text(
        json.dumps([chat | {"session": ["Hi there", " ".join(["Certainly."] * 9)]}])
    )
    (finding,) = audit.run_checks(items.load_chats(path))
    assert (finding.item, finding.check) == ("open_1", "no meta-talk")


def test_a_twin_shares_its_originals_sessions(tmp_path):
    twin = {
        "question_id": "t_abs_01_abs", "twin_of": "t_ms_01", "question": "Which vase?",
        "answer": "You did not mention a vase.", "trap": "false-premise",
        "question_date": "2024/05/02 10:00", "difficulty": "easy",
    }  # fmt: skip
    original, made = load(tmp_path, raw(), twin)
    assert made.session_ids == original.session_ids
    assert (made.kind, made.question_type) == ("abstention", "multi-session")
    assert audit.run_checks([original, made]) == []
    with pytest.raises(FormatError, match="item 0: twin_of: got 't_ms_01'"):
        load(tmp_path, twin, raw())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"difficulty": "so so"}, r"item 0 \(t_ms_01\): difficulty"),
        ({"question_date": "2024/01/01 10:00"}, "wanted evidence in order"),
        ({"question_date": "1 May"}, "question_date.*'1 May'"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_sources_are_refused(tmp_path, changes, said):
    with pytest.raises(FormatError, match=said):
        load(tmp_path, raw(**changes))


def test_decisions_are_kept_and_go_stale(tmp_path):
    path = tmp_path / "decisions.csv"
    (question,) = load(tmp_path, raw())
    assert audit.audit_table([question], path)["decision"].tolist() == ["none"]
    for decision, reason in (("perhaps", ""), ("edit", " ")):
        with pytest.raises(ValueError, match="wanted"):
            audit.write_decision(path, question, decision, reason)
    audit.write_decision(path, question, "accept", "")
    audit.write_decision(path, question, "edit", "shorter, plainer")
    row = audit.audit_table([question], path).iloc[0]
    assert (row["decision"], row["reason"]) == ("edit", "shorter, plainer")
    assert row["evidence_rounds"] == "1 1" and row["n_findings"] == 0
    (changed,) = load(tmp_path, raw(answer="6 lamps"))
    assert audit.audit_table([changed], path)["decision"].tolist() == ["stale"]


def test_the_panel_shows_and_decides(tmp_path):
    path = tmp_path / "decisions.csv"
    questions = load(tmp_path, raw(), raw(question_id="t_ms_02", question="<b>?"))
    box = panel.review_panel(questions, path)
    _, shown, reason, buttons, said = box.children
    assert "user, evidence" in shown.value and "found: nothing" in shown.value
    accept, edit, _ = buttons.children
    edit.click()
    assert said.value == "edit: wanted a reason" and not path.exists()
    reason.value = "plainer"
    edit.click()
    assert "&lt;b&gt;?" in shown.value and reason.value == ""
    accept.click()
    decided = audit.read_decisions(path)
    assert {name: row["decision"] for name, row in decided.items()} == {
        "t_ms_01": "edit", "t_ms_02": "accept",
    }  # fmt: skip
