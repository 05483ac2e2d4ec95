"""The embedded benchmark is what its card says."""

import json
from collections import Counter
from itertools import pairwise

import pytest

from lme_utils import data
from lme_utils.config import ROOT
from lme_utils.construct import mini
from lme_utils.schema import KINDS

MINI = ROOT / "data" / "mini"


@pytest.fixture(scope="module")
def s():
    return list(data.load_instances(MINI / "s.json"))


@pytest.fixture(scope="module")
def side():
    return json.loads((MINI / "sidecar.json").read_text(encoding="utf-8"))


def test_sources_give_these_bytes(tmp_path):
    mini.build(out=tmp_path)
    for name in ("oracle.json", "s.json", "sidecar.json"):
        assert (tmp_path / name).read_bytes() == (MINI / name).read_bytes(), (
            f"{name} is not what data/sources gives: run "
            "python -m lme_utils.construct.mini"
        )


def test_two_questions_of_each_kind(s, side):
    assert Counter(item.kind for item in s) == dict.fromkeys(KINDS, 2)
    assert {(i.kind, side[i.question_id]["split"]) for i in s} == {
        (kind, split) for kind in KINDS for split in ("dev", "test")
    }
    assert [i.question_id for i in s] == [
        i.question_id for i in data.load_instances(MINI / "oracle.json")
    ]


def test_histories_have_no_trap(s):
    report = data.describe(MINI / "s.json")
    assert report["order"] == {"by clock": len(s)}
    assert not {trap for trap in report["traps"] if "evidence" not in trap} - {
        "answer is an integer"
    }
    for item in s:
        assert len(item.history) == 8
        dates = [entry.date for entry in item.history]
        assert all(a < b for a, b in pairwise([*dates, item.question_date]))


def test_turns_alternate_and_labels_are_where_the_sidecar_says(s, side):
    for item in s:
        found = {}
        for entry in item.history:
            roles = [turn.role for turn in entry.session.turns]
            assert roles == ["user", "assistant"] * (len(roles) // 2)
            if any(entry.has_answer):
                found[entry.session_id] = [
                    i for i, label in enumerate(entry.has_answer) if label
                ]
        wanted = side[item.question_id]["evidence"]
        assert found == {e["session_id"]: e["turns"] for e in wanted}
        assert set(item.answer_session_ids) == set(found)


def test_shape_is_close_to_real_sessions(s):
    sessions = {e.session.digest: e.session for i in s for e in i.history}.values()
    words = {
        role: sorted(
            len(turn.content.split())
            for session in sessions
            for turn in session.turns
            if turn.role == role
        )
        for role in ("user", "assistant")
    }
    medians = {role: counts[len(counts) // 2] for role, counts in words.items()}
    assert 12 <= medians["user"] <= 35 and 40 <= medians["assistant"] <= 95
    assert all(2 <= len(session.turns) / 2 <= 6 for session in sessions)
