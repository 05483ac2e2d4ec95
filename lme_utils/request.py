"""What a model is asked, what came back, and what that is worth and costs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, with_config
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from .config import Endpoint
from .schema import Status
from .store import Recording

MOST_TOKENS_AROUND_MESSAGE = 32  # what a chat template adds to each message, and more
MOST_CHARACTERS_QUOTED = 500


@with_config(ConfigDict(extra="forbid"))
class Message(TypedDict):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class Request(BaseModel):
    """Everything that decides what a model says; where it is served does not count.

    revision      the exact version of the model
    max_tokens    most tokens of the reply
    json_schema   what the reply must look like; None: free text
    top_logprobs  candidates for the first token to report, with log-probabilities

    >>> hello = ({"role": "user", "content": "Hello"},)
    >>> Request(model="m", revision="1", messages=hello, max_tokens=9).key[:16]
    '76c7dce4bff8dad9'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    revision: str
    messages: tuple[Message, ...] = Field(min_length=1)
    max_tokens: int = Field(ge=1)
    temperature: float = Field(default=0.0, ge=0)
    json_schema: dict[str, Any] | None = None
    top_logprobs: int = Field(default=0, ge=0, le=20)

    @field_validator("json_schema")
    @classmethod
    def _is_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            from jsonschema import Draft202012Validator, SchemaError

            try:
                Draft202012Validator.check_schema(schema)
            except SchemaError as error:
                raise ValueError(f"not a JSON schema: {error.message}") from None
        return schema

    @cached_property
    def canonical(self) -> str:
        """The request as JSON, always written the same way."""
        return json.dumps(self.model_dump(), sort_keys=True, separators=(",", ":"))

    @cached_property
    def key(self) -> str:
        """The name of its reply in the store: hex sha256 of the whole request."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for one request, or why nothing did.

    text            as the model wrote it, kept also where the reply failed
    finish_reason   as the server said; "length" means cut off at `max_tokens`
    n_prompt, n_completion   tokens as the server counted them
    latency_s       seconds the call took when it was made, waits between tries included
    usd             price of the call, whenever it was made
    source          "recorded", "stored" or "live"; "" when not run
    first_logprobs  first token -> log-probability, where asked for and given
    parsed          the object in `text`, where a schema was asked for and is fulfilled
    """

    key: str
    status: Status
    text: str = ""
    reason: str = ""
    finish_reason: str = ""
    n_prompt: int = 0
    n_completion: int = 0
    latency_s: float = 0.0
    usd: float = 0.0
    source: str = ""
    first_logprobs: dict[str, float] | None = None
    parsed: Any = None


Ask = Callable[..., list[Reply]]  # `Models.ask` with a model's name filled in


class StopRun(RuntimeError):
    """Going on makes no sense: a refused key, a spent budget, no server.

    replies  one for each request, in order; "not run" where it was not asked
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.replies: list[Reply] = []


def read_recording(
    request: Request, endpoint: Endpoint, recording: Recording, source: str
) -> Reply:
    """What a kept answer is worth: its status, and the object in it."""
    reason, parsed = _check(request, recording)
    return Reply(
        key=request.key,
        status="failed" if reason else "ok",
        text=recording.text,
        reason=reason,
        finish_reason=recording.finish_reason,
        n_prompt=recording.n_prompt,
        n_completion=recording.n_completion,
        latency_s=recording.latency_s,
        usd=price_usd(recording.n_prompt, recording.n_completion, endpoint),
        source=source,
        first_logprobs=recording.first_logprobs,
        parsed=parsed,
    )


def price_usd(n_prompt: int, n_completion: int, endpoint: Endpoint) -> float:
    """What so many tokens cost.

    >>> price_usd(2000, 500, Endpoint(model="m", usd_per_m_in=1, usd_per_m_out=4))
    0.004
    """
    micro_usd = n_prompt * endpoint.usd_per_m_in + n_completion * endpoint.usd_per_m_out
    return micro_usd / 1e6


def most_usd(request: Request, endpoint: Endpoint) -> float:
    """What one call cannot exceed: no token is shorter than a byte."""
    texts = [message["content"] for message in request.messages]
    if request.json_schema is not None:
        texts.append(json.dumps(request.json_schema))
    n_prompt = sum(
        len(text.encode(errors="replace")) + MOST_TOKENS_AROUND_MESSAGE
        for text in texts
    )
    return price_usd(n_prompt, request.max_tokens, endpoint)


def _check(request: Request, recording: Recording) -> tuple[str, Any]:
    """Why an answer is no use ("" if it is), and the object in it."""
    if recording.finish_reason in ("refusal", "content_filter"):
        return f"declined ({recording.finish_reason})", None
    if not recording.text.strip():
        return "empty answer", None
    if request.json_schema is None:
        return "", None
    if recording.finish_reason == "length":
        return f"JSON cut off at {request.max_tokens} tokens", None
    return _check_json(recording.text, request.json_schema)


def _check_json(text: str, schema: dict[str, Any]) -> tuple[str, Any]:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    try:
        parsed = json.loads(text)
        problem = best_match(Draft202012Validator(schema).iter_errors(parsed))
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}", None
    if problem:
        where = f"{problem.json_path}: {problem.message}"
        return f"not as the schema wants: {where[:MOST_CHARACTERS_QUOTED]}", None
    return "", parsed
