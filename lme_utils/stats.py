"""How sure we are: intervals, paired tests, and the three means of a run.

Every share is given with n and a Wilson interval. Two configurations answer the same
questions, so they are compared question by question: exact McNemar for right and
wrong, a paired bootstrap for scores, Holm over a family of tests.

Paper: the three means are those of the authors' print script (overall, mean over the
six question types, abstention).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from .schema import ABSTENTION, QUESTION_TYPES

OVERALL, MEAN_OVER_TYPES = "overall", "mean over types"
MEASURES = (OVERALL, MEAN_OVER_TYPES, ABSTENTION, *QUESTION_TYPES)
COUNTS = ("strict", "lenient")


def wilson(n_right: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """The Wilson score interval of a share, within [0, 1].

    n_right  right answers, 0 <= n_right <= n
    n        questions; with none, nothing is known and the interval is (0, 1)
    returns  (low, high)

    Raises ValueError if the counts do not fit each other.

    >>> [round(x, 3) for x in wilson(24, 30)]
    [0.627, 0.905]
    """
    if not 0 <= n_right <= n:
        raise ValueError(f"wilson: got {n_right} right of {n}, wanted 0 <= right <= n")
    if n == 0:
        return 0.0, 1.0
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(n_right, n, alpha=1 - level, method="wilson")
    # Exactly 0 and 1 at the ends, where the formula is off by rounding.
    return float(low) if n_right else 0.0, float(high) if n_right < n else 1.0


def mcnemar_exact(a: Sequence[bool], b: Sequence[bool]) -> float:
    """Two-sided p that a and b are equally often right, from the questions they split.

    a, b     right or wrong, question by question      (same length, no gaps)
    returns  p in (0, 1]; 1 where they differ nowhere

    Of the questions on which a and b differ, half should go to each (binomial test).
    Raises ValueError for unequal lengths and for values other than true and false.

    >>> mcnemar_exact([True] * 6 + [False], [False] * 7)
    0.03125
    """
    a, b = _paired(a, b)
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise ValueError("mcnemar_exact: wanted true or false only; for scores use "
                         "paired_bootstrap")  # fmt: skip
    from scipy.stats import binomtest

    n_only_a, n_only_b = int((a > b).sum()), int((b > a).sum())
    if n_only_a + n_only_b == 0:
        return 1.0
    return float(binomtest(n_only_a, n_only_a + n_only_b).pvalue)


def paired_bootstrap(
    a: Sequence[float],
    b: Sequence[float],
    rng: np.random.Generator,
    n: int = 10_000,
    level: float = 0.95,
) -> tuple[float, float, float]:
    """mean(a) - mean(b) with a percentile interval, questions drawn with replacement.

    a, b     scores question by question, booleans too (same length, no gaps)
    n        bootstrap samples
    returns  (difference, low, high), in the unit of the scores

    Raises ValueError for unequal lengths, gaps, and fewer than two questions.

    >>> paired_bootstrap([1, 1, 1], [0, 0, 0], np.random.default_rng(1))
    (1.0, 1.0, 1.0)
    """
    a, b = _paired(a, b)
    if len(a) < 2:
        raise ValueError(
            f"paired_bootstrap: got {len(a)} questions, wanted two or more"
        )
    difference = a - b
    means = [
        difference[rng.integers(len(difference), size=len(difference))].mean()
        for _ in range(n)
    ]
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2))
    return float(difference.mean()), float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values corrected for their family (Holm), in the order given.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]

    Raises ValueError for a value outside [0, 1]: leave out what could not be tested.
    """
    if wrong := [p for p in p_values if not 0 <= p <= 1]:
        raise ValueError(f"holm: got p = {wrong[0]}, wanted values in [0, 1]")
    if not len(p_values):
        return []
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(p_values, method="holm")[1]]


