"""Asking language models: every call through one store, several in flight, all kept.

A request that was ever answered is answered from the store, any other by a server that
speaks the OpenAI API. What fails is a reply too, with its reason.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from .chat import call, open_client
from .config import Endpoint
from .request import Reply, Request, StopRun, most_usd, price_usd, read_recording
from .store import Store, export_recordings
from .tokens import count_tokens

__all__ = [
    "Estimate",
    "Reply",
    "Request",
    "StopRun",
    "Store",
    "ask",
    "count_tokens",
    "estimate",
    "export_recordings",
    "not_run",
    "say_progress",
]


def ask(
    requests: Sequence[Request],
    endpoint: Endpoint,
    store: Store,
    connect: Callable[[], str] | None = None,
    budget_usd: float | None = None,
    live: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Reply]:
    """Replies to all requests, in their order; only what is not stored is asked.

    connect     starts a server and returns its base URL; called once, and only if
                something must be asked. None: ask at `endpoint.base_url`
    budget_usd  most that calls through this store object may cost; None: no limit
    live        whether to leave recordings aside
    progress    called with (calls done, calls to make)

    Calls start in the order of the requests, `endpoint.n_parallel` at a time; equal
    requests are asked once. Each reply is in the store before it counts as done. A call
    without a reply (time-out, server error) is "failed", and the next run asks again. A
    useless reply (empty, declined, not as the schema wants) is "failed" and kept.

    Raises StopRun, its `replies` complete, where a key is refused, the next call could
    cost more than is left, or there is no server to ask. Calls in flight are waited
    for then; on Ctrl-C they are not.
    """
    distinct = {request.key: request for request in requests}
    replies = {}
    for key, request in distinct.items():
        if found := store.find(key, live):
            replies[key] = read_recording(request, endpoint, *found)
    to_ask = [request for key, request in distinct.items() if key not in replies]
    try:
        if to_ask:
            client = open_client(endpoint, connect)
            calls = _call_all(to_ask, client, endpoint, store, budget_usd)
            with closing(client), closing(calls):
                for n_done, reply in enumerate(calls, 1):
                    replies[reply.key] = reply
                    if progress:
                        progress(n_done, len(to_ask))
    except StopRun as stop:
        stop.replies = [replies.get(r.key) or not_run(r, str(stop)) for r in requests]
        raise
    return [replies[request.key] for request in requests]


def _call_all(
    requests: Sequence[Request],
    client: Any,
    endpoint: Endpoint,
    store: Store,
    budget_usd: float | None,
) -> Iterator[Reply]:
    """Make the calls, `n_parallel` in flight, and yield the replies as they come.

    The threads are daemons: an executor's would keep an interrupted program from
    ending until the last call in flight is over.
    """
    waiting = deque(requests)
    in_flight: dict[str, float] = {}  # key -> the most that the call can cost
    ended: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    stop = None

    def run(request: Request) -> None:
        try:
            ended.put((request.key, call(client, request, endpoint, store)))
        except BaseException as error:  # raised again below, in the caller's thread
            ended.put((request.key, error))

    def may_start() -> bool:
        if stop or not waiting or len(in_flight) >= endpoint.n_parallel:
            return False
        usd = store.usd_spent + sum(in_flight.values())
        return budget_usd is None or usd + most_usd(waiting[0], endpoint) <= budget_usd

    while True:
        while may_start():
            request = waiting.popleft()
            in_flight[request.key] = most_usd(request, endpoint)
            threading.Thread(target=run, args=(request,), daemon=True).start()
        if not in_flight:
            break
        key, result = ended.get()
        del in_flight[key]
        if isinstance(result, BaseException):
            raise result
        reply, is_refused = result
        if is_refused:
            stop = StopRun(reply.reason)
        yield reply
    if waiting and not stop:
        stop = StopRun(
            f"budget: {store.usd_spent:.4f} of {budget_usd:.4f} USD spent, the next "
            f"call may cost {most_usd(waiting[0], endpoint):.4f}; {len(waiting)} calls "
            "left. Raise budget_usd in the profile and run again: answers are kept"
        )
    if stop:
        raise stop


def not_run(request: Request, reason: str) -> Reply:
    """The reply to a request that was not made."""
    return Reply(request.key, "not run", reason=reason)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take, before it starts. Equal requests count once.

    n_calls, n_stored, n_to_ask   requests; `n_stored` were answered before
    n_prompt, n_completion        tokens of the calls to make; replies at full length
    minutes, usd                  time and money of these calls
    """

    n_calls: int
    n_stored: int
    n_to_ask: int
    n_prompt: int
    n_completion: int
    minutes: float
    usd: float

    def __str__(self) -> str:
        calls = f"{self.n_calls:,} calls, {self.n_stored:,} stored"
        if not self.n_to_ask:
            return f"{calls}, none to make"
        money = f", {self.usd:,.2f} USD" if self.usd else ""
        return (
            f"{calls}, {self.n_to_ask:,} to make: about {self.n_prompt:,} tokens in, "
            f"at most {self.n_completion:,} out, up to {self.minutes:,.1f} min{money}"
        )


def estimate(
    requests: Sequence[Request],
    endpoint: Endpoint,
    store: Store,
    count_tokens: Callable[[str], int] = count_tokens,
    live: bool = False,
) -> Estimate:
    """Calls, tokens, minutes and money that `ask` would need for these requests."""
    distinct = {request.key: request for request in requests}
    to_ask = [r for key, r in distinct.items() if not store.find(key, live)]
    n_prompt = sum(count_tokens(m["content"]) for r in to_ask for m in r.messages)
    n_completion = sum(request.max_tokens for request in to_ask)
    seconds = n_prompt / endpoint.read_per_s + n_completion / endpoint.write_per_s
    return Estimate(
        n_calls=len(distinct),
        n_stored=len(distinct) - len(to_ask),
        n_to_ask=len(to_ask),
        n_prompt=n_prompt,
        n_completion=n_completion,
        minutes=seconds / 60,
        usd=price_usd(n_prompt, n_completion, endpoint),
    )


def say_progress(what: str) -> Callable[[int, int], None]:
    """A function of (done, total) that says how far `what` is.

    A bar where the standard error stream is a terminal, else about ten lines on
    standard output. Silent where there is nothing to do.

    >>> say = say_progress("answers")
    >>> for done in range(1, 141):
    ...     if done in (1, 14, 15, 140):
    ...         say(done, 140)
    answers: 14 of 140 done
    answers: 140 of 140 done
    """
    from tqdm import tqdm

    bar, n_tenths = None, 0

    def say(done: int, total: int) -> None:
        nonlocal bar, n_tenths
        if not total:
            return
        if sys.stderr.isatty():
            if bar is None:
                bar = tqdm(total=total, desc=what)
            bar.update(done - bar.n)
            if done >= total:
                bar.close()
        elif done * 10 // total > n_tenths:
            n_tenths = done * 10 // total
            print(f"{what}: {done} of {total} done", flush=True)

    return say
