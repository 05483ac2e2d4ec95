"""The response store and the client, against a server that fails on purpose."""

import json
import lzma
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fault_server import FaultServer, Step, error

from lme_utils import llm
from lme_utils.config import ROOT, Endpoint

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
SECRET = "sk-toy-4711-keep-me-out"


def request(prompt: str = "hi", **changes) -> llm.Request:
    fields = {"model": "toy", "revision": "r1", "max_tokens": 50}
    messages = ({"role": "user", "content": prompt},)
    return llm.Request(**(fields | {"messages": messages} | changes))


def endpoint(server: FaultServer | None = None, **changes) -> Endpoint:
    fields = {"model": "toy", "timeout_s": 5.0, "max_retries": 1, "n_parallel": 1}
    if server:
        fields["base_url"] = server.base_url
    return Endpoint(**(fields | changes))


def recording(made: llm.Request, text: str = "recorded") -> dict:
    return {
        "key": made.key,
        "model": made.model,
        "revision": made.revision,
        "text": text,
        "finish_reason": "stop",
        "n_prompt": 7,
        "n_completion": 3,
        "latency_s": 1.5,
        "first_logprobs": {"re": -0.1},
    }


def write_lines(path: Path, *rows: dict) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(
        lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode()
    )
    return path


@pytest.fixture
def store(tmp_path):
    made = llm.Store(tmp_path / "responses.sqlite")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for name in list(os.environ):
        if name.startswith("OPENAI_"):
            monkeypatch.delenv(name)


# --- requests


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "other"},
        {"revision": "r2"},
        {"messages": ({"role": "user", "content": "ho"},)},
        {"messages": ({"role": "system", "content": "hi"},)},
        {"messages": ({"role": "user", "content": "hi"},) * 2},
        {"max_tokens": 51},
        {"temperature": 0.5},
        {"json_schema": SCHEMA},
        {"top_logprobs": 5},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_field_changes_the_key(changes):
    assert set(changes) <= set(llm.Request.model_fields)
    assert request(**changes).key != request().key


def test_key_tests_cover_every_field():
    marks = test_every_field_changes_the_key.pytestmark
    tried = {name for changes in marks[0].args[1] for name in changes}
    assert tried == set(llm.Request.model_fields)


