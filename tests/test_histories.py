"""New histories for a file's questions: streamed, complete, refused with numbers."""

import json
import tracemalloc
from collections import Counter

import pytest
from toy import question, write

from lme_utils import data
from lme_utils.__main__ import main
from lme_utils.construct.haystack import Recipe
from lme_utils.construct.histories import background_of, build_history, source_of


def session(text, evidence=None):
    turns = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": f"About {text}."},
    ]
    if evidence is not None:
        turns[0]["has_answer"], turns[1]["has_answer"] = evidence, False
    return turns


def raw(i, n_open=4, text=None):
    """A question with one evidence session, two of its background, and open chat."""
    sessions = {f"answer_{i:08x}_1": session(f"I own {i} kites", True)}
    sessions |= {f"{i:08x}_{j}": session(f"kites {i} {j}") for j in (2, 3)}
    for j in range(i, i + n_open):
        sessions[f"sharegpt_x{j}_0"] = session(f"code {j}" + (text or ""))
        sessions[f"ultrachat_{j}"] = session(f"poem {j}" + (text or ""))
    return question(
        question_id=f"q{i}",
        answer_session_ids=[f"answer_{i:08x}_1"],
        haystack_dates=[f"2024/03/09 (Sat) 10:{j:02}" for j in range(len(sessions))],
        haystack_session_ids=list(sessions),
        haystack_sessions=list(sessions.values()),
    )


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "toy.json", *(raw(i) for i in range(6)))


def test_ids_tell_source_and_background():
    assert [source_of(i) for i in ("sharegpt_a_1", "ultrachat_2", "0a1b2c3d")] == [
        "assistant-chat", "open-chat", "simulated",
    ]  # fmt: skip
    assert background_of("answer_0a1b2c3d_1") == background_of("0a1b2c3d_4") != ""
    assert background_of("noans_0a1b2c3d") == "0a1b2c3d"
    assert background_of("ultrachat_20460") == ""


def test_a_longer_history_holds_the_evidence_and_nothing_twice(file, tmp_path):
    out = tmp_path / "new" / "m.json"
    built = build_history(file, out, Recipe(n_sessions=9), seed=1)
    assert (built.n_questions, built.n_sessions) == (6, 54)
    report = data.describe(out)
    assert not {"a session id repeats", "a session after the question"} & set(
        report["traps"]
    )
    assert report["order"] == {"by clock": 6}
    assert report["labels"]["evidence"] == 6 and report["labels"]["filler"] == 48
    for old, new in zip(
        data.load_instances(file), data.load_instances(out), strict=True
    ):
        assert (new.question, new.question_date) == (old.question, old.question_date)
        (evidence,) = (e for e in new.history if any(e.has_answer))
        assert evidence.session_id == old.answer_session_ids[0]
        assert evidence.date == old.history[0].date
        own = background_of(evidence.session_id)
        others = [e for e in new.history if e is not evidence]
        assert own not in {background_of(e.session_id) for e in others}
        assert not any(e.session_id.startswith("answer") for e in others)
        counts = Counter(source_of(e.session_id) for e in others)
        assert counts == {"simulated": 4, "assistant-chat": 2, "open-chat": 2}


def test_clashes_may_be_kept_and_the_oracle_has_no_filler(file, tmp_path):
    kept = tmp_path / "kept.json"
    mix = {"simulated": 1.0}
    recipe = Recipe(n_sessions=18, mix=mix)
    build_history(file, kept, recipe, 1, keep_clashes=True)
    with pytest.raises(ValueError, match=r"q0: a history of 18 sessions.*15 were used"):
        build_history(file, tmp_path / "no.json", recipe, 1)
    assert not (tmp_path / "no.json").exists()
    oracle = tmp_path / "oracle.json"
    build_history(file, oracle, Recipe(n_sessions=0), 1)
    assert {len(i.history) for i in data.load_instances(oracle)} == {1}


def test_the_seed_decides(file, tmp_path):
    texts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        build_history(file, tmp_path / name, Recipe(n_tokens=300), seed)
        texts.append((tmp_path / name).read_bytes())
    assert texts[0] == texts[1] != texts[2]


def test_memory_does_not_hold_the_pool(tmp_path):
    path = write(
        tmp_path / "big.json", *(raw(i, 6, f"{i}" * 100_000) for i in range(40))
    )
    assert path.stat().st_size > 80e6
    tracemalloc.start()
    try:
        build_history(path, tmp_path / "out.json", Recipe(n_sessions=10), 1)
        assert tracemalloc.get_traced_memory()[1] < 25e6
    finally:
        tracemalloc.stop()


def test_the_command_says_what_it_made_and_what_is_wrong(file, tmp_path, capsys):
    out = tmp_path / "h.json"
    words = ["build-history", "--data", str(file), "--out", str(out)]
    assert main([*words, "--sessions", "5", "--mix", "0", "1", "1"]) == 0
    assert "6 questions, 30 sessions from a pool of 36" in capsys.readouterr().err
    sources = {
        source_of(e.session_id)
        for i in data.load_instances(out)
        for e in i.history
        if e.session_id not in i.answer_session_ids
    }
    assert sources == {"assistant-chat", "open-chat"}
    assert main([*words, "--sessions", "500"]) == 1
    assert "q0: a history of 500 sessions" in capsys.readouterr().err
    assert main([*words, "--tokens", "3"]) == 1
    assert "evidence sessions alone have" in capsys.readouterr().err
    assert len(json.loads(out.read_text())) == 6  # the good file is still there
