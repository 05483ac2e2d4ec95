"""Ranking the records of a history for its question (paper §4, S; §5.1, E.2).

The query is the question's text alone. The retrievers: `bm25` over what stands between
single spaces, as the authors have it; `bm25-words` over lower-cased words without
punctuation; `dense` (dot product of sentence embeddings); `oracle` (evidence first);
`newest` and `oldest` (by date alone: with a budget, what is kept of a history that is
too long for its reader). Scoring is exact: every record of the history is scored.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Literal, get_args

import numpy as np

from .schema import Compat, Instance, Ranking, Record

Retriever = Literal["bm25", "bm25-words", "dense", "oracle", "newest", "oldest"]
BY_DATE: tuple[Retriever, ...] = ("newest", "oldest")  # these look at no key
RRF_K = 60  # reciprocal-rank fusion, Cormack, Clarke and Büttcher 2009
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")


def rank(
    instance: Instance,
    records: Sequence[Record],
    retriever: Retriever = "bm25",
    compat: Compat = "fixed",
    model: str = "all-MiniLM-L6-v2",
) -> Ranking:
    """The records, best first.

    records  from `index.build_records`, at least one
    retriever  `newest` ranks by date, the last first, and of equal dates the last of
             the history; `oldest` the other way round (what the authors' readers get
             of a history that is too long: its head)
    compat   how equal scores are ordered, and items with several records: fixed keeps
             the history's order and of each item the best record; official does what
             the authors' reversed, unstable argsort does, and keeps all records
    model    the embedder of `dense`

    Raises ValueError for an empty index or an unknown retriever.
    """
    if not records:
        raise ValueError(f"{instance.question_id}: no records to rank")
    keys = [record.key for record in records]
    if retriever in ("bm25", "bm25-words"):
        scores = bm25_scores(instance.question, keys, retriever == "bm25-words")
    elif retriever == "dense":
        scores = dense_scores(instance.question, keys, model)
    elif retriever == "oracle":
        scores = np.array([float(record.gold) for record in records])
    elif retriever in BY_DATE:
        scores = _place_in_time(records)
        if retriever == "oldest":
            scores = len(records) - 1 - scores
    else:
        known = ", ".join(get_args(Retriever))
        raise ValueError(f"retriever: got {retriever!r}, wanted one of {known}")
    if compat == "official" and retriever != "oracle":
        order = _argsort_official(scores)
    else:
        order = np.argsort(-scores, kind="stable")
    if compat != "official":
        best = {records[i].position: i for i in reversed(order)}
        order = [i for i in order if best[records[i].position] == i]
    return Ranking(
        instance.question_id,
        tuple(records[i] for i in order),
        tuple(float(scores[i]) for i in order),
    )


def fuse(rankings: Sequence[Ranking], how: Literal["best", "rrf"] = "best") -> Ranking:
    """One ranking out of several of the same history (paper E.3, rank merging).

    rankings  each item at most once in each; an item may be missing from some
    how       best: by its best rank in any, equal ones in the order of the rankings;
              rrf: by the sum of 1 / (60 + rank), reciprocal-rank fusion
    returns   every item once; its score is 1 / best rank, or that sum

    >>> from datetime import datetime
    >>> a, b = (Record(n, "", (), datetime(2023, 1, 1), (i, -1), False)
    ...         for i, n in enumerate("ab"))
    >>> one, two = Ranking("q", (a, b), (2.0, 1.0)), Ranking("q", (b,), (0.3,))
    >>> [record.id for record in fuse([one, two]).records]
    ['a', 'b']
    >>> [record.id for record in fuse([one, two], "rrf").records]
    ['b', 'a']
    """
    records: dict[tuple[int, int], Record] = {}
    scores: dict[tuple[int, int], float] = {}
    for ranking in rankings:
        for i, record in enumerate(ranking.records, 1):
            here = records.setdefault(record.position, record).position
            old = scores.get(here, 0.0)
            scores[here] = max(old, 1 / i) if how == "best" else old + 1 / (RRF_K + i)
    order = sorted(records, key=lambda position: -scores[position])
    return Ranking(
        rankings[0].question_id,
        tuple(records[position] for position in order),
        tuple(scores[position] for position in order),
    )


def bm25_scores(query: str, keys: Sequence[str], words: bool = False) -> np.ndarray:
    """BM25 (Okapi) of each key, over what stands between single spaces.

    keys     the corpus: statistics are taken from it alone
    words    split into lower-cased words without punctuation instead
    returns  float64 of shape (len(keys),)

    Equal to `rank_bm25.BM25Okapi` with its defaults (k1 1.5, b 0.75, negative weights
    replaced by a quarter of the mean weight), to rounding; but each distinct text is
    counted once, whatever the number of histories that hold it.
    """
    k1, b, epsilon = 1.5, 0.75, 0.25
    counts = [_count_words(key, words) for key in keys]
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
    for word in _split(query, words):
        if word not in document_frequency:
            continue
        idf = weight(document_frequency[word])
        if idf < 0:
            idf = epsilon * mean_weight
        tf = np.array([count[word] for count in counts], dtype=float)
        scores += idf * (tf * (k1 + 1) / (tf + norm))
    return scores


def dense_scores(query: str, keys: Sequence[str], model: str) -> np.ndarray:
    """Dot product of the embeddings of query and keys: float64, shape (len(keys),)."""
    from .embed import embed

    (asked,) = embed([query], model, as_query=True)
    return (embed(keys, model) @ asked).astype(float)


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
    questions: dict[str, None] = {}
    keys: dict[str, None] = {}
    for instance in instances:
        texts = [record.key for record in index(instance)]
        n_referenced += len(texts) + 1
        questions[instance.question] = None
        keys.update(dict.fromkeys(texts))
    embed(list(questions), model, as_query=True)
    embed(list(keys), model, progress=progress)
    return n_referenced, len(questions) + len(keys)


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


def _place_in_time(records: Sequence[Record]) -> np.ndarray:
    """Of each record its number from 0 in order of date, then of the history."""
    order = sorted(
        range(len(records)), key=lambda i: (records[i].date, records[i].position)
    )
    return np.argsort(order).astype(float)


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


def _split(text: str, words: bool) -> list[str]:
    return _WORD.findall(text.lower()) if words else text.split(" ")


@cache
def _count_words(text: str, words: bool) -> Counter[str]:
    return Counter(_split(text, words))