def test_key_is_the_same_for_the_same_request():
    one = request(json_schema={"type": "object", "required": ["n"]})
    two = request(json_schema={"required": ["n"], "type": "object"})
    assert one.key == two.key
    assert one.key == llm.Request.model_validate_json(one.model_dump_json()).key


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": ()},
        {"messages": ({"role": "robot", "content": "hi"},)},
        {"messages": ({"role": "user", "content": "hi", "has_answer": True},)},
        {"max_tokens": 0},
        {"temperature": -1},
        {"json_schema": {"type": "no such type"}},
        {"seed": 3},
    ],
)
def test_bad_requests_are_refused(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        request(**changes)


# --- store and recordings


def test_asked_once_then_stored(store):
    requests = [request("a"), request("b"), request("a")]
    with FaultServer() as server:
        first = llm.ask(requests, endpoint(server), store)
        again = llm.ask(requests, endpoint(server), store)
    assert [r.text for r in first] == ["re: a", "re: b", "re: a"]
    assert {r.source for r in first} == {"live"}
    assert (first[0].n_prompt, first[0].n_completion) == (100, 10)
    assert [r.text for r in again] == [r.text for r in first]
    assert {r.source for r in again} == {"stored"}
    assert sorted(server.prompts) == ["a", "b"]


def test_store_outlives_its_object_and_nothing_is_replaced(tmp_path):
    path = tmp_path / "deep" / "responses.sqlite"
    with FaultServer({"a": [Step(text="one"), Step(text="two")]}) as server:
        for _ in range(2):
            (reply,) = llm.ask([request("a")], endpoint(server), llm.Store(path))
            assert reply.text == "one"
        assert server.prompts == ["a"]


def test_recordings_answer_without_a_server_unless_live(tmp_path):
    a, b = request("a"), request("b")
    plain = write_lines(tmp_path / "a.jsonl", recording(a, "ra"))
    packed = write_lines(tmp_path / "b.jsonl.xz", recording(b, "rb"))
    path = tmp_path / "responses.sqlite"
    store = llm.Store(path, [plain, packed])
    priced = endpoint(usd_per_m_in=1.0)
    replies = llm.ask([b, a], priced, store)
    assert [(r.text, r.source) for r in replies] == [
        ("rb", "recorded"),
        ("ra", "recorded"),
    ]
    assert replies[0].usd == pytest.approx(7e-6)
    assert replies[0].first_logprobs == {"re": -0.1}
    with FaultServer() as server:
        (reply,) = llm.ask([a], endpoint(server), store, live=True)
        assert (reply.text, reply.source) == ("re: a", "live")
        resumed = llm.ask([a, b], endpoint(server), store, live=True)
    assert [(r.text, r.source) for r in resumed] == [
        ("re: a", "stored"),
        ("re: b", "live"),
    ]
    assert server.prompts == ["a", "b"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda good: b"{not json\n", "Invalid JSON"),
        (lambda good: b"\xff\xfe\n", "JSON"),
        (lambda good: b"\n", "JSON"),
        (lambda good: good.replace(b'"n_prompt": 7', b'"n_prompt": "7"'), "n_prompt"),
        (lambda good: good.replace(b'"text"', b'"words"'), "text"),
        (lambda good: good.replace(b'"key": "', b'"key": "x'), "key"),
        (lambda good: good.replace(b"one", b"two"), "another answer"),
    ],
)
def test_damaged_recordings_are_named(tmp_path, damage, message):
    good = json.dumps(recording(request("a"), "one")).encode() + b"\n"
    path = tmp_path / "answers.jsonl"
    path.write_bytes(good + damage(good))
    with pytest.raises(ValueError, match=message) as caught:
        llm.Store(tmp_path / "responses.sqlite", [path])
    assert f"{path}, line 2" in str(caught.value)


def test_truncated_xz_is_named(tmp_path):
    rows = [recording(request(f"{i}"), "word " * i) for i in range(50)]
    path = write_lines(tmp_path / "answers.jsonl.xz", *rows)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"answers\.jsonl\.xz, line \d+"):
        llm.Store(tmp_path / "responses.sqlite", [path])


def test_export_round_trip_is_deterministic(tmp_path, store):
    requests = [request(f"{i} ü\u2028\n") for i in range(5)]
    step = Step(text="half \ud83d and \u2028 whole")
    with FaultServer({requests[0].messages[0]["content"]: [step]}) as server:
        asked = llm.ask(requests, endpoint(server), store)
    path = tmp_path / "out" / "answers.jsonl.xz"
    keys = [r.key for r in requests]
    llm.export_recordings(store, keys, path)
    first = path.read_bytes()
    llm.export_recordings(store, reversed(keys + keys), path)
    assert path.read_bytes() == first
    lines = lzma.decompress(first).decode().split("\n")[:-1]
    assert [json.loads(line)["key"] for line in lines] == sorted(keys)
    assert set(json.loads(lines[0])) == {*recording(request()), "request"}
    other = llm.Store(tmp_path / "other.sqlite", [path])
    replayed = llm.ask(requests, endpoint(), other)
    assert [r.text for r in replayed] == [r.text for r in asked]
    assert {r.source for r in replayed} == {"recorded"}
    assert replayed[0].text == "half ? and \u2028 whole"
    llm.export_recordings(other, keys, path)  # recordings can be carried on
    assert path.read_bytes() == first
    with pytest.raises(ValueError, match="1 of 6 keys, such as 00"):
        llm.export_recordings(store, [*keys, "0" * 64], path)
    assert path.read_bytes() == first
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_no_store_is_refused(tmp_path):
    path = tmp_path / "responses.sqlite"
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(OSError, match=r"responses\.sqlite: no response store"):
        llm.Store(path)


