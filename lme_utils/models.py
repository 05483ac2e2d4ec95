"""The language models of a profile, while a run lasts: asked by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from . import llm, serve, weights
from .config import ROOT, Endpoint, Profile, cache_dir

RECORDINGS = ROOT / "data" / "recordings"


def open_store(profile: Profile) -> llm.Store:
    """The user's response store, backed by what the profile ships as recordings."""
    shipped = sorted((RECORDINGS / profile.name).glob("*.jsonl.xz"))
    return llm.Store(cache_dir() / "responses.sqlite", shipped)


def resolve(endpoint: Endpoint) -> Endpoint:
    """The endpoint with its exact version: for local weights, the file's hash."""
    if not endpoint.weights or endpoint.revision:
        return endpoint
    sha256 = weights.source(endpoint.weights)["sha256"]
    return endpoint.model_copy(update={"revision": sha256})


class Models:
    """Asks the models of a profile; use as a context manager.

    A local server starts at the first question that nothing stored answers, and ends
    with the context. When an endpoint makes going on senseless (a refused key, a spent
    budget), its other questions come back as "not run" with the reason, and `stopped`
    holds the error for the caller to raise once its rows are safe.
    """

    def __init__(self, profile: Profile, store: llm.Store | None = None) -> None:
        self.profile = profile
        self.store = store or open_store(profile)
        self.live = os.environ.get("LIVE") == "1"
        self.stopped: llm.StopRun | None = None
        self._servers = ExitStack()

    def __enter__(self) -> Models:
        return self

    def __exit__(self, *error: object) -> None:
        self._servers.close()

    def ask(
        self,
        name: str,
        prompts: Sequence[tuple[Any, int]],
        what: str,
        **settings: Any,
    ) -> list[llm.Reply]:
        """Replies to (messages, max_tokens) pairs, in their order.

        name      one of the profile's endpoints
        what      words for the progress line
        settings  further fields of `llm.Request`, such as `json_schema`
        """
        endpoint = self.endpoint(name)
        requests = [
            llm.Request(
                model=endpoint.model,
                revision=endpoint.revision,
                messages=messages,
                max_tokens=max_tokens,
                **settings,
            )
            for messages, max_tokens in prompts
        ]
        return self.send(name, requests, what)

    def send(
        self, name: str, requests: Sequence[llm.Request], what: str
    ) -> list[llm.Reply]:
        """Replies to requests made elsewhere, as `ask` does it."""
        endpoint = self.endpoint(name)
        if self.stopped:
            return [llm.not_run(r, str(self.stopped)) for r in requests]
        estimate = llm.estimate(requests, endpoint, self.store, live=self.live)
        if estimate.n_to_ask:
            print(f"{what}: {estimate}", flush=True)
        try:
            return llm.ask(
                requests,
                endpoint,
                self.store,
                connect=partial(self._serve, endpoint) if endpoint.weights else None,
                budget_usd=self.profile.budget_usd,
                live=self.live,
                progress=llm.say_progress(what),
            )
        except llm.StopRun as stop:
            self.stopped = stop
            return stop.replies

    def endpoint(self, name: str) -> Endpoint:
        """The endpoint of that name, its version filled in.

        Raises ValueError, naming the known ones, for another name.
        """
        if name not in self.profile.endpoints:
            known = ", ".join(self.profile.endpoints) or "none"
            raise ValueError(
                f"profile {self.profile.name} has no {name!r}: has {known}"
            )
        return resolve(self.profile.endpoints[name])

    def _serve(self, endpoint: Endpoint) -> str:
        self._servers.close()  # one model at a time has the processor
        return self._servers.enter_context(
            serve.running(endpoint.weights, endpoint.n_parallel, endpoint.context)
        )
