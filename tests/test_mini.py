"""The embedded benchmark is what its card says."""

import json
from collections import Counter
from itertools import pairwise

import pandas as pd
import pytest

from lme_utils import data
from lme_utils.config import ROOT
from lme_utils.construct import audit, items, mini
from lme_utils.construct.haystack import Recipe
from lme_utils.construct.histories import source_of
from lme_utils.schema import KINDS

MINI = ROOT / "data" / "mini"


@pytest.fixture(scope="module")
def s():
    return list(data.load_instances(MINI / "s.json"))


@pytest.fixture(scope="module")
def side():
    return json.loads((MINI / "sidecar.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def questions():
    return items.load_questions()


@pytest.fixture(scope="module")
def pool(questions):
    return mini.Pool(questions, items.load_chats())


def test_sources_give_these_bytes(tmp_path):
    mini.build(out=tmp_path)
    for name in ("oracle.json", "s.json", "sidecar.json", "audit.csv"):
        assert (tmp_path / name).read_bytes() == (MINI / name).read_bytes(), (
            f"{name} is not what data/sources gives: run make data-mini"
        )
    assert sum(path.stat().st_size for path in MINI.iterdir()) < 10e6


def test_each_kind_in_a_declared_split(s, side):
    assert Counter(item.kind for item in s) == dict.fromkeys(KINDS, 20)
    by_kind = Counter((i.kind, side[i.question_id]["split"]) for i in s)
    for kind in KINDS:
        n_dev = 5 if kind in ("single-session-preference", "abstention") else 6
        assert by_kind[kind, "dev"] == n_dev and by_kind[kind, "test"] == 20 - n_dev
    assert Counter(k["split"] for k in side.values()) == {"dev": 40, "test": 100}
    for known in side.values():
        if original := known.get("twin_of"):
            assert known["split"] == side[original]["split"]
    assert [i.question_id for i in s] == [
        i.question_id for i in data.load_instances(MINI / "oracle.json")
    ]


def test_variety(questions):
    assert len({q.attribute for q in questions}) >= 60
    assert {q.attribute for q in questions} <= {
        a.attribute for a in items.load_attributes()
    }
    assert {len(q.evidence) for q in questions} == {1, 2, 3, 4, 5, 6}
    updates = Counter(
        len(q.evidence) for q in questions if q.kind == "knowledge-update"
    )
    assert set(updates) == {2, 3}
    cues = Counter(q.time_cue for q in questions if q.kind == "temporal-reasoning")
    assert min(cues[cue] for cue in ("timestamp", "expression", "both")) >= 4
    traps = Counter(q.trap for q in questions)
    assert min(traps[t] for t in ("considering", "other-person", "near-miss")) >= 10
    rounds = Counter(r for q in questions for r in audit.evidence_rounds(q))
    assert rounds[1] > rounds[2] and sum(n for r, n in rounds.items() if r >= 4) >= 10


def test_the_ontology_has_the_papers_counts():
    paper = pd.read_csv(ROOT / "data" / "paper" / "table5.csv")
    ours = Counter((a.group, a.subgroup) for a in items.load_attributes())
    assert sum(ours.values()) == 164
    assert ours == {
        (row.group, row.subgroup): row.attributes for row in paper.itertuples()
    }


def test_histories_have_no_trap(s):
    report = data.describe(MINI / "s.json")
    assert report["order"] == {"by clock": len(s)}
    assert not {trap for trap in report["traps"] if "evidence" not in trap} - {
        "answer is an integer"
    }
    for item in s:
        dates = [entry.date for entry in item.history]
        assert all(a < b for a, b in pairwise([*dates, item.question_date]))
    lengths = sorted(len(item.history) for item in s)
    assert 14 <= lengths[len(lengths) // 2] <= 22 and lengths[0] >= 12


def test_labels_are_where_the_sidecar_says(s, side):
    for item in s:
        found = {}
        for entry in item.history:
            roles = [turn.role for turn in entry.session.turns]
            assert roles == ["user", "assistant"] * (len(roles) // 2)
            if any(entry.has_answer):
                found[entry.session_id] = [
                    i for i, label in enumerate(entry.has_answer) if label
                ]
            else:
                assert set(entry.has_answer) == {None}
                assert "answer" not in entry.session_id
        wanted = side[item.question_id]["evidence"]
        assert found == {e["session_id"]: e["turns"] for e in wanted}
        assert set(item.answer_session_ids) == set(found)


def test_no_filler_clashes_or_gives_evidence(s, questions):
    for item, question in zip(s, questions, strict=True):
        for entry in item.history:
            if entry.session_id in item.answer_session_ids:
                continue
            text = " ".join(t.content for t in entry.session.turns).lower()
            assert not [k for k in question.keywords if f" {k}" in f" {text}"]
            assert not [e.cue for e in question.evidence if e.cue.lower() in text]


def test_machine_checks_find_nothing_and_every_item_has_its_row(questions):
    assert audit.run_checks([*questions, *items.load_chats()]) == []
    table = pd.read_csv(MINI / "audit.csv", keep_default_na=False)
    assert list(table["question_id"]) == [q.question_id for q in questions]
    assert set(table["decision"]) <= {"accept", "edit"}
    assert (table.loc[table["decision"] == "edit", "reason"] != "").all()


def test_the_pool_is_large_and_m_like_histories_can_be_made(questions, pool):
    assert len(pool.fillers) >= 500
    texts = set(pool.texts.values())
    assert len(texts) == len(pool.fillers)
    for filler in pool.fillers:
        assert source_of(filler.session_id) == filler.source
    for question in questions:
        history = mini.history_of(question, pool, Recipe(n_sessions=500))
        assert len({p.session_id for p in history}) == 500


def test_shape_is_as_stated(s):
    sessions = {e.session.digest: e.session for i in s for e in i.history}.values()
    tokens = {
        role: sorted(
            len(turn.content) / 4.5
            for session in sessions
            for turn in session.turns
            if turn.role == role
        )
        for role in ("user", "assistant")
    }
    medians = {role: counts[len(counts) // 2] for role, counts in tokens.items()}
    assert 20 <= medians["user"] <= 50 and 60 <= medians["assistant"] <= 120
    assert all(1 <= len(session.turns) / 2 <= 10 for session in sessions)


def test_the_data_card_counts_what_is_there(questions, pool):
    card = " ".join((MINI / "README.md").read_text(encoding="utf-8").split())
    sources = Counter(filler.source for filler in pool.fillers)
    n_evidence = sum(len(q.evidence) for q in questions if not q.twin_of)
    n_other = len(pool.fillers) - n_evidence
    decisions = pd.read_csv(MINI / "audit.csv")["decision"].value_counts()
    for words in (
        f"{len(questions)} questions",
        f"{n_evidence} evidence sessions and {n_other} other sessions",
        f"The {len(pool.fillers)} sessions: {sources['simulated']} of simulated users "
        f"(the evidence and {sources['simulated'] - n_evidence} others), "
        f"{sources['assistant-chat']} assistant logs, "
        f"{sources['open-chat']} of general talk",
        f"{decisions['edit']} of the {len(questions)} were mended",
    ):
        assert words in card, words