def _fill(path: Path, base_url: str, first: int) -> None:
    requests = [request(str(i)) for i in range(first, first + 20)]
    llm.ask(requests, endpoint(base_url=base_url, n_parallel=4), llm.Store(path))


def test_processes_share_a_store(tmp_path):
    path = tmp_path / "responses.sqlite"
    spawn = multiprocessing.get_context("spawn")
    with FaultServer() as server:
        workers = [
            spawn.Process(target=_fill, args=(path, server.base_url, first))
            for first in (0, 10)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0, 0]
    everything = [request(str(i)) for i in range(30)]
    replies = llm.ask(everything, endpoint(), llm.Store(path))
    assert [r.text for r in replies] == [f"re: {i}" for i in range(30)]


def test_threads_share_a_store(store):
    with FaultServer() as server:
        run = endpoint(server, n_parallel=4)
        groups = [[request(f"{g}-{i}") for i in range(10)] for g in range(4)]
        threads = [
            threading.Thread(target=llm.ask, args=(group, run, store))
            for group in groups
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(store.calls()) == 40
    assert all(store.find(r.key)[1] == "stored" for group in groups for r in group)


# --- asking


def test_order_is_kept_and_calls_overlap(store):
    slow_first = {"0": [Step(wait_s=0.4)]}
    requests = [request(str(i)) for i in range(12)]
    with FaultServer(slow_first, wait_s=0.1) as server:
        start = time.monotonic()
        replies = llm.ask(requests, endpoint(server, n_parallel=4), store)
        wall_s = time.monotonic() - start
    assert [r.text for r in replies] == [f"re: {i}" for i in range(12)]
    assert server.most_in_flight == 4
    assert wall_s < 1.2  # one after the other: 1.5 s
    for place, prompt in enumerate(server.prompts):
        assert abs(int(prompt) - place) < 4  # started in order, four at a time


def test_one_at_a_time_starts_in_order(store):
    requests = [request(str(i)) for i in range(9)]
    with FaultServer() as server:
        llm.ask(requests, endpoint(server), store)
    assert server.prompts == [str(i) for i in range(9)]
    assert server.most_in_flight == 1


def test_connect_is_called_once_and_only_when_needed(store):
    connected = []
    with FaultServer() as server:

        def connect() -> str:
            connected.append(1)
            return server.base_url

        llm.ask([request("a"), request("b")], endpoint(), store, connect)
        assert connected == [1]
        llm.ask([request("b"), request("a")], endpoint(), store, connect)
        assert connected == [1]


def _fails() -> str:
    raise FileNotFoundError("toy.gguf is missing: run `make model`")


@pytest.mark.parametrize(
    ("connect", "message"),
    [
        (None, "nowhere to ask"),
        (lambda: "here", "'here'"),
        (_fails, "run `make model`"),
    ],
)
def test_no_way_to_ask_is_an_error_with_rows(store, connect, message):
    kept = request("kept")
    with FaultServer() as server:
        llm.ask([kept], endpoint(server), store)
    with pytest.raises(llm.StopRun, match=message) as caught:
        llm.ask([request("new"), kept], endpoint(), store, connect)
    new, old = caught.value.replies
    assert (new.status, new.text, new.source) == ("not run", "", "")
    assert message in new.reason
    assert (old.status, old.text) == ("ok", "re: kept")


def test_arguments_reach_the_server(store):
    token = {"token": "Yes", "logprob": -0.2}
    top = [token, {"token": " yes", "logprob": -2.0}, {"token": "No", "logprob": -3}]
    top += [{"token": "a", "logprob": None}, {"token": "b", "logprob": -float("inf")}]
    logprobs = {
        "content": [token | {"top_logprobs": top}, token | {"top_logprobs": []}]
    }
    script = {"judge": [Step(text="Yes", choice={"logprobs": logprobs})]}
    with FaultServer(script) as server:
        asked = request("judge", top_logprobs=3, temperature=0.25)
        (reply,) = llm.ask([asked], endpoint(server), store)
        (plain,) = llm.ask([request("plain")], endpoint(server), store)
        (again,) = llm.ask([asked], endpoint(server), store)
    sent = server.requests[0]
    assert sent["model"] == "toy"
    assert sent["messages"] == [{"role": "user", "content": "judge"}]
    assert (sent["max_tokens"], sent["temperature"]) == (50, 0.25)
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 3)
    assert reply.first_logprobs == {"Yes": -0.2, " yes": -2.0, "No": -3.0}
    assert again.first_logprobs == reply.first_logprobs
    assert not {"logprobs", "response_format"} & set(server.requests[1])
    assert plain.first_logprobs is None


