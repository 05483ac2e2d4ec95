"""The tables of a run: the three means of the paper, scores, paired differences.

Paper: the three means are those of the authors' print script (overall, mean over the
six question types, abstention).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from .inference import (
    corrected_share,
    holm,
    mcnemar_exact,
    mean_interval,
    minimum_detectable_difference,
    paired_bootstrap,
    permutation_test,
    wilson,
)
from .schema import ABSTENTION, QUESTION_TYPES

__all__ = [
    "COUNTS",
    "MEASURES",
    "compare",
    "correct_summary",
    "corrected_share",
    "holm",
    "mcnemar_exact",
    "mean_interval",
    "minimum_detectable_difference",
    "paired_bootstrap",
    "permutation_test",
    "summarise",
    "summarise_scores",
    "wilson",
]

OVERALL, MEAN_OVER_TYPES = "overall", "mean over types"
MEASURES = (OVERALL, MEAN_OVER_TYPES, ABSTENTION, *QUESTION_TYPES)
COUNTS = ("strict", "lenient")


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
    pairs: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]],
    rng: np.random.Generator,
    measure: str | None = None,
) -> pd.DataFrame:
    """Paired differences between configurations, corrected for the family.

    rows     as for `summarise`, with the columns that the pairs name
    pairs    name of the comparison: (columns and values of one configuration, of the
             other); the difference is the first minus the second
    measure  a column of scores to compare, such as recall_all@5; a question without
             one (nan: nothing to find) is left out on both sides, and n says so.
             None: right and wrong, counted strictly
    returns  a row a pair: comparison, n, first, second (means), difference, low, high
             (paired bootstrap), p, p_holm (over all pairs given). p is of the exact
             McNemar test where the values are 0 and 1, else of a sign-flip permutation
             test of the mean difference

    Over the questions that both configurations have.
    Raises ValueError where a side has no rows, or the two ask different questions.
    """
    out = []
    for name, sides in pairs.items():
        first, second = (_by_question(rows, side, measure) for side in sides)
        if not first.index.equals(second.index) or first.empty:
            raise ValueError(
                f"{name}: got {len(first)} and {len(second)} questions, wanted "
                "the same ones on both sides"
            )
        scored = first.notna() & second.notna()
        first, second = first[scored], second[scored]
        difference, low, high = paired_bootstrap(first, second, rng)
        binary = np.isin(np.concatenate([first, second]).astype(float), (0, 1)).all()
        test = mcnemar_exact if binary else partial(permutation_test, rng=rng)
        out.append(
            {
                "comparison": name,
                "n": len(first),
                "first": first.mean(),
                "second": second.mean(),
                "difference": difference,
                "low": low,
                "high": high,
                "p": test(first, second),
            }
        )
    table = pd.DataFrame(out)
    return table.assign(p_holm=holm(table["p"].tolist()))


def summarise_scores(
    rows: pd.DataFrame,
    by: Sequence[str],
    measures: Sequence[str],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """The mean of each measure under each configuration, with a 95% interval.

    rows      a row per configuration and question, as `finding.score` gives them
    by        columns that tell the configurations apart
    measures  columns of scores; a question without one (nan) is left out, n says so
    returns   a row per configuration and measure: *by, measure, value, low, high, n

    Abstention questions have nothing to find: leave them out before (paper §5.1).
    Raises ValueError for a question twice in one configuration.
    """
    by = list(by)
    if rows.duplicated([*by, "question_id"]).any():
        raise ValueError(
            "summarise_scores: a question comes twice in one configuration; name the "
            "columns that tell them apart in `by`"
        )
    out = []
    for key, group in rows.groupby(by, sort=False, dropna=False):
        for measure in measures:
            values = group[measure].dropna()
            low, high = mean_interval(values, rng) if len(values) else (0.0, 1.0)
            out.append(
                dict(zip(by, key, strict=True))
                | dict(
                    measure=measure,
                    value=values.mean(),
                    low=low,
                    high=high,
                    n=len(values),
                )
            )
    return pd.DataFrame(out)


def correct_summary(
    summary: pd.DataFrame, counts: Mapping[str, int], rng: np.random.Generator
) -> pd.DataFrame:
    """A summary with its shares corrected for the errors of the judge behind them.

    summary  rows with n_right and n, as `summarise` gives them; take lenient ones:
             an answer without a verdict is no error of the judge
    counts   of labelled answers, as `judge.agreement_table` counts them: true_yes,
             false_no, true_no, false_yes
    returns  the same rows with share, low and high from `corrected_share`; those
             without an answer are left out

    Raises and assumes as `corrected_share`.
    """
    rows = summary[summary["n"] > 0]
    yes, no = (
        (int(counts[hit]), int(counts[hit] + counts[miss]))
        for hit, miss in (("true_yes", "false_no"), ("true_no", "false_yes"))
    )
    found = [
        corrected_share(int(row.n_right), int(row.n), yes, no, rng)
        for row in rows.itertuples()
    ]
    columns = ("share", "low", "high")
    return rows.assign(**{c: [f[i] for f in found] for i, c in enumerate(columns)})


def _by_question(
    rows: pd.DataFrame, side: Mapping[str, object], measure: str | None
) -> pd.Series:
    """The value of each question under one configuration, sorted by id."""
    chosen = rows
    for column, value in side.items():
        chosen = chosen[chosen[column] == value]
    values = chosen[measure] if measure else _judged_and_right(chosen)[1]
    return values.set_axis(chosen["question_id"]).sort_index()


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


def _known(values: Iterable[str], allowed: Sequence[str], name: str) -> None:
    if unknown := sorted(set(map(str, values)) - set(allowed)):
        raise ValueError(
            f"summarise: {name}: got {unknown[0]!r}, wanted one of {', '.join(allowed)}"
        )
