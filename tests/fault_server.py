"""A chat server on loopback that does what a script says, to try what can go wrong.

For each prompt (the last message of a request) the script lists steps; the first call
takes the first step, and so on. Beyond its script the server answers "re: PROMPT".
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Step:
    """One scripted response.

    text, finish_reason, message, choice, usage   parts of a chat completion
    body            raw bytes instead of a chat completion
    cut_at          bytes of the body really sent; the connection then closes
    wait_s          time before the response; None: until the server stops
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    text: str | None = None
    finish_reason: str = "stop"
    message: dict = field(default_factory=dict)
    choice: dict = field(default_factory=dict)
    usage: dict | None = field(
        default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 10}
    )
    body: bytes | None = None
    cut_at: int | None = None
    wait_s: float | None = 0.0


def error(status: int, message: str, **headers: str) -> Step:
    """An error as OpenAI words it; `retry_after="1"` becomes a header."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"error": {"message": message}}).encode()
    return Step(status, names, body=body)


class FaultServer(ThreadingHTTPServer):
    """Use as a context manager; `base_url` is where it listens.

    prompts    every call's prompt, in order of arrival; `times` when each came
    requests   every call's body; `keys` its Authorization header
    n_served   prompt -> how often it got a complete response
    most_in_flight   calls that were being answered at the same time
    """

    daemon_threads = True
    block_on_close = False

    def __init__(
        self, script: dict[str, list[Step]] | None = None, wait_s: float = 0.0
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = {prompt: list(steps) for prompt, steps in (script or {}).items()}
        self.wait_s = wait_s
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.prompts: list[str] = []
        self.times: list[float] = []
        self.requests: list[dict] = []
        self.keys: list[str | None] = []
        self.n_served: Counter[str] = Counter()
        self.n_in_flight = self.most_in_flight = 0

    def __enter__(self) -> FaultServer:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that went away are part of the play."""


class _Handler(BaseHTTPRequestHandler):
    server: FaultServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet: no delayed acknowledgements

    def do_POST(self) -> None:
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = request["messages"][-1]["content"]
        with server.lock:
            server.prompts.append(prompt)
            server.times.append(time.monotonic())
            server.requests.append(request)
            server.keys.append(self.headers["Authorization"])
            steps = server.script.get(prompt)
            step = steps.pop(0) if steps else Step(wait_s=server.wait_s)
            server.n_in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.n_in_flight)
        try:
            server.stopped.wait(step.wait_s)
            self._respond(step, prompt)
        finally:
            with server.lock:
                server.n_in_flight -= 1

    def _respond(self, step: Step, prompt: str) -> None:
        body = step.body
        if body is None:
            text = f"re: {prompt}" if step.text is None else step.text
            message = {"role": "assistant", "content": text} | step.message
            choice = {"index": 0, "finish_reason": step.finish_reason} | step.choice
            completion = {"object": "chat.completion", "usage": step.usage}
            completion["choices"] = [choice | {"message": message}]
            body = json.dumps(completion).encode()
        self.send_response(step.status)
        for name, value in step.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: step.cut_at])
        self.wfile.flush()
        if step.cut_at is not None:
            self.close_connection = True
        elif step.status == 200:
            with self.server.lock:
                self.server.n_served[prompt] += 1

    def log_message(self, *args: object) -> None:
        """Nothing to say."""
