"""How sure we are: intervals and paired tests of shares and scores.

Every share is given with n and a Wilson interval. Two configurations answer the same
questions, so they are compared question by question: exact McNemar for right and
wrong, a paired bootstrap for scores, Holm over a family of tests. A share that an
erring judge counted can be corrected for its errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd


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


def permutation_test(
    a: Sequence[float], b: Sequence[float], rng: np.random.Generator, n: int = 9_999
) -> float:
    """Two-sided p that a and b have the same mean, signs of the differences flipped.

    a, b     scores question by question (same length, no gaps)
    n        random sign flips; all of them where there are fewer
    returns  p in (0, 1]

    >>> permutation_test([0.9, 0.8, 0.7, 0.9], [0.5] * 4, np.random.default_rng(1))
    0.125
    """
    from scipy.stats import permutation_test as flip

    a, b = _paired(a, b)
    if (a == b).all():
        return 1.0
    found = flip((a - b,), np.mean, permutation_type="samples", n_resamples=n, rng=rng)
    return float(found.pvalue)


def mean_interval(
    values: Sequence[float], rng: np.random.Generator, n: int = 10_000
) -> tuple[float, float]:
    """A 95% interval of a mean: Wilson for values 0 and 1, else bootstrap percentiles.

    values   one a question, at least one, no gaps
    returns  (low, high)

    >>> [round(x, 3) for x in mean_interval([1] * 24 + [0] * 6, None)]
    [0.627, 0.905]
    """
    array = np.asarray(values, dtype=float)
    if np.isnan(array).any() or not len(array):
        raise ValueError("mean_interval: got a gap or nothing, wanted values")
    if np.isin(array, (0, 1)).all():
        return wilson(int(array.sum()), len(array))
    drawn = array[rng.integers(len(array), size=(n, len(array)))].mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(low), float(high)


def corrected_share(
    n_right: int,
    n: int,
    yes: tuple[int, int],
    no: tuple[int, int],
    rng: np.random.Generator,
    draws: int = 10_000,
    level: float = 0.95,
) -> tuple[float, float, float]:
    """A share right as it would be without the errors of the judge that counted it.

    n_right  answers that the judge calls right, of the n that it labelled
    yes      (found, of): of so many answers known to be right, those that it called
             right; their share is the sensitivity
    no       (found, of): of so many known to be wrong, those that it called wrong;
             their share is the specificity
    returns  (share, low, high), in [0, 1]

    share = (n_right / n + specificity - 1) / (sensitivity + specificity - 1), cut to
    [0, 1] (Rogan and Gladen 1978). For the interval the three shares are drawn from
    their beta posteriors (prior: Jeffreys), so that it carries what is uncertain in the
    labelled answers and in the new ones. A draw of a judge no better than chance says
    nothing: it counts as 0 for the low end and as 1 for the high end.

    Assumes that the judge errs on the new answers as on the labelled ones, and as often
    whoever wrote the answer: take labelled answers like the new ones, kind by kind
    where the errors differ by kind. Sensitivity and specificity are those against the
    labels, which may be wrong themselves.

    Raises ValueError for counts that do not fit or are of nothing, and where the judge
    is no better than chance (sensitivity + specificity <= 1).

    >>> found = corrected_share(70, 100, (90, 100), (80, 100), np.random.default_rng(1))
    >>> [round(x, 2) for x in found]  # (0.7 + 0.8 - 1) / (0.9 + 0.8 - 1)
    [0.71, 0.56, 0.86]
    """
    counts = {"right": (n_right, n), "yes": yes, "no": no}
    for name, (found, total) in counts.items():
        if not 0 <= found <= total or total == 0:
            raise ValueError(
                f"corrected_share: {name}: got {found} of {total}, wanted "
                "0 <= found <= of, of at least one"
            )
    observed, sensitivity, specificity = (
        found / total for found, total in counts.values()
    )
    if sensitivity + specificity <= 1:
        raise ValueError(
            f"corrected_share: got sensitivity {sensitivity:.3f} and specificity "
            f"{specificity:.3f}, wanted a sum above 1: this judge is no better than "
            "chance"
        )

    def without_errors(observed, sensitivity, specificity):
        share = (observed + specificity - 1) / (sensitivity + specificity - 1)
        return np.clip(share, 0, 1)

    share = float(without_errors(observed, sensitivity, specificity))
    drawn = [
        rng.beta(found + 0.5, total - found + 0.5, draws)
        for found, total in counts.values()
    ]
    shares = without_errors(*drawn)
    by_chance = drawn[1] + drawn[2] <= 1
    low = np.quantile(np.where(by_chance, 0, shares), (1 - level) / 2)
    high = np.quantile(np.where(by_chance, 1, shares), (1 + level) / 2)
    # Cut to [0, 1], the share may lie at an end that no draw reaches.
    return share, min(share, float(low)), max(share, float(high))


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
