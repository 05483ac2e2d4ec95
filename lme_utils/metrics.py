"""How much of the evidence is found, and how early.

The plain functions (`recall`, `ndcg`) are the textbook's. The authors' scorer differs
in named ways and lives in `score_official`, reproduced to the last digit; the paper's
"Recall@k" is its `recall_all` (paper §3.3, §5; the authors' print script).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from statistics import fmean
from typing import NamedTuple

from .index import build_records, session_of
from .schema import Compat, Granularity, Instance, Ranking

KS = (1, 3, 5, 10, 30, 50)
Scores = dict[str, float]


class Recall(NamedTuple):
    """Shares in [0, 1]: some evidence found, all of it, and how much of it."""

    any: float
    all: float
    share: float


def recall(
    ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int
) -> Recall:
    """How much of the evidence is among the first k items.

    ranked    items, best first, no repeats            (length n, n >= 1)
    relevant  items that hold evidence                 (at least one)
    returns   Recall(any, all, share), each in [0, 1]

    The paper's Recall@k is `all`; trec tools call `share` recall.
    Raises ValueError if k < 1, `relevant` is empty, or `ranked` repeats an item.

    >>> recall(["a", "b", "c"], {"b", "z"}, k=2)
    Recall(any=1.0, all=0.0, share=0.5)
    """
    _check(ranked, relevant, k)
    found = len(set(ranked[:k]) & set(relevant))
    return Recall(
        float(found > 0), float(found == len(set(relevant))), found / len(set(relevant))
    )


def ndcg(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """Normalised discounted cumulative gain, binary gains, discount log2(rank + 1).

    Arguments and errors as for `recall`; the result lies in [0, 1].

    >>> round(ndcg(["a", "b", "c"], {"b"}, k=3), 4)
    0.6309
    """
    _check(ranked, relevant, k)
    gain = sum(1 / math.log2(i + 2) for i, x in enumerate(ranked[:k]) if x in relevant)
    best = sum(1 / math.log2(i + 2) for i in range(min(k, len(set(relevant)))))
    return gain / best


def score_official(ids: Sequence[str], k: int) -> Scores:
    """The authors' three metrics for a whole ranking, in their way.

    ids   every id of the corpus, best first; may repeat. An id with "answer" in it is
          evidence: nothing else says so.
    k     the cut; may be larger than the ranking

    Differences from the textbook: rank 2 weighs as much as rank 1 and rank i >= 2
    weighs 1 / log2(i); the ideal ranking counts repeated ids; with no evidence at all,
    recall_any is 0, recall_all is 1 and ndcg is 0.

    >>> score_official(["answer_a", "b", "answer_c"], 2)
    {'recall_any': 1.0, 'recall_all': 0.0, 'ndcg_any': 0.5}
    """
    gold = {name for name in ids if "answer" in name}
    found = gold.intersection(ids[:k])
    best = _dcg_official(sorted((name in gold for name in ids), reverse=True)[:k])
    gain = _dcg_official([name in gold for name in ids[:k]])
    return {
        "recall_any": float(bool(found)),
        "recall_all": float(found == gold),
        "ndcg_any": gain / best if best else 0.0,
    }


def score_ranking(
    instance: Instance, ranking: Ranking, granularity: Granularity, compat: Compat
) -> dict[str, Scores]:
    """All metrics of one question at every k of `KS`.

    Returns {"session": {"recall_any@1": ...}, "turn": {...}}; "turn" is empty for
    rankings of sessions. Rankings of turns are scored as sessions too: official grows
    the cut until k sessions are in it, fixed takes each session at its best turn.
    Under `fixed`, evidence sessions are those the file lists, a level on which nothing
    is evidence has no scores (empty), and `recall_share` is given beside the others.
    """
    if compat == "official":
        return _score_official(ranking, granularity)
    turns = [record.position for record in ranking.records]
    gold_sessions = {
        place
        for place, entry in enumerate(instance.history)
        if entry.session_id in instance.answer_session_ids
    }
    gold_turns = (
        {r.position for r in build_records(instance, "turn") if r.gold}
        if granularity == "turn"
        else ()
    )
    return {
        "session": _score_fixed([place for place, _ in turns], gold_sessions),
        "turn": _score_fixed(turns, gold_turns),
    }


def has_user_side_target(instance: Instance) -> bool:
    """Whether some user turn of the history is labelled as evidence."""
    return any(
        label and turn.role == "user"
        for entry in instance.history
        for turn, label in zip(entry.session.turns, entry.has_answer, strict=True)
    )


def mean_scores(
    rows: Sequence[tuple[Instance, dict[str, Scores]]],
) -> dict[str, dict[str, object]]:
    """Means under both of the authors' denominators.

    rows     each question with its scores from `score_ranking`
    returns  {"all_but_abstention": {"n", "session", "turn"},
              "with_user_side_target": the same}

    The first leaves out abstention questions (the authors' print script), the second
    also those without evidence on the user's side (their retrieval script). A level
    without scores is left out of that level's mean, which then says its own n.
    """
    answerable = [(i, scores) for i, scores in rows if not i.is_abstention]
    user_side = [(i, scores) for i, scores in answerable if has_user_side_target(i)]
    return {
        name: {
            "n": len(chosen),
            **{
                level: _mean([scores[level] for _, scores in chosen], len(chosen))
                for level in ("session", "turn")
            },
        }
        for name, chosen in (
            ("all_but_abstention", answerable),
            ("with_user_side_target", user_side),
        )
    }


def _check(ranked: Sequence, relevant: Collection, k: int) -> None:
    if k < 1:
        raise ValueError(f"k: got {k}, wanted at least 1")
    if not relevant:
        raise ValueError("relevant: got nothing, wanted at least one item")
    if len(set(ranked)) < len(ranked):
        raise ValueError("ranked: got an item twice, wanted each once")


def _dcg_official(gains: Sequence[bool]) -> float:
    head = float(gains[0]) if gains else 0.0
    return head + sum(1 / math.log2(i) for i, gain in enumerate(gains[1:], 2) if gain)


def _score_official(ranking: Ranking, granularity: Granularity) -> dict[str, Scores]:
    ids = [record.id for record in ranking.records]
    scores: dict[str, Scores] = {"session": {}, "turn": {}}
    for k in KS:
        scores[granularity] |= _at(k, score_official(ids, k))
        if granularity == "turn":
            sessions = [session_of(name) for name in ids]
            cut = k
            while cut < len(sessions) and len(set(sessions[:cut])) < k:
                cut += 1
            scores["session"] |= _at(k, score_official(sessions, cut))
    return scores


def _score_fixed(ranked: Sequence[Hashable], gold: Collection[Hashable]) -> Scores:
    if not gold:
        return {}
    ranked = list(dict.fromkeys(ranked))
    scores: Scores = {}
    for k in KS:
        found = recall(ranked, gold, k)
        scores |= _at(
            k,
            {
                "recall_any": found.any,
                "recall_all": found.all,
                "recall_share": found.share,
                "ndcg_any": ndcg(ranked, gold, k),
            },
        )
    return scores


def _at(k: int, scores: Scores) -> Scores:
    return {f"{name}@{k}": value for name, value in scores.items()}


def _mean(scores: Sequence[Scores], n: int) -> dict[str, float]:
    scored = [s for s in scores if s]
    if not scored:
        return {}
    means = {name: fmean(s[name] for s in scored) for name in scored[0]}
    return means if len(scored) == n else means | {"n": len(scored)}
