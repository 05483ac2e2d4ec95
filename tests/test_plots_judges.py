"""The rows of the figures about judges, counted by hand, and the counts that ship."""

import pandas as pd
import pytest

from lme_utils import plots_judges, stats
from lme_utils.models import RECORDINGS
from lme_utils.plots_retrieval import score_panels
from lme_utils.schema import KINDS

COUNTS = ["true_yes", "true_no", "false_yes", "false_no", "missing"]
MEASURED = pd.DataFrame(
    [
        ("first", "all", 8, 3, 1, 2, 1),
        ("first", "abstention", 4, 0, 0, 1, 0),
        ("first", "multi-session", 2, 1, 1, 0, 0),
    ],
    columns=["series", "kind", *COUNTS],
)
PEOPLE = pd.DataFrame(
    [("paper", "abstention", 29, 30), ("paper", "abstention", 27, 30)],
    columns=["series", "kind", "agree", "of"],
)


def test_agreement_and_both_errors_by_hand():
    rows = plots_judges.error_panels(MEASURED, PEOPLE)
    found = {
        panel: part[["group", "series", "value", "n"]].values.tolist()
        for panel, part in rows.groupby("panel", sort=False)
    }
    assert found == {
        "agree": [
            ["multi-session", "first", 3 / 4, 4],  # the paper's order of kinds
            ["abstention", "first", 4 / 5, 5],
            ["abstention", "paper", 56 / 60, 60],
            ["all", "first", 11 / 15, 15],  # an answer without a verdict agrees not
        ],
        "right, and called so": [
            ["multi-session", "first", 1.0, 2],
            ["abstention", "first", 4 / 5, 5],
            ["all", "first", 8 / 10, 10],
        ],
        # of abstention no answer was wrong: no share
        "wrong, and called so": [
            ["multi-session", "first", 1 / 2, 2],
            ["all", "first", 3 / 4, 4],
        ],
    }
    overall = rows[(rows["group"] == "all") & (rows["panel"] == "agree")].iloc[0]
    assert (overall["low"], overall["high"]) == stats.wilson(11, 15)


def test_the_rows_can_be_drawn():
    rows = plots_judges.error_panels(MEASURED, PEOPLE)
    fig = score_panels(rows, plots_judges.JUDGE_LOOKS, "share")
    assert [t.get_text() for t in fig.legends[0].get_texts()] == [
        "rules", "paper: GPT-4o against people",
    ]  # fmt: skip
    assert [t.get_text() for t in fig.axes[0].get_yticklabels()] == [
        "multi-session", "abstention", "all",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["judge_offline", "judge_qwen_1.5b"])
def test_counts_that_ship_add_up(name):
    table = pd.read_csv(RECORDINGS / "judges" / f"{name}.csv")
    assert (table[COUNTS].sum(axis=1) == table["n"]).all()
    hits = table["true_yes"] + table["true_no"]
    assert (table["agree"] - hits / table["n"]).abs().max() < 1e-12
    for _, part in table.groupby(["judge", "half", "source"]):
        sizes = part.set_index("kind")["n"]
        named = sizes[sizes.index.isin(KINDS)]
        assert len(named) in (0, len(KINDS))
        if len(named):
            assert named.sum() == sizes["all"]
            preferences = sizes["single-session-preference"]
            assert sizes["without preferences"] == sizes["all"] - preferences
    wide = table.pivot(index=["judge", "source", "kind"], columns="half", values="n")
    if "whole" in wide:
        both = wide.dropna()
        assert len(both) and (both["dev"] + both["test"] == both["whole"]).all()
