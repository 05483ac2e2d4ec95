"""A local language model behind the OpenAI API, as a child process.

The engine is llama.cpp's own HTTP server out of `xllamacpp`. It ends with the process
that started it, whatever ends that one.

    python -m lme_utils.serve NAME [--port P]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from . import config, weights

READY_WITHIN_S = 180.0
STOP_WITHIN_S = 5.0  # then it is killed
MAX_THREADS = 8  # beyond, memory is the limit, not the cores
PREFIX_CACHE_MIB = 2048  # prompts of earlier requests, kept for their beginnings


@contextlib.contextmanager
def running(name: str, n_parallel: int = 4, context: int = 8192) -> Iterator[str]:
    """Serve a model of `data/sources.toml` while the block runs.

    n_parallel   requests answered at the same time
    context      tokens of one request, prompt and reply together
    yields       the base URL, such as "http://127.0.0.1:40213/v1"

    What a prompt shares with the beginning of an earlier one is not read again, but
    requests that begin alike and run at the same time are each read in full: ask them
    one after the other, and different beginnings side by side.

    Raises FileNotFoundError where the weights were not fetched, RuntimeError with the
    end of the server's log where it does not get ready.
    """
    model = weights.find_weights(name)
    with tempfile.TemporaryDirectory(prefix="lme-serve-") as folder:
        address, log = Path(folder) / "address", Path(folder) / "log.txt"
        with open(log, "wb") as stream:
            child = subprocess.Popen(
                _command(model, name, n_parallel, context, address),
                stdin=subprocess.PIPE,  # the child ends when this pipe closes
                stdout=stream,
                stderr=stream,
                cwd=config.ROOT,
                start_new_session=True,  # Ctrl-C is for us; we stop the child
            )
        try:
            yield _wait(child, address, log, name) + "/v1"
        finally:
            _stop(child)


def _command(
    model: Path, name: str, n_parallel: int, context: int, address: Path
) -> list[str]:
    """The command line of the child."""
    return [
        *(sys.executable, "-m", "lme_utils.serve", name),
        *("--model", str(model), "--address", str(address)),
        *("--parallel", str(n_parallel), "--context", str(context)),
    ]


def _wait(child: subprocess.Popen, address: Path, log: Path, name: str) -> str:
    """The server's address, once it is healthy."""
    ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until and child.poll() is None:
        if address.exists():
            with (
                contextlib.suppress(OSError),
                ask(f"{address.read_text()}/health", timeout=5),
            ):
                return address.read_text()
        time.sleep(0.1)
    why = (
        f"was not ready within {READY_WITHIN_S:.0f} s"
        if child.poll() is None
        else f"ended with exit code {child.returncode}"
    )
    tail = log.read_text(errors="replace").splitlines()[-15:]
    raise RuntimeError(
        f"the server of {name} {why}. The end of its log:\n" + "\n".join(tail)
    )


def _stop(child: subprocess.Popen) -> None:
    child.terminate()
    try:
        child.wait(timeout=STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    child.stdin.close()


def _serve(model: Path, name: str, n_parallel: int, context: int, port: int):
    """Start the engine in this process; returns it once it listens."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {name}
    params.port = port  # 0: the system gives a free one
    params.n_parallel = n_parallel
    params.n_ctx = n_parallel * context
    n_threads = min(os.cpu_count() or 1, MAX_THREADS)
    params.cpuparams.n_threads = n_threads
    params.cpuparams_batch.n_threads = n_threads
    params.cache_ram_mib = PREFIX_CACHE_MIB
    params.cors_origins = "http://127.0.0.1"  # no web page may ask this server
    params.ui = False
    return xllamacpp.Server(params)


def _end_with_parent() -> None:
    """End this process when the other end of its standard input closes."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serve a model: in the foreground for a user, or as the child of `running`."""
    parser = argparse.ArgumentParser(prog="python -m lme_utils.serve")
    parser.add_argument("name", help="a model of data/sources.toml")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--context", type=int, default=8192, help="tokens a request")
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--address", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.address:
        threading.Thread(target=_end_with_parent, daemon=True).start()
        server = _serve(args.model, args.name, args.parallel, args.context, port=0)
        aside = args.address.with_name("address.part")
        aside.write_text(server.listening_address)
        aside.replace(args.address)
        threading.Event().wait()
    try:
        model = weights.find_weights(args.name)
        # Ctrl-C ends it at once, also while the engine loads.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        server = _serve(model, args.name, args.parallel, args.context, args.port)
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
    except RuntimeError as error:
        sys.exit(f"{error} Is port {args.port} taken, or memory short?")
    print(f"{args.name} at {server.listening_address}/v1 (Ctrl-C stops)", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
