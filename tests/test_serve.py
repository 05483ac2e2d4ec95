"""The local server: starting, answering, and ending for sure."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

from lme_utils import config, serve, weights

SMALL = "Qwen2.5-Coder-0.5B-Instruct"


@pytest.fixture
def small():
    """The name of the smaller model; skips where it was not fetched."""
    try:
        weights.find_weights(SMALL)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return SMALL


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Lets a test run a child of its own instead of the engine."""
    model = tmp_path / "toy.gguf"
    model.write_bytes(b"weights")
    monkeypatch.setattr(weights, "find_weights", lambda name: model)

    def replace(code):
        def command(model, name, n_parallel, context, address):
            return [sys.executable, "-c", code, str(address)]

        monkeypatch.setattr(serve, "_command", command)

    return replace


def is_open(base_url):
    url = urlsplit(base_url)
    with (
        contextlib.suppress(OSError),
        socket.create_connection((url.hostname, url.port), timeout=1),
    ):
        return True
    return False


def is_running(pid):
    """Whether a process is there and not merely waiting to be collected."""
    done = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True
    )
    return done.stdout.strip() != "" and not done.stdout.startswith("Z")


def wait_until(condition, seconds=20):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.1)
    return False


def test_missing_weights_say_what_to_run(monkeypatch, tmp_path):
    monkeypatch.setenv("LME_CACHE", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="make model"), serve.running(SMALL):
        pass


def test_a_server_that_ends_shows_its_log(fake):
    fake("print('no such kernel', flush=True); raise SystemExit(3)")
    with (
        pytest.raises(RuntimeError, match=r"(?s)exit code 3.*no such kernel"),
        serve.running("toy"),
    ):
        pass


def test_a_server_that_never_gets_ready_is_stopped(fake, monkeypatch, tmp_path):
    pid_file = tmp_path / "pid"
    fake(
        "import os, sys, time; print('still loading', flush=True);"
        f"open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )
    monkeypatch.setattr(serve, "READY_WITHIN_S", 1.5)
    with (
        pytest.raises(RuntimeError, match=r"(?s)not ready within 2 s.*still loading"),
        serve.running("toy"),
    ):
        pass
    assert not is_running(int(pid_file.read_text()))


STUBBORN = """
import http.server, pathlib, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 0), Healthy)
address = f"http://127.0.0.1:{server.server_port}"
part = pathlib.Path(sys.argv[1] + ".part")
part.write_text(address)
part.rename(sys.argv[1])
server.serve_forever()
"""


def test_a_server_that_will_not_stop_is_killed(fake, monkeypatch):
    fake(STUBBORN)
    monkeypatch.setattr(serve, "STOP_WITHIN_S", 0.5)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # must not be asked
    with pytest.raises(KeyError), serve.running("toy") as base_url:
        assert base_url.endswith("/v1") and is_open(base_url)
        raise KeyError
    assert not is_open(base_url)


@pytest.mark.live
def test_answers_as_the_openai_api_does(small):
    from openai import OpenAI

    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["city", "year"],
        "additionalProperties": False,
    }
    fact = "The bridge in Porto was opened in 1886. "
    with serve.running(small, n_parallel=2, context=1024) as base_url:
        client = OpenAI(base_url=base_url, api_key="none", max_retries=0)

        def ask(question, **settings):
            return client.chat.completions.create(
                model=small,
                messages=[{"role": "user", "content": fact * 20 + question}],
                temperature=0,
                **settings,
            )

        first = ask("Which year?", max_tokens=24, logprobs=True, top_logprobs=5)
        again = ask("Which city?", max_tokens=4)
        shaped = ask(
            "Give the city and the year as JSON.",
            max_tokens=40,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "fact", "schema": schema, "strict": True},
            },
        )
    assert first.model == small
    assert "1886" in first.choices[0].message.content
    tokens = first.choices[0].logprobs.content
    assert len(tokens[0].top_logprobs) == 5
    assert all(token.logprob <= 0 for token in tokens)
    assert first.usage.prompt_tokens > 200
    # The beginning that both prompts share was read once.
    assert again.usage.prompt_tokens_details.cached_tokens > 200
    assert json.loads(shaped.choices[0].message.content)["year"] == 1886
    assert not is_open(base_url)


PARENT = """
import sys, time
from lme_utils import serve
wait = serve._wait
def tell(child, *rest):
    print(child.pid, flush=True)
    return wait(child, *rest)
serve._wait = tell
with serve.running(sys.argv[1], n_parallel=1, context=512) as base_url:
    print(base_url, flush=True)
    time.sleep(120)
"""


@pytest.mark.live
@pytest.mark.skipif(os.name == "nt", reason="needs kill -9")
@pytest.mark.parametrize("when", ["while loading", "when ready"])
def test_dies_with_its_parent(small, when):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, small],
        cwd=config.ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    child = int(parent.stdout.readline())
    if when == "when ready":
        base_url = parent.stdout.readline().strip()
        assert is_open(base_url)
    assert is_running(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert wait_until(lambda: not is_running(child))
    if when == "when ready":
        assert wait_until(lambda: not is_open(base_url))
