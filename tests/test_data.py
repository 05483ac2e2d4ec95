"""Loading: every trap is survived and counted, every fault is named."""

import gzip
import json
import lzma
import subprocess
import sys
import tracemalloc
from datetime import datetime

import numpy as np
import pytest
from toy import question, write

from lme_utils import data
from lme_utils.config import ROOT
from lme_utils.formats import FormatError, to_instance, to_official


def test_loads_plain_xz_and_gz(tmp_path):
    plain = write(tmp_path / "q.json")
    for end, module in ((".xz", lzma), (".gz", gzip)):
        packed = tmp_path / f"q.json{end}"
        packed.write_bytes(module.compress(plain.read_bytes()))
        assert list(data.load_instances(packed)) == list(data.load_instances(plain))


def test_answers_are_text_and_dates_keep_their_clock(tmp_path):
    (item,) = data.load_instances(write(tmp_path / "q.json"))
    assert item.answer == "3"
    assert item.question_date == datetime(2024, 3, 10, 9, 0)
    assert item.history[1].has_answer == (None, None, None, None)
    assert item.kind == "multi-session"


def test_official_form_comes_back(tmp_path):
    (item,) = data.load_instances(write(tmp_path / "q.json"))
    assert to_official(item) == question(answer="3")


def test_a_sample_is_in_the_files_order_and_complete(tmp_path):
    path = write(tmp_path / "q.json", *(question(question_id=f"q{i}") for i in "123"))
    chosen = data.load_sample(path, ["q3", "q1"])
    assert [item.question_id for item in chosen] == ["q1", "q3"]
    assert len(data.load_sample(path, [])) == 3
    with pytest.raises(ValueError, match=r"q\.json: no question q4, q5"):
        data.load_sample(path, ["q1", "q5", "q4"])


def long_history(names):
    """A history of these sessions, each with the same text."""
    return to_instance(
        question(
            haystack_session_ids=list(names),
            haystack_dates=["2024/03/01 (Fri) 10:00"] * len(names),
            haystack_sessions=question()["haystack_sessions"][:1] * len(names),
            answer_session_ids=["A", "B"],
        ),
        "toy",
        {},
    )


def names_of(item):
    return "".join(entry.session_id for entry in item.history)


def test_a_shortened_history_keeps_evidence_and_order():
    item = long_history("aAbcBdAe")  # A stands there twice
    whole = names_of(item)
    drawn = set()
    for seed in range(60):
        short = data.shorten(item, 2, np.random.default_rng(seed))
        names = names_of(short)
        assert len(names) == 5 and names.replace("A", "").count("B") == 1
        assert names.count("A") == 2
        rest = iter(whole)
        assert all(name in rest for name in names)  # in the history's order
        drawn.add(frozenset(names) - {"A", "B"})
        longer = data.shorten(item, 3, np.random.default_rng(seed))
        assert set(names) < set(names_of(longer))
        assert short.question == item.question
    assert len(drawn) == 10  # every pair of the five others comes up
    assert names_of(data.shorten(item, 0, np.random.default_rng(1))) == "ABA"
    for n in (5, 6, 99):
        assert data.shorten(item, n, np.random.default_rng(1)) == item
    with pytest.raises(ValueError, match="n_fillers: got -1, wanted 0 or more"):
        data.shorten(item, -1, np.random.default_rng(1))


def test_where_evidence_stands():
    assert data.evidence_positions(long_history("AaBcd")) == (0.0, 0.5)
    assert data.evidence_positions(long_history("aAbcA")) == (0.25, 1.0)
    assert data.evidence_positions(long_history("A")) == (1.0,)
    assert data.evidence_positions(long_history("ab")) == ()


def test_a_session_is_stored_once(tmp_path):
    path = write(tmp_path / "q.json", question(), question(question_id="q2"))
    store = {}
    one, two = data.load_instances(path, store)
    assert len(store) == 3
    assert all(
        a.session is b.session for a, b in zip(one.history, two.history, strict=True)
    )


