"""The runner against a server that fails on purpose: a row for every question."""

import json

import pytest
from fault_server import FaultServer, Step, error
from toy import question, write

from lme_utils import __main__ as cli
from lme_utils import data, llm, recordings, study
from lme_utils.config import Endpoint, Profile
from lme_utils.models import Models
from lme_utils.schema import Config


def make_profile(server, **changes):
    endpoint = Endpoint(
        model="toy",
        revision="r1",
        base_url=server.base_url,
        n_parallel=1,
        max_retries=0,
        timeout_s=5,
    )
    fields = {
        "name": "toy",
        "about": "",
        "data": {"oracle": "o.json", "s": "s.json"},
        "reading": {"max_tokens": {"direct": 20, "con": 40, "con-separate": 30}},
        "endpoints": {"small": endpoint},
    }
    return Profile(**fields | changes)


@pytest.fixture
def items(tmp_path):
    other = question(question_id="q2", question="How many trams?", answer="none")
    abstain = question(question_id="q3_abs", question="How many cups did I sell?")
    return list(data.load_instances(write(tmp_path / "q", question(), other, abstain)))


@pytest.fixture
def store(tmp_path):
    return llm.Store(tmp_path / "store.sqlite")


CONFIGS = [Config("small", layout="nl", method=m) for m in ("direct", "con")]


def prompts(items, profile):
    """Prompt of each job, in the order of the rows."""
    return [
        study.answer_messages(job.instance, job.records, "nl", job.config.method)[0][
            "content"
        ]
        for job in study.make_jobs(CONFIGS, items, profile)
    ]


def test_every_question_has_a_row_whatever_happens(items, store):
    with FaultServer() as server:
        profile = make_profile(server)
        texts = prompts(items, profile)
        server.script = {
            texts[0]: [Step(text="You bought 3 mugs.")],
            texts[1]: [error(500, "broken")],
            texts[2]: [Step(text="")],
            texts[3]: [Step(text="Notes. Answer: 4 mugs")],
        }
        table = study.run(CONFIGS, items, profile, store)
        assert len(table) == 6
        assert table["question_id"].tolist() == ["q1", "q2", "q3_abs"] * 2
        assert table["status"].tolist() == ["ok", "failed", "failed"] + ["ok"] * 3
        assert table["label"].tolist()[0] is True
        assert table["label"].isna().tolist() == [False, True, True] + [False] * 3
        assert table["label"].tolist()[3] is False
        assert "broken" in table["reason"][1] and "empty" in table["reason"][2]
        assert set(table["source"]) == {"live"}
        # again: only the call that failed on the way is made
        n_calls = len(server.prompts)
        again = study.run(CONFIGS, items, profile, store)
        assert server.prompts[n_calls:] == [texts[1]]
        assert again["status"].tolist() == ["ok", "ok", "failed"] + ["ok"] * 3


def test_a_refused_key_leaves_rows_and_says_why(items, store):
    with FaultServer() as server:
        profile = make_profile(server)
        # read in the order of histories: q1 twice, then q2
        server.script = {prompts(items, profile)[1]: [error(401, "no such key")]}
        with pytest.raises(llm.StopRun, match="no such key") as stop:
            study.run(CONFIGS, items, profile, store)
        table = stop.value.table
        assert len(table) == 6 and len(server.prompts) == 3
        assert table["status"].value_counts().to_dict() == {
            "ok": 2,
            "failed": 1,
            "not run": 3,
        }
        assert table.loc[table["status"] != "ok", "label"].isna().all()


def test_a_server_keeps_each_history_for_the_next_method(items):
    with FaultServer() as server:
        jobs = study.make_jobs(CONFIGS, items, make_profile(server))
    order = [
        (job.instance.question_id, job.config.method)
        for job in study.reading_order(jobs, 2)
    ]
    assert order == [
        ("q1", "direct"),
        ("q2", "direct"),
        ("q1", "con"),
        ("q2", "con"),
        ("q3_abs", "direct"),
        ("q3_abs", "con"),
    ]


def test_con_separate_asks_for_notes_first(items, store):
    config = Config("small", layout="json", method="con-separate")
    with FaultServer() as server:
        profile = make_profile(server)
        (job,) = study.make_jobs([config], items[:1], profile)
        notes = [
            study.note_messages(job.instance, record, "json")[0]["content"]
            for record in job.records
        ]
        assert len(notes) == 2
        server.script = {notes[1]: [Step(text="one more mug")]}
        table = study.run([config], items[:1], profile, store)
        assert server.prompts[:2] == notes
        assert "one more mug" in server.prompts[2]
        assert "Enamel paint" not in server.prompts[2]
        assert len(table["keys"][0]) == 3 and table["n_prompt"][0] == 300


