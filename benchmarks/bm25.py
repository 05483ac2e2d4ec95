"""BM25 over a whole file at both levels: this project against a plain loop.

    python benchmarks/bm25.py FILE

The loop is what one would write first: read the JSON whole, and for each question build
`rank_bm25.BM25Okapi` and sort its scores, in two processes. Both sides read the file,
rank every question at session and turn level, and keep the first ten ids; this project
also scores its rankings. Prints seconds of wall time, their ratio, and whether the
rankings agree.
"""

from __future__ import annotations

import gzip
import json
import lzma
import multiprocessing
import sys
import time
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lme_utils import data, metrics
from lme_utils.index import build_records
from lme_utils.retrieve import rank

LEVELS = ("session", "turn")


def plain_keys(item: dict, level: str) -> list[str]:
    """The user's side, a text a session or a text a turn."""
    sides = [
        [turn["content"] for turn in session if turn["role"] == "user"]
        for session in item["haystack_sessions"]
    ]
    if level == "session":
        return [" ".join(side) for side in sides]
    return [text for side in sides for text in side]


def plain_top(item: dict) -> list[list[int]]:
    """Places of the ten best keys, by level, with BM25Okapi built for this question."""
    tops = []
    for level in LEVELS:
        bm25 = BM25Okapi([key.split(" ") for key in plain_keys(item, level)])
        scores = bm25.get_scores(item["question"].split(" "))
        tops.append(np.argsort(-scores, kind="stable")[:10].tolist())
    return tops


def run_plain(path: Path) -> list[list[list[int]]]:
    """Everything, with the plain loop in two processes."""
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "rb") as file:
        items = json.load(file)
    with multiprocessing.Pool(2) as pool:
        return pool.map(plain_top, items, chunksize=8)


def run_ours(path: Path) -> list[list[list[int]]]:
    """Everything, with this project in one process, metrics included."""
    tops = []
    for item in data.load_instances(path):
        top = []
        for level in LEVELS:
            records = build_records(item, level)
            ranking = rank(item, records, "bm25")
            metrics.score_ranking(item, ranking, level, "fixed")
            places = {record.position: i for i, record in enumerate(records)}
            top.append([places[record.position] for record in ranking.records[:10]])
        tops.append(top)
    return tops


def main() -> None:
    path = Path(sys.argv[1])
    tops, seconds = {}, {}
    for name, function in (("plain", run_plain), ("ours", run_ours)):
        start_s = time.perf_counter()
        tops[name] = function(path)
        seconds[name] = time.perf_counter() - start_s
        print(f"{name}: {seconds[name]:.1f} s", flush=True)
    same = sum(a == b for a, b in zip(tops["plain"], tops["ours"], strict=True))
    print(f"plain / ours: {seconds['plain'] / seconds['ours']:.2f}")
    print(f"same ten best at both levels: {same} of {len(tops['ours'])} questions")


if __name__ == "__main__":
    main()
