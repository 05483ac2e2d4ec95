"""The steps from the authors' V to their V + facts, on the toy history."""

import pytest
from toy import question

from lme_utils.config import load_profile
from lme_utils.decompose import STEPS, decompose, stepwise_records
from lme_utils.extract import Note, shown_text
from lme_utils.formats import to_instance
from lme_utils.index import build_records

PROFILE = load_profile("mini")
FACTS = {"aa_1_1": ["two mugs"], "aa_1_3": ["washing"], "f1_2": [], "aa_2_3": []}


@pytest.fixture
def item():
    return to_instance(question(), "toy", {})


def test_steps_by_hand(item):
    records = build_records(item, "turn", "official")
    steps = stepwise_records(records, FACTS)
    assert tuple(steps) == STEPS
    ids = {step: [r.id for r in found] for step, found in steps.items()}
    assert ids[STEPS[0]] == ids[STEPS[1]] == [r.id for r in records]
    assert steps[STEPS[1]][1].key == "washing How do I wash them"
    # f1_2 has nothing to say and leaves; so does evidence, one step later
    assert set(ids[STEPS[1]]) - set(ids[STEPS[2]]) == {"f1_2"}
    assert set(ids[STEPS[2]]) - set(ids[STEPS[3]]) == {"answer_aa_2_3"}
    assert ids[STEPS[3]] == ids[STEPS[4]]
    assert steps[STEPS[3]][1].key == "washing How do I wash them"
    assert steps[STEPS[4]][1].key == "How do I wash them"  # noans: skipped
    # the last step is the authors' index
    assert steps[STEPS[4]] == build_records(item, "turn", "official", FACTS)


def test_evidence_that_leaves_no_longer_counts(item):
    notes = {
        shown_text(record, "fact"): Note("fact", tuple(texts))
        for record, texts in zip(
            build_records(item), (["mugs"], ["trains"], []), strict=True
        )
    }
    table = decompose([item], notes, "fact", "session", "oracle", PROFILE).set_index(
        "step"
    )
    assert table["n_gold"].tolist() == [2, 2, 2, 1, 1]
    assert table["n_records"].tolist() == [3, 3, 3, 2, 2]
    assert table["recall_all@1"].tolist() == [0, 0, 0, 1, 1]