def test_a_failed_note_fails_the_answer(items, store):
    config = Config("small", layout="json", method="con-separate")
    with FaultServer() as server:
        profile = make_profile(server)
        (job,) = study.make_jobs([config], items[:1], profile)
        first = study.note_messages(job.instance, job.records[0], "json")
        server.script = {first[0]["content"]: [error(500, "broken")]}
        table = study.run([config], items[:1], profile, store)
        assert table["status"].tolist() == ["failed"]
        assert table["reason"][0].startswith("notes: ") and len(server.prompts) == 2


def test_an_llm_judge_is_asked_by_name(items, store):
    with FaultServer() as server:
        profile = make_profile(server, judge="small")
        table = study.run(CONFIGS[:1], items, profile, store)
        assert set(table["judge"]) == {"small"}
        assert len(server.prompts) == 6
        judged = [p for p in server.prompts if "re: " in p]
        assert len(judged) == 3
        assert not any("has_answer" in p or "answer_aa" in p for p in server.prompts)


def judge_prompt(item, hypothesis):
    fields = (item.question_id, item.question_type, item.question, item.answer)
    return study.judge.judge_messages(*fields, hypothesis)[0]["content"]


def test_a_second_judge_stands_beside_the_first(items, store):
    said = ["You bought 3 mugs.", "You rode 4 trams.", "You did not say."]
    with FaultServer() as server:
        profile = make_profile(server)
        for prompt, text in zip(prompts(items, profile)[:3], said, strict=True):
            server.script[prompt] = [Step(text=text)]
        alone = study.run(CONFIGS[:1], items, profile, store)
        assert not [name for name in alone if name.endswith("_2")]
        assert [len(calls) for calls in alone["keys"]] == [1, 1, 1]
        for item, text, word in zip(items, said, ("No.", "Yes", "Yes"), strict=True):
            server.script[judge_prompt(item, text)] = [Step(text=word)]
        both = make_profile(server, second_judge="small")
        table = study.run(CONFIGS[:1], items, both, store)
    assert table["label"].tolist() == [True, False, True]
    assert table["label_2"].tolist() == [False, True, True]
    assert str(table["label_2"].dtype) == "boolean"
    assert set(table["judge"]) == {"offline"} and set(table["judge_2"]) == {"small"}
    assert table["verdict_reason"][0] == "numbers: 3"
    assert table["verdict_reason_2"].tolist() == ["No.", "Yes", "Yes"]
    assert table["p_yes_2"].isna().all()
    # the reader's call, then the second judge's
    assert [len(calls) for calls in table["keys"]] == [2, 2, 2]
    assert [calls[0] for calls in table["keys"]] == [c[0] for c in alone["keys"]]


def test_an_answer_that_failed_is_put_to_neither_judge(items, store):
    with FaultServer() as server:
        profile = make_profile(server, judge="small", second_judge="offline")
        server.script = {prompts(items, profile)[1]: [error(500, "broken")]}
        table = study.run(CONFIGS[:1], items, profile, store)
    assert table["label_2"].isna().tolist() == [False, True, False]
    assert table["verdict_reason_2"][1] == "no answer"
    # reader and first judge; the offline judge makes no calls
    assert [len(calls) for calls in table["keys"]] == [2, 1, 2]


