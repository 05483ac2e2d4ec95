"""Rows for figures about judges: how far they agree, how they err, what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .inference import wilson
from .plots import Look
from .plots_retrieval import PAPER
from .schema import KINDS

if TYPE_CHECKING:
    import pandas as pd

# Judges keep their look in every figure about them.
JUDGE_LOOKS = {
    "first": Look("#0072B2", "D", "-", "rules"),
    "corrected": Look("#009E73", "s", "-", "rules, corrected"),
    "second": Look("#D55E00", "o", "--", "1.5B model"),
    "paper": PAPER._replace(label="paper: GPT-4o against people"),
}
# Which counts are the hits of a panel, and which with them make up all of it.
_PANELS = {
    "agree": (("true_yes", "true_no"), ("false_yes", "false_no", "missing")),
    "right, and called so": (("true_yes",), ("false_no",)),
    "wrong, and called so": (("true_no",), ("false_yes",)),
}


def error_panels(measured: pd.DataFrame, people: pd.DataFrame) -> pd.DataFrame:
    """How far judges agree and how they err, by kind, as rows for `score_panels`.

    measured  counts as `judge.agreement_table` makes them: columns series, kind,
              true_yes, true_no, false_yes, false_no, missing
    people    columns series, kind, agree, of: counts of agreement alone; rows of one
              series and kind are added up
    returns   columns panel, group, series, value, low, high, n; groups are the kinds in
              the paper's order, then others as they come

    Panels: the share that agrees; of the answers that the reference calls right, those
    that the judge calls right (sensitivity); of those it calls wrong, those that the
    judge calls wrong (specificity). The last two are of the answers that the judge gave
    a label. A share of nothing is left out. Intervals are Wilson's, 95%.
    """
    import pandas as pd

    out = []
    for row in measured.to_dict("records"):
        for panel, (hits, misses) in _PANELS.items():
            n_hits = sum(row[name] for name in hits)
            n = n_hits + sum(row[name] for name in misses)
            out.append((panel, row["kind"], row["series"], n_hits, n))
    sums = people.groupby(["kind", "series"], sort=False)[["agree", "of"]].sum()
    for (kind, series), row in sums.iterrows():
        out.append(("agree", kind, series, row["agree"], row["of"]))
    groups = list(dict.fromkeys([*KINDS, *(row[1] for row in out)]))
    panels = list(_PANELS)
    out.sort(key=lambda row: (panels.index(row[0]), groups.index(row[1])))
    lines = [
        (panel, kind, series, hits / n, *wilson(hits, n), n)
        for panel, kind, series, hits, n in out
        if n
    ]
    columns = ["panel", "group", "series", "value", "low", "high", "n"]
    return pd.DataFrame(lines, columns=columns)
