"""Measurements of a data set, on histories small enough to count by hand."""

import copy

import numpy as np
import pandas as pd
import pytest
from toy import QUESTION, question, write

from lme_utils import data
from lme_utils.construct import calibrate

MODEL = "all-MiniLM-L6-v2"


@pytest.fixture
def toy(tmp_path):
    return list(data.load_instances(write(tmp_path / "q.json", question())))


def rows(found):
    return {(measure, group): value for measure, group, value, *_ in found}


def test_a_cut_keeps_the_evidence(tmp_path):
    many = question(
        haystack_dates=QUESTION["haystack_dates"] + ["2024/03/04 (Mon) 08:00"] * 6,
        haystack_session_ids=QUESTION["haystack_session_ids"]
        + [f"x{i}" for i in range(6)],
        haystack_sessions=QUESTION["haystack_sessions"]
        + [[{"role": "user", "content": f"Talk {i}"}] for i in range(6)],
    )
    (instance,) = data.load_instances(write(tmp_path / "q.json", many))
    cut = calibrate.cut_history(instance, 4)
    assert len(cut.history) == 4
    assert set(instance.answer_session_ids) <= {e.session_id for e in cut.history}
    assert cut == calibrate.cut_history(instance, 4)
    assert calibrate.cut_history(instance, 99) == instance
    assert len(calibrate.cut_history(instance, 1).history) == 2


def test_types_are_drawn_evenly(tmp_path):
    questions = [question(question_id=f"m{i}") for i in range(30)]
    questions += [
        question(question_id=f"k{i}", question_type="knowledge-update")
        for i in range(3)
    ]
    instances = list(data.load_instances(write(tmp_path / "q.json", *questions)))
    drawn = calibrate.draw_by_type(instances)
    assert len(drawn) == calibrate.PER_TYPE + 3
    assert drawn == calibrate.draw_by_type(instances)


def test_shapes_and_evidence(toy):
    found = rows(calibrate.shape_rows(toy, MODEL, np.random.default_rng(1)))
    assert found["rounds per session", "all"] == 2
    assert found["tokens per user turn", "evidence"] == 5  # mug, ##s
    found = rows(calibrate.evidence_rows(toy))
    assert found["evidence sessions per question", "2"] == 1
    assert found["round of the evidence", "1"] == 0.5
    assert found["round of the evidence", "2"] == 0.5
    assert found["question type", "multi-session"] == 1


def test_near_duplicates_are_found(toy, tmp_path):
    (row,) = calibrate.repetition_rows(toy)
    assert (row[2], row[3], row[5]) == (0.0, 0.0, 3)
    twice = question()
    text = " ".join(f"word{i}" for i in range(60))
    for place, end in ((0, "here"), (1, "there")):
        changed = copy.deepcopy(twice["haystack_sessions"][place])
        changed[0]["content"] = f"{text} {end}"
        twice["haystack_sessions"][place] = changed
    (instance,) = data.load_instances(write(tmp_path / "q.json", twice))
    (row,) = calibrate.repetition_rows([instance])
    assert row[2] == pytest.approx(1 / 3)


def test_recall_and_its_side_by_side(toy):
    assert calibrate.recall_all(toy[0], "bm25", "session", MODEL) == 1.0
    found = calibrate.recall_rows(toy, MODEL)
    ours = pd.DataFrame(found, columns=calibrate.COLUMNS)
    by_session = ours[ours["measure"].str.endswith("session")]
    assert set(by_session["value"]) == {1.0} and set(ours["n"]) == {1}
    real = ours.iloc[::-1].assign(value=0.5)
    real.loc[len(real)] = ("only there", "all", 0.1, 0.0, 0.2, 9)
    both = calibrate.compare(ours, real)
    assert list(both["measure"])[-1] == "only there"
    assert both["value"].isna().sum() == 1 and set(both["value_real"]) == {0.5, 0.1}


def test_the_command_writes_a_table(tmp_path, capsys):
    path = write(tmp_path / "q.json", question())
    assert calibrate.main([str(path), "--out", str(tmp_path / "t.csv")]) == 0
    table = pd.read_csv(tmp_path / "t.csv")
    assert list(table.columns) == list(calibrate.COLUMNS)
    assert "near-duplicate pairs" in capsys.readouterr().out