# --- faults


def test_429_waits_as_told_and_goes_on(store):
    script = {"a": [error(429, "slow down", retry_after="1")]}
    with FaultServer(script) as server:
        (reply,) = llm.ask([request("a")], endpoint(server), store)
    assert (reply.status, reply.text) == ("ok", "re: a")
    waited_s = server.times[1] - server.times[0]
    assert 1.0 <= waited_s < 3.0
    assert reply.latency_s >= 1.0


def test_500_once_is_retried(store):
    with FaultServer({"a": [error(500, "oops")]}) as server:
        (reply,) = llm.ask([request("a")], endpoint(server), store)
    assert reply.status == "ok"
    assert server.prompts == ["a", "a"]


def test_500_for_ever_is_a_row_and_asked_again_by_the_next_run(store):
    with FaultServer({"a": [error(500, "oops")] * 2}) as server:
        failed, fine = llm.ask([request("a"), request("b")], endpoint(server), store)
        assert server.prompts == ["a", "a", "b"]  # one retry layer, two tries
        assert (failed.status, failed.text, failed.source) == ("failed", "", "live")
        assert failed.reason == "Error code: 500 - oops"
        assert fine.status == "ok"
        assert store.find(failed.key) is None
        (again,) = llm.ask([request("a")], endpoint(server), store)
    assert (again.status, again.source) == ("ok", "live")
    assert [(c["key"], c["outcome"]) for c in store.calls()] == [
        (failed.key, failed.reason),
        (fine.key, "ok"),
        (failed.key, "ok"),
    ]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_stops_at_once(store, monkeypatch, status):
    monkeypatch.setenv("TOY_KEY", SECRET)
    script = {"2": [error(status, f"no entry with {SECRET}")]}
    requests = [request(str(i)) for i in range(6)]
    with FaultServer(script) as server:
        run = endpoint(server, api_key_env="TOY_KEY", max_retries=4)
        with pytest.raises(
            llm.StopRun, match=f"refused the key in TOY_KEY.*{status} - no"
        ) as caught:
            llm.ask(requests, run, store)
    assert server.prompts == ["0", "1", "2"]
    assert server.keys == [f"Bearer {SECRET}"] * 3
    replies = caught.value.replies
    assert [r.key for r in replies] == [r.key for r in requests]
    assert [r.status for r in replies] == ["ok"] * 2 + ["failed"] + ["not run"] * 3
    assert all(str(caught.value) in r.reason for r in replies[3:])


def test_a_refused_key_waits_for_calls_in_flight(store):
    script = {"0": [Step(wait_s=0.3)], "1": [error(401, "who are you?")]}
    requests = [request(str(i)) for i in range(5)]
    with FaultServer(script) as server, pytest.raises(llm.StopRun) as caught:
        llm.ask(requests, endpoint(server, n_parallel=2), store)
    assert sorted(server.prompts) == ["0", "1"]
    assert caught.value.replies[0].text == "re: 0"
    assert store.find(requests[0].key)


