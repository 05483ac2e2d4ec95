"""What notes keep, on the toy history."""

from datetime import date

import pytest
from test_finding import Stub
from toy import question

from lme_utils import finding
from lme_utils.extract import Event, Note, shown_text
from lme_utils.formats import to_instance
from lme_utils.index import build_records
from lme_utils.note_quality import dated_statements, kept_words, question_overlap
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


def test_dated_statements_by_hand(item):
    first, second = (
        record for record in build_records(item) if record.id.startswith("answer_aa")
    )
    events = {
        shown_text(first, "event"): Note(
            "event",
            events=(
                Event(date(2023, 5, 9), "The user bought a lamp."),
                Event(date(2023, 5, 14), "The user bought two mugs."),
            ),
        ),
        shown_text(second, "event"): Note("event"),
    }
    sidecar = {
        "q1": {
            "evidence": [
                {
                    "session_id": first.id,
                    "statement": "The user bought two mugs on 10 May 2023.",
                },
                {"session_id": first.id, "statement": "The user bought two mugs."},
                {
                    "session_id": second.id,
                    "statement": "A mug came the day before, on 3 June.",
                },
            ]
        }
    }
    table = dated_statements([item], events, sidecar)
    # The statement without a date is left out; the event about mugs is four days off.
    assert table["session_id"].tolist() == [first.id, second.id]
    # A day without a year is of the year in which it was told.
    assert table["day"].tolist() == [date(2023, 5, 10), date(2024, 6, 3)]
    assert table["days_off"].iloc[0] == 4 and table["nearest"].iloc[0] == 1
    assert table["n_events"].tolist() == [2, 0]
    assert table[["days_off", "nearest"]].iloc[1].isna().all()
