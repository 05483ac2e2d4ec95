"""Words that notes keep, on the toy history."""

import pytest
from test_finding import Stub
from toy import question

from lme_utils import finding
from lme_utils.formats import to_instance
from lme_utils.note_quality import kept_words, question_overlap
from lme_utils.schema import Config


@pytest.fixture
def item():
    return to_instance(question(), "toy", {})


def test_kept_words_by_hand(item):
    memory = finding.remember([Config(key="V+fact")], [item], Stub())
    sidecar = {
        "q1": {
            "evidence": [
                {"session_id": "answer_aa_1", "statement": "The user bought two mugs."},
                {
                    "session_id": "answer_aa_2",
                    "statement": "The user got one mug more.",
                },
            ]
        }
    }
    table = kept_words([item], memory.notes, sidecar)
    shares = table.pivot(index="session_id", columns="key", values="share")
    assert shares.loc["answer_aa_1"].to_dict() == {"V": 1.0, "fact": 1.0}
    # got, 1, mug, more: the facts of the toy speak of owning and buying mugs
    assert shares.loc["answer_aa_2"].to_dict() == {"V": 1.0, "fact": 0.25}


def test_question_overlap_by_hand(item):
    configs = [Config(retriever="bm25-words")]
    table = question_overlap(configs, [item], Stub().profile, finding.Memory())
    assert len(table) == 2 and set(table["key"]) == {"V"}
    # many, mug, buy (or bought: another stem): one of three words, in both sessions
    assert table["share"].tolist() == [pytest.approx(1 / 3)] * 2
    assert table["n_words"].tolist() == [9, 9]
    assert sorted(table["rank"]) == [1, 2]
