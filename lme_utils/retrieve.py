"""Ranking the records of a history for its question (paper §4, S; §5.1, E.2).

The query is the question's text alone. Three retrievers: `bm25`, `dense` (cosine of
sentence embeddings) and `oracle` (evidence first, the ceiling). Scoring is exact: every
record of the history is scored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Literal

import numpy as np

from .schema import Compat, Instance, Ranking, Record

Retriever = Literal["bm25", "dense", "oracle"]


def rank(
    instance: Instance,
    records: Sequence[Record],
    retriever: Retriever = "bm25",
    compat: Compat = "fixed",
    model: str = "all-MiniLM-L6-v2",
) -> Ranking:
    """The records, best first.

    records  from `index.build_records`, at least one
    compat   how equal scores are ordered: fixed keeps the history's order, official
             does what the authors' reversed, unstable argsort does
    model    the embedder of `dense`

    Raises ValueError for an empty index or an unknown retriever.
    """
    if not records:
        raise ValueError(f"{instance.question_id}: no records to rank")
    keys = [record.key for record in records]
    if retriever == "bm25":
        scores = bm25_scores(instance.question, keys)
    elif retriever == "dense":
        scores = dense_scores(instance.question, keys, model)
    elif retriever == "oracle":
        scores = np.array([float(record.gold) for record in records])
    else:
        raise ValueError(f"retriever: got {retriever!r}, wanted bm25, dense or oracle")
    if compat == "official" and retriever != "oracle":
        order = _argsort_official(scores)
    else:
        order = np.argsort(-scores, kind="stable")
    return Ranking(
        instance.question_id,
        tuple(records[i] for i in order),
        tuple(float(scores[i]) for i in order),
    )


def bm25_scores(query: str, keys: Sequence[str]) -> np.ndarray:
    """BM25 (Okapi) of each key, over words split at single spaces.

    keys     the corpus: statistics are taken from it alone
    returns  float64 of shape (len(keys),)

    Equal to `rank_bm25.BM25Okapi` with its defaults (k1 1.5, b 0.75, negative weights
    replaced by a quarter of the mean weight), to rounding; but each distinct text is
    counted once, whatever the number of histories that hold it.
    """
    k1, b, epsilon = 1.5, 0.75, 0.25
    counts = [_count_words(key) for key in keys]
    n = len(keys)
    n_words = np.array([sum(count.values()) for count in counts], dtype=float)
    document_frequency = Counter(chain.from_iterable(counts))

    def weight(df: int) -> float:
        return math.log(n - df + 0.5) - math.log(df + 0.5)

    mean_weight = sum(
        how_many * weight(df)
        for df, how_many in Counter(document_frequency.values()).items()
    ) / len(document_frequency)
    norm = k1 * (1 - b + b * n_words / n_words.mean())
    scores = np.zeros(n)
    for word in query.split(" "):
        if word not in document_frequency:
            continue
        idf = weight(document_frequency[word])
        if idf < 0:
            idf = epsilon * mean_weight
        tf = np.array([count[word] for count in counts], dtype=float)
        scores += idf * (tf * (k1 + 1) / (tf + norm))
    return scores


def dense_scores(query: str, keys: Sequence[str], model: str) -> np.ndarray:
    """Cosine of the embeddings of query and keys: float64, shape (len(keys),)."""
    from .embed import embed

    vectors = embed([query, *keys], model)
    return (vectors[1:] @ vectors[0]).astype(float)


def embed_all(
    instances: Iterable[Instance],
    index: Callable[[Instance], Sequence[Record]],
    model: str = "all-MiniLM-L6-v2",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[int, int]:
    """Embed every distinct question and key once, before ranking with `dense`.

    index    builds the records of one instance
    returns  (texts referenced, distinct texts)
    """
    from .embed import embed

    n_referenced = 0
    distinct: dict[str, None] = {}
    for instance in instances:
        texts = [instance.question, *(record.key for record in index(instance))]
        n_referenced += len(texts)
        distinct.update(dict.fromkeys(texts))
    embed(list(distinct), model, progress=progress)
    return n_referenced, len(distinct)


def rank_all(
    instances: Iterable[Instance],
    index: Callable[[Instance], Sequence[Record]],
    retriever: Retriever = "bm25",
    compat: Compat = "fixed",
    model: str = "all-MiniLM-L6-v2",
) -> Iterator[tuple[Instance, Ranking]]:
    """Rank the records of each instance in turn: yields (instance, ranking)."""
    for instance in instances:
        yield instance, rank(instance, index(instance), retriever, compat, model)


def _argsort_official(scores: np.ndarray) -> np.ndarray:
    """NumPy's default argsort, reversed, the same on every processor.

    The default sort is unstable, and its order of ties depends on the vector
    instructions at hand; 16-bit numbers are always sorted by the plain routine, which
    made the reference figures. So the ranks of the scores are sorted in their stead.
    """
    ranks = np.unique(scores, return_inverse=True)[1]
    if ranks.max() <= np.iinfo(np.uint16).max:
        ranks = ranks.astype(np.uint16)
    return np.argsort(ranks)[::-1]


@cache
def _count_words(text: str) -> Counter[str]:
    return Counter(text.split(" "))