def test_labels_do_not_make_another_session(tmp_path):
    other = question(question_id="q2")
    for turn in other["haystack_sessions"][0]:
        del turn["has_answer"]
    store = {}
    list(data.load_instances(write(tmp_path / "q.json", question(), other), store))
    assert len(store) == 3


def test_memory_does_not_grow_with_the_file(tmp_path):
    def peak(n: int) -> int:
        items = (question(question_id=f"q{i}") for i in range(n))
        path = write(tmp_path / f"{n}.json", *items)
        tracemalloc.start()
        for _ in data.load_instances(path):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(10)
    assert peak(2000) < 2 * peak(100)


def turn(i, j, **changes):
    item = question()
    item["haystack_sessions"][i][j] |= changes
    return item


def without(field):
    item = question()
    del item[field]
    return item


@pytest.mark.parametrize(
    ("item", "field", "got"),
    [
        (question(question_type="other"), "question_type", "'other'"),
        (question(answer=None), "answer", "None"),
        (question(answer=True), "answer", "True"),
        (question(answer=1.5), "answer", "1.5"),
        (question(question=7), "question", "int 7"),
        (without("question"), "question", "nothing"),
        (without("haystack_sessions"), "haystack_sessions", "nothing"),
        (question(question_date="2024-03-10"), "question_date", "2024-03-10"),
        (question(question_date="2024/03/10 (Mon) 09:00"), "question_date", "(Mon)"),
        (question(question_date="2024/02/30 (Fri) 09:00"), "question_date", "02/30"),
        (question(haystack_dates=["x"] * 3), "haystack_dates[0]", "'x'"),
        (question(haystack_dates=[]), "haystack_dates", "0, 3, 3"),
        (question(haystack_session_ids=["a", 2, "b"]), "haystack_session_ids", "2"),
        (question(answer_session_ids=[None]), "answer_session_ids", "None"),
        (question(haystack_sessions=[[], "no", []]), "haystack_sessions[1]", "'no'"),
        (question(haystack_sessions=[[1], [], []]), "haystack_sessions[0][0]", "1"),
        (turn(1, 2, role="system"), "haystack_sessions[1][2].role", "'system'"),
        (turn(2, 0, content=None), "haystack_sessions[2][0].content", "None"),
        (turn(2, 0, has_answer=1), "haystack_sessions[2][0].has_answer", "int 1"),
    ],
)
def test_what_is_not_the_format_is_refused(tmp_path, item, field, got):
    path = write(tmp_path / "bad.json", question(question_id="fine"), item)
    with pytest.raises(FormatError) as error:
        list(data.load_instances(path))
    said = str(error.value)
    assert f"{path}: instance 1 (q1): " in said
    assert field in said and got in said and "wanted" in said


@pytest.mark.parametrize(
    "text",
    ["", "[", "{}", "[]", "[1]", "7", '[{"question_id": 3}]', '[{"question_id": ""}]'],
)
def test_files_without_questions_are_refused(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"bad\.json"):
        list(data.load_instances(path))


@pytest.mark.parametrize("pack", [bytes, lzma.compress, gzip.compress])
def test_truncated_files_are_refused_after_what_is_whole(tmp_path, pack):
    text = json.dumps([question(question_id=f"q{i}") for i in range(100)]).encode()
    end = {bytes: "", lzma.compress: ".xz", gzip.compress: ".gz"}[pack]
    packed = pack(text)
    path = tmp_path / f"cut.json{end}"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    with pytest.raises(FormatError, match="not complete JSON"):
        list(data.load_instances(path))


def test_an_id_given_twice_is_refused(tmp_path):
    with pytest.raises(FormatError, match="instance 1: question_id: q1 is that of"):
        list(data.load_instances(write(tmp_path / "q.json", question(), question())))