def test_time_out_is_a_row_and_asked_again(store):
    script = {"a": [Step(wait_s=None)] * 2}
    with FaultServer(script) as server:
        run = endpoint(server, timeout_s=0.3)
        start = time.monotonic()
        slow, fine = llm.ask([request("a"), request("b")], run, store)
        assert time.monotonic() - start < 4
        assert (slow.status, slow.reason) == (
            "failed",
            "no reply within 0.3 s, 2 tries",
        )
        assert fine.status == "ok"
        assert store.find(slow.key) is None
        assert llm.ask([request("a")], run, store)[0].status == "ok"


def test_no_server_is_a_row_with_the_cause(store):
    with FaultServer() as server:
        gone = endpoint(server, max_retries=0)
    (reply,) = llm.ask([request("a")], gone, store)
    assert reply.status == "failed"
    assert reply.reason.startswith("connection failed, 1 tries")
    assert "refused" in reply.reason


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Step(cut_at=60), "connection failed"),
        (Step(body=b'{"choices": [{"mess'), "no chat completion"),
        (Step(body=b"<html>busy</html>"), "<html>busy</html>"),
        (Step(body=b'{"choices": []}'), "no chat completion"),
        (Step(body=b"[1]"), "no chat completion"),
        (Step(body=b"[" * 100_000), "no chat completion"),
        (Step(message={"content": 3}), "no chat completion"),
        (Step(body=b""), "no chat completion"),
        (Step(usage={"prompt_tokens": "ten"}), "n_prompt"),
    ],
    ids=["cut", "half", "html", "none", "list", "deep", "number", "nothing", "usage"],
)
def test_a_broken_body_is_a_row_and_asked_again(store, step, reason):
    with FaultServer({"a": [step]}) as server:
        run = endpoint(server, max_retries=0)
        broken, fine = llm.ask([request("a"), request("b")], run, store)
        assert (broken.status, broken.text) == ("failed", "")
        assert reason in broken.reason
        assert len(broken.reason) < 1000
        assert fine.status == "ok"
        assert llm.ask([request("a")], run, store)[0].text == "re: a"
    assert server.n_served["b"] == 1


@pytest.mark.parametrize(
    ("step", "text", "reason"),
    [
        (Step(text=""), "", "empty answer"),
        (Step(text=" \n"), " \n", "empty answer"),
        (Step(message={"content": None}), "", "empty answer"),
        (Step(text="I c", finish_reason="content_filter"), "I c", "content_filter"),
        (Step(message={"content": None, "refusal": "I won't"}), "I won't", "refusal"),
    ],
)
def test_useless_replies_are_rows_and_kept(store, step, text, reason):
    with FaultServer({"a": [step]}) as server:
        first = llm.ask([request("a")], endpoint(server), store)[0]
        again = llm.ask([request("a")], endpoint(server), store)[0]
    assert server.prompts == ["a"]
    for reply in (first, again):
        assert (reply.status, reply.text) == ("failed", text)
        assert reason in reply.reason
        assert reply.n_prompt == 100
    assert again.source == "stored"


def test_cut_off_free_text_is_an_answer_that_says_so(store):
    with FaultServer({"a": [Step(text="and then", finish_reason="length")]}) as server:
        (reply,) = llm.ask([request("a")], endpoint(server), store)
    assert (reply.status, reply.finish_reason) == ("ok", "length")


@pytest.mark.parametrize(
    ("step", "reason", "parsed"),
    [
        (Step(text='{"n": 3}'), "", {"n": 3}),
        (Step(text='{"n": '), "not JSON", None),
        (Step(text="[" * 100_000), "not JSON", None),
        (Step(text='{"n": "3"}'), "$.n: '3' is not of type 'integer'", None),
        (Step(text='{"n": 3, "m": 1}'), "'m' was unexpected", None),
        (Step(text="{}"), "'n' is a required property", None),
        (Step(text='{"n": 3}', finish_reason="length"), "cut off at 50 tokens", None),
    ],
    ids=["fits", "half", "deep", "type", "extra", "missing", "length"],
)
def test_json_is_asked_for_and_validated(store, step, reason, parsed):
    asked = request("a", json_schema=SCHEMA)
    with FaultServer({"a": [step]}) as server:
        first = llm.ask([asked], endpoint(server), store)[0]
        again = llm.ask([asked], endpoint(server), store)[0]
    (sent,) = server.requests
    assert sent["response_format"]["type"] == "json_schema"
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA
    assert sent["response_format"]["json_schema"]["strict"] is True
    for reply in (first, again):
        assert reply.status == ("failed" if reason else "ok")
        assert reason in reply.reason
        assert (reply.text, reply.parsed) == (step.text, parsed)