def minimum_detectable_difference(
    n: int, discordant: float = 0.2, alpha: float = 0.05, power: float = 0.8
) -> float:
    """The smallest true difference that n paired questions are likely to show.

    n           questions that both configurations answer, n >= 1
    discordant  share of questions, in (0, 1], that exactly one of them gets right
    returns     a difference of shares in (0, discordant]; nan where even all
                discordant questions falling to one side would go unnoticed too often

    Exact, for `mcnemar_exact` itself: the number of discordant questions is binomial
    (n, discordant); given D of them, those won by the better configuration are binomial
    (D, 1/2 + difference / (2 discordant)); power is the chance that they land where
    p <= alpha. The difference at which it reaches `power` is found by bisection.

    >>> round(minimum_detectable_difference(470), 3)
    0.059
    >>> minimum_detectable_difference(14)
    nan
    """
    if n < 1 or not 0 < discordant <= 1:
        raise ValueError(
            f"minimum_detectable_difference: got n = {n}, discordant = {discordant}, "
            "wanted n >= 1 and a share in (0, 1]"
        )
    from scipy.optimize import brentq
    from scipy.stats import binom

    split = np.arange(n + 1)  # how many questions exactly one of the two gets right
    chance = binom.pmf(split, n, discordant)
    # The most that the loser may win for p <= alpha; -1 where no split is that clear.
    edge = binom.ppf(alpha / 2, split, 0.5)
    edge = np.where(2 * binom.cdf(edge, split, 0.5) <= alpha, edge, edge - 1)

    def short_of_power(difference: float) -> float:
        share = 0.5 + difference / (2 * discordant)
        lost = binom.cdf(edge, split, 1 - share) + binom.cdf(edge, split, share)
        return float(chance @ lost) - power

    if short_of_power(discordant) < 0:
        return math.nan
    if short_of_power(0) >= 0:
        raise ValueError(f"power {power} is wanted above alpha {alpha}")
    return float(brentq(short_of_power, 0, discordant, xtol=1e-6))


