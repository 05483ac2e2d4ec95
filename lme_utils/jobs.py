"""What a reader gets: for each configuration and question the records it reads.

Records are ranked by their keys and read by their values: their turns, or the notes on
them (paper §4, CP1), as many as fit the budget in the reader's own tokens. A history
that is too long for its reader is cut between records, never inside of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from . import tokens
from .config import Profile, read_prompt
from .extract import shown_text
from .finding import FIELDS, Memory, find, value_kind
from .index import build_records
from .read import ENDS, choose_records, exchange_values, lay_out
from .retrieve import BY_DATE
from .schema import Config, Instance, Method, Ranking, Record

# Of a request, for what is not counted: the question (the longest of LongMemEval has
# 355 characters, about 90 tokens), its date, and the chat template.
RESERVE_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Job:
    """One question under one configuration, with the records its reader gets.

    n_left_out  records that did not fit the budget
    n_empty     records with nothing to read: no text was noted about them
    n_read      tokens of the history as laid out, counted with the reader's tokeniser;
                0 without a reader
    """

    config: Config
    instance: Instance
    records: tuple[Record, ...]
    n_left_out: int = 0
    n_empty: int = 0
    n_read: int = 0


def make_jobs(
    configs: Sequence[Config],
    instances: Sequence[Instance],
    profile: Profile,
    memory: Memory | None = None,
    logged: Mapping[str, Ranking] | None = None,
) -> list[Job]:
    """Retrieve for every configuration and question.

    memory  what models noted, for configurations with such keys, values or ranges
    logged  rankings by question id, for configurations whose retriever is "log"

    Of the records found (with `k`: the k best), each is read, left out or empty.
    Raises ValueError for a reader that the profile does not have, and for a budget
    without a reader whose tokens it counts.
    """
    rankings: dict[tuple, Ranking] = {}
    jobs = []
    for config in configs:
        count = None
        if config.reader or config.budget_tokens is not None:
            count = _counter(profile, config.reader)
        for instance in instances:
            key = (*(getattr(config, name) for name in FIELDS), instance.question_id)
            if key not in rankings:
                rankings[key] = (
                    logged[instance.question_id]
                    if config.retriever == "log"
                    else _ranking(instance, config, profile, memory)
                )
            ranking, n_empty = rankings[key], 0
            if config.value != "V":
                texts = value_texts(config, instance, memory)
                ranking, n_empty = exchange_values(ranking, texts, config.k)
            chosen, n_left_out = choose_records(
                ranking,
                config.k,
                config.budget_tokens,
                count,
                config.layout,
                holes=config.retriever not in BY_DATE,
            )
            n_read = count(lay_out(chosen, config.layout)) if count else 0
            jobs.append(Job(config, instance, chosen, n_left_out, n_empty, n_read))
    return jobs


def value_texts(
    config: Config, instance: Instance, memory: Memory | None
) -> dict[tuple[int, int], tuple[str, ...]]:
    """What is read of each item of a history instead of its turns (paper §4, CP1).

    memory   from `finding.remember`
    returns  by the item's position the texts of its note; none where the note is empty
             or failed, or the item had nothing to show

    Raises ValueError for an unknown value, and where `memory` lacks the notes.
    """
    kind = value_kind(config.value)
    notes = memory.notes.get((kind, config.granularity)) if memory else None
    if notes is None:
        raise ValueError(
            f"value {config.value!r}: got no notes of {config.granularity}s, wanted "
            "them from `finding.remember`"
        )
    return {
        record.position: note.texts if note else ()
        for record in build_records(instance, config.granularity)  # as when noted
        for note in [notes.get(shown_text(record, kind))]
    }


def room(profile: Profile, reader: str, method: Method) -> int:
    """How many tokens of history fit a request to this reader, at least 1.

    That is the endpoint's context less what the method may write, less the prompt's
    fixed parts by the reader's tokeniser, less `RESERVE_TOKENS` for the question, its
    date and the chat template. Under con-separate a request holds one record.

    Raises ValueError where nothing fits, and for an unknown reader or method.
    """
    count = _counter(profile, reader)
    limits = profile.reading.max_tokens
    if method not in limits:
        known = ", ".join(limits)
        raise ValueError(f"method: got {method!r}, profile {profile.name} has {known}")
    context = profile.endpoints[reader].context
    n_fixed = sum(count(read_prompt(name)) for name in ("read_start", ENDS[method]))
    left = context - limits[method] - n_fixed - RESERVE_TOKENS
    if left < 1:
        raise ValueError(
            f"{reader}: no room for a history: got a context of {context} tokens, "
            f"wanted more than {context - left}, which {method!r} takes without one"
        )
    return left


def only_evidence(ranking: Ranking) -> Ranking:
    """The ranking without what holds no evidence: what an oracle retriever returns.

    Where nothing is labelled as evidence, nothing is left (paper §3.4, §5.5).
    """
    kept = [i for i, record in enumerate(ranking.records) if record.gold]
    return Ranking(
        ranking.question_id,
        tuple(ranking.records[i] for i in kept),
        tuple(ranking.scores[i] for i in kept),
    )


def _ranking(
    instance: Instance, config: Config, profile: Profile, memory: Memory | None
) -> Ranking:
    ranking = find(config, instance, profile, memory)
    return only_evidence(ranking) if config.retriever == "oracle" else ranking


def _counter(profile: Profile, reader: str) -> Callable[[str], int]:
    """The tokeniser of a reader of the profile."""
    if reader not in profile.endpoints:
        known = ", ".join(profile.endpoints) or "none"
        raise ValueError(
            f"profile {profile.name} has no reader {reader!r} to count tokens for: "
            f"has {known}"
        )
    return _once(tokens.counter(profile.endpoints[reader]))


@cache
def _once(count: Callable[[str], int]) -> Callable[[str], int]:
    """The same, each distinct text counted once."""
    counts: dict[bytes, int] = {}

    def counted(text: str) -> int:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        if digest not in counts:
            counts[digest] = count(text)
        return counts[digest]

    return counted
