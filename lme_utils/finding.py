"""Finding: from a configuration and a question to a ranking, and its scores.

Notes (`extract`), keys (`index`), scores (`retrieve`) and time (`timeline`) put
together as a configuration says; each model call is made once for all configurations
that share it. Paper: §4 (I, Q, S), §5.3, §5.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, get_args

from . import extract, timeline
from .config import Profile
from .extract import Notes
from .index import build_records, expand
from .llm import say_progress
from .metrics import has_user_side_target, score_ranking
from .models import Models
from .retrieve import BY_DATE, Retriever, embed_all, fuse, rank
from .schema import Config, Granularity, Instance, Ranking, Record, Value
from .timeline import ModelRange, Span

if TYPE_CHECKING:
    import pandas as pd

# What of a configuration decides its rankings.
FIELDS = ("retriever", "granularity", "key", "merging", "split", "query", "times",
          "out", "compat")  # fmt: skip


@dataclass
class Memory:
    """What models noted at writing time, and read from questions; made by `remember`.

    notes   by kind and granularity, then by the text that was shown
    ranges  by question id
    """

    notes: dict[tuple[str, Granularity], Notes] = field(default_factory=dict)
    ranges: dict[str, ModelRange] = field(default_factory=dict)


def calls_table(memory: Memory) -> pd.DataFrame:
    """Every note and range: what, status, reason, source, tokens, keys of the calls."""
    import pandas as pd

    calls = [
        (f"{kind} of {granularity}s", note)
        for (kind, granularity), notes in memory.notes.items()
        for note in notes.values()
    ]
    calls += [("range of a question", found) for found in memory.ranges.values()]
    columns = ["what", "status", "reason", "source", "keys"]
    rows = [(what, c.status, c.reason, c.source, [c.key]) for what, c in calls]
    return pd.DataFrame(rows, columns=columns)


def kind_of(key: str) -> str:
    """The kind of note in a key; "" for V alone.

    Raises ValueError for a key that is neither V, a kind of note, nor V+ such a kind.

    >>> kind_of("V"), kind_of("V+fact"), kind_of("summary")
    ('', 'fact', 'summary')
    """
    kind = key.removeprefix("V+")
    if kind not in ("V", "summary", "keyphrase", "fact") or key == "V+V":
        raise ValueError(
            f"key: got {key!r}, wanted V, summary, keyphrase, fact, or V+ one of these"
        )
    return "" if kind == "V" else kind


def value_kind(value: str) -> str:
    """The kind of note that is read instead of an item's turns; "" for V, the turns.

    Raises ValueError for another value.

    >>> value_kind("V"), value_kind("fact")
    ('', 'fact')
    """
    if value not in get_args(Value):
        raise ValueError(
            f"value: got {value!r}, wanted one of {', '.join(get_args(Value))}"
        )
    return "" if value == "V" else value


def remember(
    configs: Iterable[Config], instances: Sequence[Instance], models: Models
) -> Memory:
    """Everything a model must say before these configurations can rank and be read.

    Ranges come first: events are asked for only where a question has a range, since
    without one nothing is pruned.
    """
    configs = list(configs)
    name = models.profile.extractor
    memory = Memory()
    if any(config.query == "model" for config in configs):
        ask = partial(models.ask, name, what="ranges")
        found = timeline.ask_ranges(instances, ask)
        memory.ranges = {one.question_id: one for one in found}
    wanted: dict[tuple[str, Granularity], dict[str, Instance]] = {}
    for config in configs:
        for kind in filter(None, (_key_kind(config), value_kind(config.value))):
            wanted.setdefault((kind, config.granularity), {}).update(
                (instance.question_id, instance) for instance in instances
            )
        if config.query != "question" and config.times == "events":
            wanted.setdefault(("event", "session"), {}).update(
                (instance.question_id, instance)
                for instance in instances
                if find_span(config, instance, memory)
            )
    for (kind, granularity), chosen in wanted.items():
        records = [r for i in chosen.values() for r in build_records(i, granularity)]
        ask = partial(models.ask, name, what=f"{kind} of {granularity}s")
        memory.notes[kind, granularity] = extract.extract(records, kind, ask)
    return memory


def find(
    config: Config, instance: Instance, profile: Profile, memory: Memory | None = None
) -> Ranking:
    """The ranking of one history under one configuration.

    memory  from `remember`; needed where the configuration uses notes or model ranges

    Raises ValueError for an unknown key or retriever, KeyError where `memory` lacks
    what the configuration needs.
    """
    ranking = _rank(config, instance, profile, memory)
    if config.query == "question":
        return ranking
    span = find_span(config, instance, memory)
    times = session_times(config, instance, memory) if span else {}
    return timeline.prune(ranking, span, times, config.out, config.compat)


def _rank(
    config: Config, instance: Instance, profile: Profile, memory: Memory | None
) -> Ranking:
    retriever, model = resolve(config.retriever, profile)
    rankings = [
        rank(instance, records, retriever, config.compat, model)
        for records in _indexes(config, instance, memory)
    ]
    return rankings[0] if len(rankings) == 1 else fuse(rankings, config.merging)


def resolve(retriever: str, profile: Profile) -> tuple[Retriever, str]:
    """What `retrieve.rank` calls it, and the embedder that it takes.

    >>> from lme_utils.config import load_profile
    >>> resolve("all-mpnet-base-v2", load_profile("mini"))
    ('dense', 'all-mpnet-base-v2')
    """
    if retriever in get_args(Retriever):
        return retriever, profile.embedder
    return "dense", retriever


def _key_kind(config: Config) -> str:
    """The kind of note in the keys that are searched; "" where none is."""
    kind = kind_of(config.key)
    return "" if config.retriever in BY_DATE else kind


def _indexes(
    config: Config, instance: Instance, memory: Memory | None
) -> list[tuple[Record, ...]]:
    """What is ranked: one index, or two whose rankings are fused."""
    records = build_records(instance, config.granularity, config.compat)
    kind = _key_kind(config)
    if not kind:
        return [records]
    notes = memory.notes[kind, config.granularity]
    shown = build_records(instance, config.granularity)  # as they were when noted
    found = extract.expansions(shown, notes, kind, config.split)
    if config.merging == "key":
        join = "merge" if config.key.startswith("V+") else "replace"
        return [
            build_records(
                instance, config.granularity, config.compat, found, join, config.split
            )
        ]
    apart = expand(records, found, "separate", config.split)[len(records) :]
    return [records, apart] if apart else [records]


def find_span(config: Config, instance: Instance, memory: Memory | None) -> Span | None:
    """The range of dates that the question asks about; None: it names none."""
    if config.query == "rules":
        return timeline.range_by_rules(instance.question, instance.question_date)
    if config.query == "model":
        return memory.ranges[instance.question_id].span
    return None


def session_times(
    config: Config, instance: Instance, memory: Memory | None
) -> dict[int, Collection[date]]:
    """The dates of each session of a history, by its place, as `config.times` says."""
    records = build_records(instance)
    return {
        place: _dates(config, record, memory) for place, record in enumerate(records)
    }


def _dates(config: Config, record: Record, memory: Memory | None) -> Collection[date]:
    told = record.date.date()
    if config.times == "session":
        return [told]
    if config.times == "text":
        return [told, *timeline.dates_by_rules(record.key, record.date)]
    note = memory.notes["event", "session"].get(extract.shown_text(record, "event"))
    return [event.date for event in note.events] if note else []


def score(
    configs: Sequence[Config],
    instances: Sequence[Instance],
    profile: Profile,
    models: Models,
) -> tuple[pd.DataFrame, Memory]:
    """Rank every question under every configuration and score the rankings.

    returns  (table, what the models said). The table has a row per configuration,
             question and level: the fields of `Config` that decide a ranking,
             question_id, question_type, kind, level ("session" or "turn"), user_side
             (whether some evidence is on the user's side), and every metric of
             `metrics.score_ranking`, such as recall_all@5; nan where nothing is
             evidence on that level

    Rankings of rounds are scored on both levels. Raises `llm.StopRun` where the models
    can't go on: notes that were not made would look like empty ones.
    """
    import pandas as pd

    memory = remember(configs, instances, models)
    if models.stopped:
        raise models.stopped
    _embed(configs, instances, profile, memory)
    rows = []
    for config in configs:
        for instance in instances:
            ranking = find(config, instance, profile, memory)
            rows += _score_rows(config, instance, ranking)
    return pd.DataFrame(rows), memory


def _score_rows(config: Config, instance: Instance, ranking: Ranking) -> list[dict]:
    scores = score_ranking(instance, ranking, config.granularity, config.compat)
    levels = ("session", "turn") if config.granularity == "turn" else ("session",)
    return [
        {name: getattr(config, name) for name in FIELDS}
        | {
            "question_id": instance.question_id,
            "question_type": instance.question_type,
            "kind": instance.kind,
            "level": level,
            "user_side": has_user_side_target(instance),
        }
        | scores[level]
        for level in levels
    ]


def _embed(
    configs: Sequence[Config],
    instances: Sequence[Instance],
    profile: Profile,
    memory: Memory,
) -> None:
    """Embed every distinct text that the configurations need, a model at a time."""
    by_model: dict[str, list[Config]] = {}
    for config in dict.fromkeys(configs):
        retriever, model = resolve(config.retriever, profile)
        if retriever == "dense":
            by_model.setdefault(model, []).append(config)
    for model, chosen in by_model.items():

        def index(instance: Instance, chosen: list[Config] = chosen) -> list[Record]:
            indexes = (_indexes(config, instance, memory) for config in chosen)
            return [r for found in indexes for records in found for r in records]

        embed_all(instances, index, model, say_progress(f"embedding with {model}"))