def test_describe_counts_the_traps(tmp_path):
    odd = question(
        question_id="q2_abs",
        question_date="2024/03/02 (Sat) 09:00",
        haystack_dates=["2024/03/02 (Sat) 12:00"] * 2 + ["2024/03/01 (Fri) 10:00"],
        haystack_session_ids=["f1", "f1", "answer_aa_1"],
        answer_session_ids=["answer_aa_1", "answer_zz_1"],
        haystack_sessions=[
            [],
            [{"role": "user", "content": ""}, {"role": "user", "content": "\u2028"}],
            [{"role": "assistant", "content": "Hm", "has_answer": False}],
        ],
    )
    report = data.describe(write(tmp_path / "q.json", question(), odd))
    assert report["questions"]["abstention_by_type"] == {"multi-session": 1}
    assert report["order"] == {"by clock": 1, "unsorted": 1}
    assert report["labels"] == {
        "evidence": 2,
        "filler": 3,
        "evidence without a true turn": 1,
    }
    assert report["ids"] == {
        "a session after the question": ["q2_abs"],
        "a session id repeats": ["q2_abs"],
        "an evidence session not in the history": ["q2_abs"],
        "answer is an integer": ["q1", "q2_abs"],
        "answerable, more than one evidence session": ["q1"],
        "answerable, more than one labelled evidence session": ["q1"],
        "two sessions at the same time": ["q2_abs"],
    }
    sessions = report["sessions"]
    assert sessions["total"] == 6 and sessions["distinct_texts"] == 6
    assert sessions["empty"] == 1 and sessions["empty turns"] == 1
    assert sessions["one turn"] == 1 and sessions["start with the assistant"] == 2
    assert sessions["two turns of one role in a row"] == 1
    assert sessions["end with the user"] == 2
    assert sessions["control characters or U+2028"] == 1


def test_describe_finds_what_is_known_of_real_s(shared):
    path = shared / "data" / "longmemeval_s_cleaned_499.json.xz"
    known = json.loads((shared / "data" / "known_anomalies_s499.json").read_text())
    report = data.describe(path)
    ids = report["ids"]
    for trap, name in (
        ("answer is an integer", "int_answers"),
        ("a session after the question", "any_session_after_question"),
        ("an evidence session after the question", "evidence_after_question"),
        ("a session id repeats", "duplicate_session_ids"),
    ):
        assert set(ids[trap]) == set(known[name])
    assert report["traps"]["two sessions at the same time"] == 95
    assert report["traps"]["label disputed upstream"] == 8
    assert report["order"] == {"by clock": 289, "by day only": 210}
    assert report["labels"]["evidence without a true turn"] == 94
    sessions = report["sessions"]
    assert sessions["distinct_ids"] == 19167
    assert {name: sessions[name] for name in list(sessions) if " " in name} == {
        "start with the assistant": 1933,
        "one turn": 65,
        "end with the user": 8,
        "two turns of one role in a row": 14,
        "empty turns": 12,
        "control characters or U+2028": 30,
    }
    assert sessions["longest_turn_chars"] == 76560


def test_describe_finds_what_is_known_of_real_oracle(shared):
    report = data.describe(shared / "data" / "longmemeval_oracle.json.xz")
    assert report["file"]["bytes"] == 15388478
    assert report["file"]["sha256"].startswith("821a2034d219ab45")
    assert report["questions"]["by_type"] == {
        "single-session-user": 70,
        "single-session-assistant": 56,
        "single-session-preference": 30,
        "multi-session": 133,
        "knowledge-update": 78,
        "temporal-reasoning": 133,
    }
    assert report["questions"]["abstention_by_type"] == {
        "single-session-user": 6,
        "multi-session": 12,
        "temporal-reasoning": 6,
        "knowledge-update": 6,
    }
    assert report["order"] == {"by clock": 466, "by day only": 34}
    labelled = "answerable, more than one labelled evidence session"
    assert report["traps"][labelled] == 283


def test_a_bad_file_is_one_line_at_the_terminal(tmp_path):
    path = write(tmp_path / "bad.json", question(answer=None))
    done = subprocess.run(
        [sys.executable, "-m", "lme_utils", "describe", "--data", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