def test_recordings_hold_the_calls_of_both_judges(items, tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "RECORDINGS", tmp_path / "recordings")
    monkeypatch.setattr("lme_utils.models.RECORDINGS", tmp_path / "recordings")
    monkeypatch.setenv("LME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Profile, "build_dir", property(lambda p: tmp_path / "build"))
    with FaultServer() as server:
        small = make_profile(server).endpoints["small"]
        large = small.model_copy(update={"model": "large"})
        endpoints = {"small": small, "large": large}
        profile = make_profile(
            server, judge="small", second_judge="large", endpoints=endpoints
        )
        table = study.run(CONFIGS[:1], items, profile)
        assert len(server.prompts) == 9  # three answers, each judged twice
        study.save_table(table, tmp_path / "build" / "results" / "08.parquet")
        recordings.record(profile)
        # another reader's machine: nothing stored, all of it recorded
        monkeypatch.setenv("LME_CACHE", str(tmp_path / "elsewhere"))
        again = study.run(CONFIGS[:1], items, profile)
        assert len(server.prompts) == 9
    assert len(llm.Store(tmp_path / "x", [recorded(tmp_path)]).recorded()) == 9
    assert again["keys"].tolist() == table["keys"].tolist()
    assert set(again["judge_2"]) == {"large"}


def recorded(folder):
    (path,) = (folder / "recordings" / "toy").glob("*.jsonl.xz")
    return path


def test_an_unknown_reader_is_refused_with_the_known(items, store):
    with FaultServer() as server, pytest.raises(ValueError, match="has small"):
        study.run([Config("large")], items, make_profile(server), store)


def test_recordings_of_embedded_data_hold_answers(items, tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "RECORDINGS", tmp_path / "recordings")
    monkeypatch.setattr("lme_utils.models.RECORDINGS", tmp_path / "recordings")
    monkeypatch.setenv("LME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Profile, "build_dir", property(lambda p: tmp_path / "build"))
    with FaultServer() as server:
        profile = make_profile(server)
        table = study.run(CONFIGS, items, profile)
        study.save_table(table, tmp_path / "build" / "results" / "06.parquet")
        (path,) = recordings.record(profile)
        first = path.read_bytes()
        assert recordings.record(profile) == [path] and path.read_bytes() == first
        n_calls = len(server.prompts)
        again = study.run(CONFIGS, items, profile)
        assert set(again["source"]) == {"recorded"}
        assert len(server.prompts) == n_calls
        asked = server.prompts[0]
        server.script = {asked: [Step(text="something else")]}
        said = recordings.check(profile, n=6).splitlines()
        assert said[0] == "small: 6 asked again, 1 differ"
        assert "now 'something else'" in said[1]


def test_recordings_of_real_data_hold_no_text(items, tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "RECORDINGS", tmp_path / "recordings")
    monkeypatch.setattr(Profile, "build_dir", property(lambda p: tmp_path / "build"))
    with FaultServer() as server:
        files = {"oracle": "o.json", "s": "s.json", "real": True}
        profile = make_profile(server, data=files, second_judge="small")
        with Models(profile, llm.Store(tmp_path / "s.sqlite")) as models:
            table = study.run(CONFIGS, items, profile, models.store)
    study.save_table(table, tmp_path / "build" / "results" / "06.parquet")
    (path,) = recordings.record(profile)
    text = path.read_text()
    assert text.count("\n") == 7 and "q3_abs" in text
    assert "mug" not in text and "re:" not in text


def test_the_answer_command_goes_on_where_it_was(items, tmp_path, monkeypatch):
    monkeypatch.setenv("LME_CACHE", str(tmp_path / "cache"))
    log, out = tmp_path / "log.jsonl", tmp_path / "answers.jsonl"
    data_file = str(tmp_path / "q")
    with FaultServer() as server:
        profile = tmp_path / "mine.toml"
        profile.write_text(
            'name = "mine"\nabout = ""\n'
            '[data]\noracle = "o"\ns = "s"\n'
            "[reading]\nmax_tokens = { direct = 20, con = 40, con-separate = 30 }\n"
            f'[endpoints.small]\nmodel = "toy"\nbase_url = "{server.base_url}"\n'
            "n_parallel = 1\nmax_retries = 0\n"
        )
        words = ["retrieve", "--data", data_file, "--compat", "official"]
        assert cli.main([*words, "--out", str(log)]) == 0
        words = ["answer", "--data", data_file, "--log", str(log), "--k", "1"]
        words += ["--profile", str(profile), "--out", str(out)]
        assert cli.main(words) == 0
        first = [json.loads(line) for line in out.read_text().splitlines()]
        assert [line["question_id"] for line in first] == ["q1", "q2", "q3_abs"]
        assert all(line["hypothesis"].startswith("re: ") for line in first)
        assert all(p.count("### Session") == 1 for p in server.prompts)
        assert cli.main(words) == 0 and len(server.prompts) == 3
        assert [json.loads(line) for line in out.read_text().splitlines()] == first
        # a refused key: lines for all, the reason in one line, a failed exit
        other = [word if word != "1" else "2" for word in words]
        server.script = {p: [error(401, "expired")] for p in _prompts_of(items)}
        assert cli.main(other) == 1
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert len(lines) == 3 and {x["status"] for x in lines} == {"failed", "not run"}


def _prompts_of(items):
    """What the command asks with the two best sessions of a BM25 ranking."""
    config = Config("small", "bm25", k=2)
    with FaultServer() as server:
        jobs = study.make_jobs([config], items, make_profile(server))
    return [
        study.answer_messages(job.instance, job.records, "json", "con")[0]["content"]
        for job in jobs
    ]
