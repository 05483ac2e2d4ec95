"""One call to a server that speaks the OpenAI API, and all that can go wrong."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .config import Endpoint
from .request import (
    MOST_CHARACTERS_QUOTED,
    Reply,
    Request,
    StopRun,
    most_usd,
    read_recording,
)
from .store import Recording, Store

if TYPE_CHECKING:
    import openai

CONNECT_WITHIN_S = 10.0
NO_KEY = "no-key"


def open_client(
    endpoint: Endpoint, connect: Callable[[], str] | None = None
) -> openai.OpenAI:
    """A client for the endpoint, or for the server that `connect` starts.

    The key is read here, from the environment, and goes nowhere but into the client.
    Raises StopRun where there is no key, no address, or the server does not start.
    """
    import openai

    api_key = _api_key(endpoint)
    try:
        base_url = connect() if connect else endpoint.base_url
    except (OSError, RuntimeError, ValueError) as error:
        raise StopRun(f"{endpoint.model}: no server: {error}") from error
    if not base_url.startswith(("http://", "https://")):
        raise StopRun(
            f"{endpoint.model}: nowhere to ask: got base_url {base_url!r}, wanted an "
            "address such as http://127.0.0.1:8000/v1, or weights to serve"
        )
    is_local = urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1")
    return openai.OpenAI(
        base_url=base_url,
        api_key=api_key,
        max_retries=endpoint.max_retries,
        timeout=openai.Timeout(
            endpoint.timeout_s, connect=min(CONNECT_WITHIN_S, endpoint.timeout_s)
        ),
        # A proxy set in the environment has no way to servers on this machine.
        http_client=openai.DefaultHttpxClient(trust_env=not is_local),
    )


def _api_key(endpoint: Endpoint) -> str:
    name = endpoint.api_key_env
    if not name:
        return NO_KEY  # with none at all, the client would send OPENAI_API_KEY
    api_key = os.environ.get(name, "").strip()
    if not api_key:
        raise StopRun(f"{endpoint.model}: no key: set {name} in the environment")
    if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
        raise StopRun(f"{name}: got spaces or special characters, wanted an API key")
    return api_key


def call(
    client: openai.OpenAI, request: Request, endpoint: Endpoint, store: Store
) -> tuple[Reply, bool]:
    """Make one call and keep what came back.

    returns   the reply, and whether the server refused the key
    """
    import openai

    start = time.monotonic()
    try:
        got = client.chat.completions.with_raw_response.create(**_arguments(request))
        latency_s = round(time.monotonic() - start, 3)
        content = got.http_response.content.replace(client.api_key.encode(), b"[key]")
        recording = _recording(request, latency_s, **_read_completion(content))
    except (openai.OpenAIError, ValueError) as error:
        latency_s = round(time.monotonic() - start, 3)
        reason = _explain(error, endpoint).replace(client.api_key, "[key]")
        reason = reason[:MOST_CHARACTERS_QUOTED]
        usd = most_usd(request, endpoint) * _n_maybe_billed(error, endpoint)
        store.add(_recording(request, latency_s), usd, reason)
        reply = Reply(
            key=request.key,
            status="failed",
            reason=reason,
            latency_s=latency_s,
            usd=usd,
            source="live",
        )
        refused = openai.AuthenticationError | openai.PermissionDeniedError
        return reply, isinstance(error, refused)
    reply = read_recording(request, endpoint, recording, "live")
    usd = reply.usd if recording.n_prompt else most_usd(request, endpoint)
    store.add(recording, usd, reply.reason or "ok", request.canonical)
    return reply, False


def _arguments(request: Request) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": request.model,
        "messages": request.messages,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
    }
    if request.json_schema is not None:
        schema = {"name": "reply", "strict": True, "schema": request.json_schema}
        arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.top_logprobs:
        arguments |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    return arguments


def _read_completion(content: bytes) -> dict[str, Any]:
    """The fields of a `Recording` that the server's JSON gives; else ValueError."""
    wrong = (ValueError, RecursionError, LookupError, TypeError, AttributeError)
    try:
        body = json.loads(content)
        choice = body["choices"][0]
        message = choice["message"]
        refusal = message.get("refusal")
        finish_reason = "refusal" if refusal else choice.get("finish_reason")
        usage = body.get("usage") or {}
        logprobs = (choice.get("logprobs") or {}).get("content")
        return {
            "text": _clean(refusal or message.get("content") or ""),
            "finish_reason": finish_reason or "",
            "n_prompt": usage.get("prompt_tokens") or 0,
            "n_completion": usage.get("completion_tokens") or 0,
            "first_logprobs": _first_logprobs(logprobs[0]) if logprobs else None,
        }
    except wrong as error:
        start = content[:MOST_CHARACTERS_QUOTED].decode(errors="replace")
        raise ValueError(
            f"got no chat completion ({type(error).__name__}: {error}) but {start!r}"
        ) from None


def _first_logprobs(token: dict) -> dict[str, float]:
    found: dict[str, float] = {}
    for candidate in [token, *token["top_logprobs"]]:
        logprob = candidate["logprob"]
        if logprob is not None and math.isfinite(logprob):
            found.setdefault(_clean(candidate["token"]), float(logprob))
    return found


def _clean(text: str) -> str:
    """Without halves of surrogate pairs, left where a character was cut in two."""
    return text.encode(errors="replace").decode()


def _recording(
    request: Request,
    latency_s: float,
    text: str = "",
    finish_reason: str = "",
    n_prompt: int = 0,
    n_completion: int = 0,
    first_logprobs: dict[str, float] | None = None,
) -> Recording:
    return Recording(
        key=request.key,
        model=request.model,
        revision=request.revision,
        text=text,
        finish_reason=finish_reason,
        n_prompt=n_prompt,
        n_completion=n_completion,
        latency_s=latency_s,
        first_logprobs=first_logprobs,
    )


def _explain(error: Exception, endpoint: Endpoint) -> str:
    """Why there was no reply."""
    import openai

    n_tries = f"{endpoint.max_retries + 1} tries"
    if isinstance(error, openai.APITimeoutError):
        return f"no reply within {endpoint.timeout_s:g} s, {n_tries}"
    if isinstance(error, openai.APIConnectionError):
        return f"connection failed, {n_tries}: {error.__cause__ or error}"
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        name = endpoint.api_key_env
        what = f"the key in {name}" if name else "a call without a key (api_key_env)"
        return f"{endpoint.model}: the server refused {what}: {error}"
    return str(error)


def _n_maybe_billed(error: Exception, endpoint: Endpoint) -> int:
    """How many tries may have cost money although no reply came."""
    import openai

    if isinstance(error, openai.APIConnectionError):
        was_reached = not type(error.__cause__).__name__.startswith("Connect")
        return (endpoint.max_retries + 1) * was_reached
    return int(not isinstance(error, openai.OpenAIError | UnicodeEncodeError))