def test_a_refused_schema_is_a_row_with_the_servers_words(store):
    script = {"a": [error(400, "schema: 'required' is not supported")]}
    with FaultServer(script) as server:
        asked = [request("a", json_schema=SCHEMA), request("b")]
        refused, fine = llm.ask(asked, endpoint(server, max_retries=3), store)
    assert server.prompts == ["a", "b"]  # a 400 is never tried again
    assert refused.status == "failed"
    assert refused.reason == "Error code: 400 - schema: 'required' is not supported"
    assert fine.status == "ok"


def test_a_prompt_that_cannot_be_sent_is_a_row(store):
    with FaultServer() as server:
        bad, fine = llm.ask([request("\ud83d"), request("b")], endpoint(server), store)
    assert bad.status == "failed"
    assert "surrogates not allowed" in bad.reason
    assert fine.status == "ok"


# --- money


def priced(server: FaultServer, **changes) -> Endpoint:
    """A call costs 100 tokens in and 10 out: 0.0012 USD."""
    return endpoint(server, usd_per_m_in=10.0, usd_per_m_out=20.0, **changes)


@pytest.mark.parametrize("n_parallel", [1, 4])
def test_the_budget_stops_before_it_is_overspent(store, n_parallel):
    requests = [request(str(i)) for i in range(10)]
    budget_usd = 0.0060
    with FaultServer(wait_s=0.02) as server:
        run = priced(server, n_parallel=n_parallel)
        with pytest.raises(llm.StopRun, match="calls left") as caught:
            llm.ask(requests, run, store, budget_usd=budget_usd)
        # a call may cost 33 bytes in and 50 tokens out, 0.00133: four fit (0.0048)
        assert len(server.prompts) == 4
        assert store.usd_spent == pytest.approx(4 * 0.0012)
        assert sum(call["usd"] for call in store.calls()) == pytest.approx(0.0048)
        said = str(caught.value)
        assert "0.0048 of 0.0060 USD" in said
        assert "6 calls left" in said
        statuses = [r.status for r in caught.value.replies]
        assert sorted(statuses) == ["not run"] * 6 + ["ok"] * 4
        assert {r.reason for r in caught.value.replies if r.status == "not run"} == {
            said
        }
        # the same run has nothing left for other questions, a later one has
        with pytest.raises(llm.StopRun, match="1 calls left"):
            llm.ask([request("more")], run, store, budget_usd=budget_usd)
        replies = llm.ask(requests, run, store, budget_usd=1.0)
    assert [r.usd for r in replies] == pytest.approx([0.0012] * 10)
    assert len(server.prompts) == 10


def test_calls_without_a_count_are_charged_in_full(store):
    script = {
        "no usage": [Step(usage=None)],
        "slow": [Step(wait_s=None)],
        "broken": [Step(body=b"x")],
        "busy": [error(429, "busy")],
    }
    with FaultServer(script) as server:
        run = priced(server, timeout_s=0.2, max_retries=0)
        llm.ask([request(prompt) for prompt in script], run, store)
    usd = [call["usd"] for call in store.calls()]
    assert all(cost >= 50 * 20 / 1e6 for cost in usd[:3])
    assert usd[3] == 0.0
    assert store.usd_spent == pytest.approx(sum(usd))


