"""How one data set compares with another: shapes, repetition, vocabulary, difficulty.

The same measurements run over `data/mini/s.json` and over LongMemEval S; the real
figures are kept as numbers in `data/calibration/`, made by

    python -m lme_utils.construct.calibrate FILE --out data/calibration/NAME.csv

Tokens are those of the embedder's tokeniser (WordPiece, lower-cased), which everyone
has who runs the notebooks.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..config import SEED
from ..data import load_instances
from ..files import written_aside
from ..index import build_records
from ..metrics import score_ranking
from ..retrieve import embed_all, rank
from ..schema import Entry, Granularity, Instance
from ..stats import wilson
from ..weights import fetch_weights
from .histories import source_of

if TYPE_CHECKING:
    import pandas as pd

HISTORY = 16  # sessions; real histories are cut to it by dropping fillers
K = 5
PER_TYPE = 20  # questions of a type whose retrieval is measured, drawn once
SHINGLE = 3  # words in a row that make an element of a session's set
NEAR = 0.5  # Jaccard similarity from which two sessions count as near-duplicates
VOCABULARY_AT = (10_000, 30_000, 100_000, 300_000)  # words read
COLUMNS = ("measure", "group", "value", "low", "high", "n")
Row = tuple[str, str, float, float, float, int]


def measure(
    instances: Sequence[Instance],
    model: str = "all-MiniLM-L6-v2",
    scored: Collection[str] | None = None,
    seed: int = SEED,
) -> pd.DataFrame:
    """Every measurement of one data set, a row each with a 95% interval.

    instances  questions with histories of at least `HISTORY` sessions, or as they are
    scored     ids of the questions whose retrieval may be measured (None: all); of each
               type `PER_TYPE` are drawn, those without an answer are always left out
    returns    columns measure, group, value, low, high, n

    Medians have bootstrap intervals over sessions, shares Wilson's.
    """
    import pandas as pd

    answerable = [
        i
        for i in instances
        if not i.is_abstention and (scored is None or i.question_id in scored)
    ]
    wanted = [cut_history(i, HISTORY, seed) for i in draw_by_type(answerable, seed)]
    rows = [
        *shape_rows(instances, model, np.random.default_rng(seed)),
        *evidence_rows(instances),
        *repetition_rows(instances),
        *vocabulary_rows(instances, seed),
        *recall_rows(wanted, model),
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def draw_by_type(instances: Sequence[Instance], seed: int = SEED) -> list[Instance]:
    """Up to `PER_TYPE` questions of each type, so that every type weighs the same."""
    rng = random.Random(seed)
    by_type: dict[str, list[Instance]] = {}
    for instance in instances:
        by_type.setdefault(instance.question_type, []).append(instance)
    return [
        instance
        for _, group in sorted(by_type.items())
        for instance in rng.sample(group, min(PER_TYPE, len(group)))
    ]


def cut_history(instance: Instance, n_sessions: int, seed: int = SEED) -> Instance:
    """The instance with fillers dropped at random until n_sessions are left."""
    from dataclasses import replace

    fillers = [
        place
        for place, entry in enumerate(instance.history)
        if entry.session_id not in instance.answer_session_ids
    ]
    n_drop = min(len(fillers), max(0, len(instance.history) - n_sessions))
    rng = random.Random(f"{seed} {instance.question_id}")
    dropped = set(rng.sample(fillers, n_drop))
    kept = [e for place, e in enumerate(instance.history) if place not in dropped]
    return replace(instance, history=tuple(kept))


def shape_rows(
    instances: Iterable[Instance], model: str, rng: np.random.Generator
) -> list[Row]:
    """Medians over the distinct sessions: tokens a turn by role, rounds a session."""
    distinct = _distinct(instances)
    groups: dict[str, list[Entry]] = {"all": list(distinct.values())}
    for entry in distinct.values():
        groups.setdefault(_source(entry), []).append(entry)
    rows = []
    for name, entries in groups.items():
        turns = [turn for e in entries for turn in e.session.turns]
        for role in ("user", "assistant"):
            counts = count_tokens([t.content for t in turns if t.role == role], model)
            rows.append(_median_row(f"tokens per {role} turn", name, counts, rng))
        rounds = [sum(turn.role == "user" for turn in e.session.turns) for e in entries]
        rows.append(_median_row("rounds per session", name, rounds, rng))
    return rows


def evidence_rows(instances: Sequence[Instance]) -> list[Row]:
    """Shares: question types, evidence sessions a question, round of the evidence."""
    answerable = [i for i in instances if not i.is_abstention]
    types = Counter(i.question_type for i in answerable)
    sessions = Counter(str(len(i.answer_session_ids)) for i in answerable)
    rounds = Counter(
        round_ if int(round_) < 6 else "6 or later"
        for i in answerable
        for e in i.history
        for round_ in _evidence_rounds(e)
    )
    return [
        *_share_rows("question type", types),
        *_share_rows("evidence sessions per question", sessions),
        *_share_rows("round of the evidence", rounds),
    ]


def repetition_rows(instances: Sequence[Instance]) -> list[Row]:
    """The share of pairs of sessions within a history that are near-duplicates."""
    distinct = _distinct(instances)
    marks = {name: _minhash(e) for name, e in distinct.items()}
    n_pairs = n_near = 0
    for instance in instances:
        own = np.array([marks[e.session.digest] for e in instance.history])
        for i in range(len(own) - 1):
            likeness = (own[i + 1 :] == own[i]).mean(axis=1)
            n_pairs += len(likeness)
            n_near += int((likeness >= NEAR).sum())
    low, high = wilson(n_near, n_pairs)
    return [
        ("near-duplicate pairs", "within a history", n_near / n_pairs, low, high,
         n_pairs)
    ]  # fmt: skip


def vocabulary_rows(instances: Sequence[Instance], seed: int = SEED) -> list[Row]:
    """Distinct words after so many words read, sessions in random order."""
    entries = list(_distinct(instances).values())
    random.Random(seed).shuffle(entries)
    seen: set[str] = set()
    n_words, marks = 0, list(VOCABULARY_AT)
    rows: list[Row] = []
    for entry in entries:
        for turn in entry.session.turns:
            for word in re.findall(r"[a-z']+", turn.content.lower()):
                seen.add(word)
                n_words += 1
                if marks and n_words == marks[0]:
                    value = float(len(seen))
                    group = f"{marks.pop(0):,} words"
                    rows.append(("distinct words", group, value, value, value, 1))
    return rows


def recall_rows(instances: Sequence[Instance], model: str) -> list[Row]:
    """recall_all@5 of BM25 and MiniLM at both levels, by type and for all."""
    rows = []
    for level in ("session", "turn"):
        index = partial(build_records, granularity=level)
        embed_all(instances, index, model)
        for retriever in ("bm25", "dense"):
            found = [
                (i.question_type, recall_all(i, retriever, level, model))
                for i in instances
            ]
            groups = {"all": [r for _, r in found if r is not None]}
            for kind, r in found:
                if r is not None:
                    groups.setdefault(kind, []).append(r)
            for group, values in groups.items():
                low, high = wilson(int(sum(values)), len(values))
                name = f"recall_all@{K} {retriever} {level}"
                mean = sum(values) / len(values)
                rows.append((name, group, mean, low, high, len(values)))
    return rows


def recall_all(
    instance: Instance, retriever: str, level: Granularity, model: str
) -> float | None:
    """1 if all evidence is among the first five; None where no turn is labelled."""
    records = build_records(instance, level)
    ranking = rank(instance, records, retriever, model=model)
    scores = score_ranking(instance, ranking, level, "fixed")[level]
    return scores.get(f"recall_all@{K}")


def compare(ours: pd.DataFrame, real: pd.DataFrame) -> pd.DataFrame:
    """Two tables of `measure` side by side: measure, group, and both with intervals."""
    both = ours.merge(
        real, on=["measure", "group"], how="outer", suffixes=("", "_real"), sort=False
    )
    order = {key: i for i, key in enumerate(zip(real.measure, real.group, strict=True))}
    keys = zip(both.measure, both.group, strict=True)
    return (
        both.assign(order=[order.get(key, len(order)) for key in keys])
        .sort_values("order", kind="stable")
        .drop(columns="order")
        .reset_index(drop=True)
    )


def count_tokens(texts: Sequence[str], model: str = "all-MiniLM-L6-v2") -> list[int]:
    """Tokens of each text, by the embedder's tokeniser, without special ones."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(fetch_weights(model) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [len(e.ids) for e in encoded]