def summarise(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """The three means of the paper and the six types, strict and lenient.

    rows     a row per configuration and question, with the columns question_id,
             question_type (the base type, also of abstention questions), kind, status
             and label (True, False, or missing)
    by       columns that tell the configurations apart
    returns  a row per configuration, measure and way to count, with the columns
             *by, measure, count, share, low, high, n, n_right

    measure  "overall": all questions, abstention included; "mean over types": of the
             six base types, each weighing the same; "abstention"; then each base type
    count    "strict": a row that is not ok, or has no verdict, is wrong;
             "lenient": only rows with a verdict
    low, high  Wilson; for the mean over types the six Wilson intervals are combined
             (MOVER: each limit's distance from its share, added in squares)

    A share without questions is nan and its interval (0, 1); so is the mean over types
    where one of the six has none. Raises ValueError for a missing column, an unknown
    type or status, and a question twice in one configuration.
    """
    by = list(by)
    wanted = [*by, "question_id", "question_type", "kind", "status", "label"]
    if missing := [name for name in wanted if name not in rows]:
        raise ValueError(
            f"summarise: no column {', '.join(missing)}; got {', '.join(rows.columns)}"
        )
    _known(rows["question_type"], QUESTION_TYPES, "question_type")
    _known(rows["status"], ("ok", "failed", "not run"), "status")
    again = rows.duplicated([*by, "question_id"])
    if again.any():
        raise ValueError(
            f"summarise: question {rows.loc[again, 'question_id'].iloc[0]} comes twice "
            "in one configuration; name the columns that tell them apart in `by`"
        )
    groups = rows.groupby(by, sort=False, dropna=False) if by else [((), rows)]
    out = [
        dict(zip(by, key, strict=True)) | line
        for key, group in groups
        for count in COUNTS
        for line in _measures(group, count)
    ]
    columns = [*by, "measure", "count", "share", "low", "high", "n", "n_right"]
    return pd.DataFrame(out, columns=columns)


def compare(
    rows: pd.DataFrame,
    pairs: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Paired differences between configurations, corrected for the family.

    rows     as for `summarise`, with the columns that the pairs name
    pairs    name of the comparison: (columns and values of one configuration, of the
             other); the difference is the first minus the second
    returns  a row a pair: comparison, n, first, second (shares), difference, low, high
             (paired bootstrap), p (exact McNemar), p_holm (over all pairs given)

    Counted strictly, over the questions that both configurations have.
    Raises ValueError where a side has no rows, or the two ask different questions.
    """
    out = []
    for name, sides in pairs.items():
        right = [_right_by_question(rows, side) for side in sides]
        if not right[0].index.equals(right[1].index) or right[0].empty:
            raise ValueError(
                f"{name}: got {len(right[0])} and {len(right[1])} questions, wanted "
                "the same ones on both sides"
            )
        difference, low, high = paired_bootstrap(right[0], right[1], rng)
        out.append(
            {
                "comparison": name,
                "n": len(right[0]),
                "first": right[0].mean(),
                "second": right[1].mean(),
                "difference": difference,
                "low": low,
                "high": high,
                "p": mcnemar_exact(right[0], right[1]),
            }
        )
    table = pd.DataFrame(out)
    return table.assign(p_holm=holm(table["p"].tolist()))


def _right_by_question(rows: pd.DataFrame, side: Mapping[str, str]) -> pd.Series:
    """Whether each question is right under one configuration, sorted by id."""
    chosen = rows
    for column, value in side.items():
        chosen = chosen[chosen[column] == value]
    _, right = _judged_and_right(chosen)
    return right.set_axis(chosen["question_id"]).sort_index()


def _judged_and_right(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Per row: whether it has a verdict, and whether it is right (else False)."""
    label = rows["label"].astype("boolean")
    judged = (rows["status"] == "ok") & label.notna()
    return judged, label.fillna(False).astype(bool) & judged


def _measures(rows: pd.DataFrame, count: str) -> list[dict]:
    """One configuration, one way to count: a line per measure."""
    judged, right = _judged_and_right(rows)
    counted = judged | (count == "strict")

    def line(measure: str, mask: pd.Series) -> dict:
        n, n_right = int((mask & counted).sum()), int((mask & right).sum())
        low, high = wilson(n_right, n)
        share = n_right / n if n else math.nan
        return dict(measure=measure, count=count, share=share, low=low, high=high,
                    n=n, n_right=n_right)  # fmt: skip

    everything = line(OVERALL, pd.Series(True, index=rows.index))
    abstention = line(ABSTENTION, rows["kind"] == ABSTENTION)
    types = [line(name, rows["question_type"] == name) for name in QUESTION_TYPES]
    mean = everything | {"measure": MEAN_OVER_TYPES} | _mean_of_shares(types)
    return [everything, mean, abstention, *types]


def _mean_of_shares(lines: Sequence[dict]) -> dict:
    share, low, high = (
        np.array([line[k] for line in lines]) for k in ("share", "low", "high")
    )
    mean = float(share.mean())
    if math.isnan(mean):
        return {"share": mean, "low": 0.0, "high": 1.0}
    below, above = (
        float(np.sqrt(((share - limit) ** 2).sum())) / len(lines)
        for limit in (low, high)
    )
    return {"share": mean, "low": mean - below, "high": mean + above}


def _paired(a: Sequence[float], b: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Both as float arrays; refuses unequal lengths and gaps."""
    if len(a) != len(b):
        raise ValueError(f"paired values: got {len(a)} and {len(b)}, wanted as many")
    arrays = tuple(
        np.array([np.nan if pd.isna(v) else float(v) for v in x]) for x in (a, b)
    )
    if any(np.isnan(x).any() for x in arrays):
        raise ValueError(
            "paired values: got a gap, wanted a value for every question; decide first "
            "how a missing one counts (strict: wrong)"
        )
    return arrays


def _known(values: Iterable[str], allowed: Sequence[str], name: str) -> None:
    if unknown := sorted(set(map(str, values)) - set(allowed)):
        raise ValueError(
            f"summarise: {name}: got {unknown[0]!r}, wanted one of {', '.join(allowed)}"
        )