def test_estimate(store):
    run = {"usd_per_m_in": 2.0, "usd_per_m_out": 10.0, "n_parallel": 1}
    run |= {"read_per_s": 100.0, "write_per_s": 5.0}
    requests = [request("x" * 4000), request("y" * 4000), request("y" * 4000)]
    with FaultServer() as server:
        llm.ask(requests[:1], endpoint(server), store)
        before = llm.estimate(requests, endpoint(server, **run), store)
        assert (before.n_calls, before.n_stored, before.n_to_ask) == (2, 1, 1)
        assert (before.n_prompt, before.n_completion) == (1000, 50)
        assert before.minutes == pytest.approx((1000 / 100 + 50 / 5) / 60)
        assert before.usd == pytest.approx((1000 * 2 + 50 * 10) / 1e6)
        assert "2 calls, 1 stored, 1 to make" in str(before)
        counted = llm.estimate(requests, endpoint(**run), store, count_tokens=len)
        assert counted.n_prompt == 4000
        assert len(server.prompts) == 1
        llm.ask(requests, endpoint(server), store)
    after = llm.estimate(requests, endpoint(**run), store)
    assert (after.n_to_ask, after.minutes, after.usd) == (0, 0.0, 0.0)
    assert str(after) == "2 calls, 2 stored, none to make"


