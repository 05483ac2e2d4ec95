"""A grid of keys, retrievers and levels: this project against encoding it afresh.

    python benchmarks/grid.py

The grid is that of notebook 04 on mini: every answerable question under V, fact and
V+fact, BM25 by words and MiniLM, sessions (and rounds for V). The other side does what
a script for one configuration does, as the authors' does: for each configuration and
question it counts or encodes the keys of that history again. The model is loaded once
on both sides, and this project begins with an empty vector store. Prints seconds of
wall time, texts encoded, their ratios, and whether the rankings agree. Notes come from
the recordings.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lme_utils import data, embed, finding, retrieve, weights
from lme_utils.config import load_profile
from lme_utils.models import Models
from lme_utils.schema import Config

MODEL = "all-MiniLM-L6-v2"


def grid(profile) -> list[Config]:
    """Every configuration that the profile has notes for."""
    return [
        Config(retriever=retriever, granularity=level, key=key)
        for retriever in ("bm25-words", "dense")
        for level in ("session", "turn")
        for key in ("V", "fact", "V+fact")
        if key == "V" or "fact" in profile.retrieval.notes.get(level, ())
    ]


def run_afresh(configs, instances, memory, model) -> tuple[dict, int]:
    """First five items of each ranking, everything counted or encoded each time."""
    tops, n_encoded = {}, 0
    for config in configs:
        for instance in instances:
            (records,) = finding._indexes(config, instance, memory)
            keys = [record.key for record in records]
            if config.retriever == "dense":
                vectors = model.encode([instance.question, *keys], batch_size=32,
                                       normalize_embeddings=True)  # fmt: skip
                scores = vectors[1:] @ vectors[0]
                n_encoded += len(vectors)
            else:
                split = [retrieve._split(key, True) for key in keys]
                scores = BM25Okapi(split).get_scores(
                    retrieve._split(instance.question, True)
                )
            order = np.argsort(-scores, kind="stable")[:5]
            tops[config, instance.question_id] = [records[i].position for i in order]
    return tops, n_encoded


def run_ours(configs, instances, profile, memory) -> dict:
    """The same with each distinct text embedded once."""
    finding._embed(configs, instances, profile, memory)
    return {
        (config, instance.question_id): [
            record.position
            for record in finding.find(config, instance, profile, memory).records[:5]
        ]
        for config in configs
        for instance in instances
    }


def main() -> None:
    profile = load_profile("mini")
    instances = [
        item
        for item in data.load_instances(profile.data_path("s"))
        if not item.is_abstention
    ]
    configs = grid(profile)
    with Models(profile) as models:
        memory = finding.remember(configs, instances, models)
    weights.fetch_weights(MODEL)
    cache = Path(os.environ.get("LME_CACHE") or Path.home() / ".cache/lme_utils")
    with tempfile.TemporaryDirectory() as empty:
        (Path(empty) / "models").symlink_to(cache / "models")
        os.environ["LME_CACHE"] = empty
        model = embed._load(MODEL)
        model.encode(["warm"])
        begin = time.perf_counter()
        ours = run_ours(configs, instances, profile, memory)
        middle = time.perf_counter()
        afresh, n_encoded = run_afresh(configs, instances, memory, model)
        end = time.perf_counter()
        stored = Path(empty).rglob("*.txt")
        n_ours = sum(len(path.read_text().split()) for path in stored if
                     path.parent.parent.name == "vectors")  # fmt: skip
    same = np.mean([ours[key] == afresh[key] for key in afresh])
    print(f"{len(configs)} configurations × {len(instances)} questions")
    print(f"afresh: {end - middle:.1f} s, {n_encoded:,} texts encoded")
    print(f"this project: {middle - begin:.1f} s, {n_ours:,} texts encoded")
    print(
        f"ratio: {(end - middle) / (middle - begin):.1f} in time, "
        f"{n_encoded / n_ours:.1f} in texts; same first five items: {same:.1%}"
    )


if __name__ == "__main__":
    main()