def _distinct(instances: Iterable[Instance]) -> dict[str, Entry]:
    """Every distinct session once; with labels where some history has them."""
    found: dict[str, Entry] = {}
    for instance in instances:
        for entry in instance.history:
            old = found.setdefault(entry.session.digest, entry)
            if any(entry.has_answer) and not any(old.has_answer):
                found[entry.session.digest] = entry
    return found


def _source(entry: Entry) -> str:
    if any(label is not None for label in entry.has_answer):
        return "evidence"
    return source_of(entry.session_id)


def _evidence_rounds(entry: Entry) -> list[str]:
    number, found = 0, []
    for turn, label in zip(entry.session.turns, entry.has_answer, strict=True):
        number += turn.role == "user"
        if label:
            found.append(str(max(number, 1)))
    return found


def _minhash(entry: Entry) -> np.ndarray:
    from datasketch import MinHash

    text = " ".join(turn.content for turn in entry.session.turns)
    words = re.findall(r"\w+", text.lower())
    shingles = {
        " ".join(words[i : i + SHINGLE])
        for i in range(max(1, len(words) - SHINGLE + 1))
    }
    sketch = MinHash(num_perm=128, seed=1)
    sketch.update_batch([shingle.encode() for shingle in sorted(shingles)])
    return sketch.hashvalues


def _median_row(
    measure: str, group: str, values: Sequence[int], rng: np.random.Generator
) -> Row:
    data = np.asarray(values)
    samples = [np.median(rng.choice(data, len(data))) for _ in range(500)]
    low, high = np.percentile(samples, [2.5, 97.5])
    return (measure, group, float(np.median(data)), low, high, len(data))


def _share_rows(measure: str, counts: Mapping[str, int]) -> list[Row]:
    n = sum(counts.values())
    return [
        (measure, group, count / n, *wilson(count, n), n)
        for group, count in sorted(counts.items())
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure a file and write the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lme_utils.construct.calibrate")
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    table = measure(list(load_instances(args.data)))
    with written_aside(args.out) as aside:
        table.to_csv(aside, index=False, lineterminator="\n", float_format="%.6g")
    print(table.to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