def test_estimate_leaves_recordings_aside_when_live(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", recording(request("a")))
    store = llm.Store(tmp_path / "responses.sqlite", [path])
    assert llm.estimate([request("a")], endpoint(), store).n_to_ask == 0
    assert llm.estimate([request("a")], endpoint(), store, live=True).n_to_ask == 1


# --- the key


def test_the_key_goes_to_the_server_and_nowhere_else(tmp_path, monkeypatch, caplog):
    caplog.set_level("DEBUG")
    monkeypatch.setenv("TOY_KEY", SECRET + "\n")
    script = {
        "400": [error(400, f"bad {SECRET}")],
        "cut in two": [error(400, "x" * 468 + SECRET)],
        "quoted": [Step(body=b"x" * 490 + SECRET.encode())],
        "echo": [Step(text=f"you sent {SECRET}")],
        "500": [error(500, f"oops {SECRET}")] * 2,
        "body": [Step(body=f"what {SECRET}".encode())],
        "401": [error(401, f"wrong key: {SECRET}")],
    }
    requests = [request(prompt) for prompt in ("fine", *script, "never")]
    store = llm.Store(tmp_path / "responses.sqlite")
    with FaultServer(script) as server, pytest.raises(llm.StopRun) as caught:
        llm.ask(requests, endpoint(server, api_key_env="TOY_KEY"), store)
    assert set(server.keys) == {f"Bearer {SECRET}"}
    replies = caught.value.replies
    assert [r.status for r in replies[-2:]] == ["failed", "not run"]
    assert sum("[key]" in r.reason for r in replies) >= 4
    start = SECRET[:10]
    assert start not in repr((replies, caught.value, store.calls()))
    assert start not in caplog.text
    names = {path.name for path in tmp_path.iterdir()}
    assert {"responses.sqlite", "responses.sqlite-wal"} <= names
    for path in tmp_path.iterdir():
        assert start.encode() not in path.read_bytes()


def test_no_key_is_sent_where_none_is_named(store, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with FaultServer() as server:
        llm.ask([request("a")], endpoint(server), store)
    assert SECRET not in str(server.keys)


@pytest.mark.parametrize("value", [None, "", "two words", "sk-\u2026"])
def test_a_missing_or_unusable_key_stops_the_run(store, monkeypatch, value):
    monkeypatch.delenv("TOY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("TOY_KEY", value)
    with (
        FaultServer() as server,
        pytest.raises(llm.StopRun, match="TOY_KEY") as caught,
    ):
        llm.ask([request("a")], endpoint(server, api_key_env="TOY_KEY"), store)
    assert server.prompts == []
    assert caught.value.replies[0].status == "not run"
    assert not value or value not in str(caught.value)


def test_a_proxy_is_not_asked_for_local_servers(store, monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with FaultServer() as server:
        (reply,) = llm.ask([request("a")], endpoint(server, max_retries=0), store)
    assert reply.status == "ok"


# --- the end of a process

RUN = """
import sys
sys.path[:0] = {paths!r}
import test_llm
from lme_utils import llm
requests = [test_llm.request(str(i)) for i in range(40)]
run = test_llm.endpoint(base_url={base_url!r}, n_parallel=4, timeout_s=60)
print("start", flush=True)
llm.ask(requests, run, llm.Store(test_llm.Path({path!r})))
print("end")
"""


def _start(path: Path, server: FaultServer) -> subprocess.Popen:
    paths = [str(ROOT), str(ROOT / "tests")]
    script = RUN.format(paths=paths, base_url=server.base_url, path=str(path))
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _wait_until(condition, limit_s: float = 20.0) -> None:
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.01)


def test_kill_in_the_middle_and_resume(tmp_path):
    path = tmp_path / "responses.sqlite"
    requests = [request(str(i)) for i in range(40)]
    with FaultServer(wait_s=0.05) as server:
        child = _start(path, server)
        _wait_until(lambda: sum(server.n_served.values()) >= 14)
        child.kill()
        assert child.wait() == -signal.SIGKILL
        child.communicate()
        _wait_until(lambda: server.n_in_flight == 0)
        time.sleep(0.2)  # for what was sent but not yet seen
        store = llm.Store(path)
        kept = [r for r in requests if store.find(r.key)]
        n_asked = len(server.prompts)
        assert 10 <= len(kept) < 40
        assert n_asked - len(kept) <= 4  # at most the calls in flight are lost
        replies = llm.ask(requests, endpoint(server, n_parallel=4), store)
    assert [r.text for r in replies] == [f"re: {i}" for i in range(40)]
    assert sum(r.source == "stored" for r in replies) == len(kept)
    asked_later = server.prompts[n_asked:]
    assert sorted(asked_later) == sorted(
        r.messages[0]["content"] for r in requests if r not in kept
    )


def test_ctrl_c_ends_at_once_and_keeps_what_came(tmp_path):
    path = tmp_path / "responses.sqlite"
    hang = {str(i): [Step(wait_s=None)] for i in range(6, 40)}
    with FaultServer(hang) as server:
        child = _start(path, server)
        _wait_until(lambda: len(server.prompts) == 10)  # 6 answered, 4 hang
        _wait_until(lambda: len(llm.Store(path).calls()) == 6)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
        assert time.monotonic() - start < 5
        assert b"KeyboardInterrupt" in err
        assert b"end" not in out
        assert len(server.prompts) == 10
    store = llm.Store(path)
    assert all(store.find(request(str(i)).key) for i in range(6))


# --- progress


def test_progress_counts_the_calls_to_make(store):
    seen = []
    requests = [request(str(i)) for i in range(5)]
    with FaultServer() as server:
        llm.ask(requests[:2], endpoint(server), store)
        llm.ask(
            requests, endpoint(server), store, progress=lambda *now: seen.append(now)
        )
        llm.ask(
            requests, endpoint(server), store, progress=lambda *now: seen.append(now)
        )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_progress_lines(capsys):
    say = llm.say_progress("answers")
    for done in range(141):
        say(done, 140)
    steps = llm.say_progress("texts")
    for done in (64, 100):
        steps(done, 100)
    llm.say_progress("nothing")(0, 0)
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "answers: 14 of 140 done"
    assert lines[9] == "answers: 140 of 140 done"
    assert lines[10:] == ["texts: 64 of 100 done", "texts: 100 of 100 done"]
    assert err == ""


def test_progress_is_a_bar_in_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    say = llm.say_progress("answers")
    for done in range(1, 4):
        say(done, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "answers" in err
    assert "3/3" in err
