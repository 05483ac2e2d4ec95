"""Notes at writing time: what is shown, what is kept, what fails."""

import json

import pytest
from toy import question

from lme_utils import extract
from lme_utils.formats import to_instance
from lme_utils.index import build_records
from lme_utils.request import Reply


@pytest.fixture
def item():
    return to_instance(question(), "toy", {})


def fake(*answers):
    """An `ask` that gives these answers in turn, and a list of what it was asked."""
    asked = []

    def ask(prompts, json_schema=None):
        replies = []
        for messages, max_tokens in prompts:
            answer = answers[len(asked)] if len(asked) < len(answers) else answers[-1]
            asked.append((messages, max_tokens, json_schema))
            if isinstance(answer, Reply):
                replies.append(answer)
            elif json_schema:
                replies.append(
                    Reply("k", "ok", json.dumps(answer), parsed=answer, source="live")
                )
            else:
                replies.append(Reply("k", "ok", answer, source="live"))
        return replies

    return ask, asked


def test_only_the_users_side_is_shown_and_no_label(item):
    sessions, rounds = build_records(item), build_records(item, "turn")
    assert extract.shown_text(sessions[0], "fact") == (
        "Messages:\nuser: I bought two mugs\n\nuser: How do I wash them"
    )
    assert extract.shown_text(rounds[2], "fact") == (
        "Messages:\nuser: Tell me about trains"
    )
    assert extract.shown_text(rounds[2], "summary", "both") == (
        "Messages:\nassistant: Welcome\n\nuser: Tell me about trains\n\n"
        "assistant: They run on rails"
    )
    assert extract.shown_text(sessions[0], "event").startswith("Date: 2024/03/01 (Fri)")
    ask, asked = fake({"facts": []})
    extract.extract(sessions, "fact", ask)
    said = json.dumps(asked)
    for secret in ("answer_", "has_answer", item.question, item.answer_session_ids[0]):
        assert secret not in said


def test_equal_texts_are_asked_once_and_empty_ones_never(item):
    sessions = question()["haystack_sessions"]
    sessions[2] = sessions[0]
    sessions[1] = [{"role": "assistant", "content": "Welcome"}]
    twice = to_instance(question(haystack_sessions=sessions), "toy", {})
    ask, asked = fake({"facts": ["The user owns two mugs."]})
    notes = extract.extract(build_records(twice), "fact", ask)
    assert len(asked) == len(notes) == 1
    found = extract.expansions(build_records(twice), notes, "fact")
    assert found == {key: ["The user owns two mugs."] for key in ("aa_1", "aa_2")}


def test_the_four_kinds(item):
    records = build_records(item)[:1]
    (note,) = extract.extract(records, "summary", fake(" Mugs. Washing. ")[0]).values()
    assert note.texts == ("Mugs. Washing.",)
    notes = extract.extract(records, "keyphrase", fake("two mugs; ;washing\nmugs")[0])
    (note,) = notes.values()
    assert note.texts == ("two mugs", "washing", "mugs")
    facts = {"facts": ["The user has mugs.", " The user has mugs.", ""]}
    (note,) = extract.extract(records, "fact", fake(facts)[0]).values()
    assert note.texts == ("The user has mugs.",)
    events = [
        {"when": "today", "event": "Mugs bought.", "date": "2024/03/01"},
        {"when": "never", "event": "Nonsense.", "date": "2024/02/30"},
    ]
    (note,) = extract.extract(records, "event", fake({"events": events})[0]).values()
    assert [str(event.date) for event in note.events] == ["2024-03-01"]
    assert note.texts == ("Mugs bought.",) and note.n_undated == 1
    with pytest.raises(ValueError, match="kind: got 'mood', wanted one of summary"):
        extract.extract(records, "mood", fake("")[0])


def test_expansions_whole_and_split(item):
    records = build_records(item)[:1]
    notes = extract.extract(records, "summary", fake("Bought mugs. Asked twice.")[0])
    assert extract.expansions(records, notes, "summary") == {
        "aa_1": "Bought mugs. Asked twice."
    }
    assert extract.expansions(records, notes, "summary", split=True) == {
        "aa_1": ["Bought mugs.", "Asked twice."]
    }
    notes = extract.extract(records, "keyphrase", fake("mugs; washing")[0])
    assert extract.expansions(records, notes, "keyphrase") == {"aa_1": "mugs; washing"}
    assert extract.expansions(records, notes, "keyphrase", split=True) == {
        "aa_1": ["mugs", "washing"]
    }


def test_a_failed_note_is_empty_counted_and_no_expansion(item):
    records = build_records(item)
    failed = Reply("k", "failed", '{"facts": [', reason="JSON cut off at 320 tokens")
    ask, _ = fake(failed, {"facts": []}, {"facts": ["The user bought one more mug."]})
    notes = extract.extract(records, "fact", ask)
    assert [note.status for note in notes.values()] == ["failed", "ok", "ok"]
    assert "cut off" in next(iter(notes.values())).reason
    assert extract.expansions(records, notes, "fact") == {
        "f1": [],  # nothing to note: not the same as a failure
        "aa_2": ["The user bought one more mug."],
    }
