"""Intervals and tests against values worked out by hand or by another route."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from lme_utils import stats
from lme_utils.schema import ABSTENTION, QUESTION_TYPES


@pytest.mark.parametrize(("n_right", "n"), [(0, 14), (7, 14), (14, 14), (433, 500)])
def test_wilson_limits_solve_their_equation(n_right, n):
    """Each limit is a share p at which the observed one lies z errors away."""
    z = 1.959963984540054
    for limit in stats.wilson(n_right, n):
        error = math.sqrt(limit * (1 - limit) / n)
        assert abs(n_right / n - limit) == pytest.approx(z * error, abs=1e-9)


def test_wilson_hand_value_and_edges():
    # 10 of 10: low = n / (n + z^2) = 10 / 13.8415
    assert stats.wilson(10, 10) == (pytest.approx(0.72246, abs=1e-5), 1.0)
    assert stats.wilson(0, 0) == (0.0, 1.0)
    low, high = stats.wilson(15, 30)
    assert (high - low) / 2 == pytest.approx(0.168, abs=0.001)
    assert stats.wilson(5, 10, level=0.5)[0] > stats.wilson(5, 10)[0]
    for n_right, n in ((-1, 3), (4, 3)):
        with pytest.raises(ValueError, match="wanted 0 <= right <= n"):
            stats.wilson(n_right, n)


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"),
    # 2 * P(at most the smaller | n, 1/2), counted by hand
    [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 2 / 32), (8, 2, 2 * 56 / 1024), (3, 3, 1.0)],
)
def test_mcnemar_by_hand(only_a, only_b, p):
    a = [True] * only_a + [False] * only_b + [True, False, True]
    b = [False] * only_a + [True] * only_b + [True, False, True]
    assert stats.mcnemar_exact(a, b) == pytest.approx(p)
    assert stats.mcnemar_exact(b, a) == pytest.approx(p)


def test_mcnemar_as_statsmodels():
    from statsmodels.stats.contingency_tables import mcnemar

    rng = np.random.default_rng(5)
    a, b = rng.random(200) < 0.8, rng.random(200) < 0.7
    table = pd.crosstab(a, b).to_numpy()
    wanted = mcnemar(table, exact=True).pvalue
    assert 0 < wanted < 1
    assert stats.mcnemar_exact(a, b) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([True], [True, False], "got 1 and 2"),
        ([True, None], [True, False], "gap"),
        ([0.5, 1], [1, 1], "true or false"),
    ],
)
def test_mcnemar_refuses(a, b, message):
    with pytest.raises(ValueError, match=message):
        stats.mcnemar_exact(a, b)


def test_bootstrap_equals_all_samples_of_a_tiny_set():
    """With three questions all 27 samples can be listed."""
    a, b = [1, 0, 1], [0, 0, 1]
    every = [
        np.mean([(1, 0, 0)[i] for i in t])
        for t in itertools.product(range(3), repeat=3)
    ]
    difference, low, high = stats.paired_bootstrap(a, b, np.random.default_rng(0), 4000)
    assert difference == pytest.approx(1 / 3)
    assert (low, high) == tuple(
        np.quantile(every, (0.025, 0.975), method="inverted_cdf")
    )


def test_bootstrap_is_paired_and_seeded():
    rng = np.random.default_rng(2)
    a = rng.random(300) < 0.5
    b = a.copy()
    b[:30] = ~b[:30]
    difference, low, high = stats.paired_bootstrap(a, b, np.random.default_rng(1), 2000)
    # the normal approximation for the paired difference
    d = a.astype(float) - b
    half = 1.96 * d.std() / math.sqrt(len(d))
    assert difference == pytest.approx(d.mean())
    assert low == pytest.approx(d.mean() - half, abs=0.006)
    assert high == pytest.approx(d.mean() + half, abs=0.006)
    again = stats.paired_bootstrap(a, b, np.random.default_rng(1), 2000)
    assert again == (difference, low, high)
    with pytest.raises(ValueError, match="two or more"):
        stats.paired_bootstrap([1], [0], np.random.default_rng(1))


def test_holm_by_hand():
    # sorted: 0.005*4, 0.01*3, 0.03*2, 0.04*1 -> 0.02, 0.03, 0.06, max(0.06, 0.04)
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx(
        [0.03, 0.06, 0.06, 0.02]
    )
    assert stats.holm([0.6, 0.7]) == [1.0, 1.0]
    assert stats.holm([]) == []
    for wrong in (1.2, math.nan):
        with pytest.raises(ValueError, match="wanted values in"):
            stats.holm([0.1, wrong])


def test_detectable_difference_is_found_with_the_stated_power():
    """Play the study many times with the test itself."""
    n, discordant = 60, 0.4
    difference = stats.minimum_detectable_difference(n, discordant)
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(2000):
        differ = rng.random(n) < discordant
        first = rng.random(n) < 0.5 + difference / (2 * discordant)
        a, b = differ & first, differ & ~first
        found += stats.mcnemar_exact(a, b) <= 0.05
    assert found / 2000 == pytest.approx(0.8, abs=0.03)


def test_detectable_difference_edges():
    # Normal approximation, Connor 1987, for many questions
    n, discordant, z_a, z_b = 5000, 0.3, 1.95996, 0.84162
    by_formula = 0.0217
    needed = (
        z_a * math.sqrt(discordant) + z_b * math.sqrt(discordant - by_formula**2)
    ) ** 2 / by_formula**2
    assert needed == pytest.approx(n, rel=0.01)
    ours = stats.minimum_detectable_difference(n, discordant)
    assert ours == pytest.approx(by_formula, rel=0.03)
    # Below six discordant questions the exact test never reaches 0.05.
    assert math.isnan(stats.minimum_detectable_difference(5, 1.0))
    assert stats.minimum_detectable_difference(6, 1.0) < 1
    with pytest.raises(ValueError, match="wanted n >= 1"):
        stats.minimum_detectable_difference(10, 0)


def test_a_share_corrected_by_hand():
    rng = np.random.default_rng(4)
    # sensitivity 0.9, specificity 0.8: of 100 answers, 60 right and 40 wrong, the judge
    # calls 54 + 8 = 62 right, and so (0.62 + 0.8 - 1) / (0.9 + 0.8 - 1) = 0.6
    share, low, high = stats.corrected_share(62, 100, (90, 100), (40, 50), rng)
    assert share == pytest.approx(0.6)
    plain_low, plain_high = stats.wilson(62, 100)
    assert 0 < low < 0.6 < high < 1 and high - low > plain_high - plain_low
    # The delta method, all three shares uncertain:
    # variance = (0.62*0.38/100 + 0.6^2 * 0.9*0.1/100 + 0.4^2 * 0.8*0.2/50) / 0.7^2
    half = 1.96 * math.sqrt((0.002356 + 0.000324 + 0.000512) / 0.49)
    assert (high - low) / 2 == pytest.approx(half, rel=0.1)
    again = np.random.default_rng(4)
    assert stats.corrected_share(62, 100, (90, 100), (40, 50), again) == (
        share,
        low,
        high,
    )


def test_a_flawless_judge_needs_no_correction():
    rng = np.random.default_rng(4)
    found = stats.corrected_share(300, 400, (50_000, 50_000), (50_000, 50_000), rng)
    assert found == pytest.approx((0.75, *stats.wilson(300, 400)), abs=0.004)


def test_a_summary_is_corrected_row_by_row():
    summary = pd.DataFrame(
        {"reader": ["a", "none", "b"], "n_right": [62, 0, 10], "n": [100, 0, 100],
         "share": [0.62, np.nan, 0.1]}
    )  # fmt: skip
    counts = {"true_yes": 90, "false_no": 10, "true_no": 40, "false_yes": 10}
    rng = np.random.default_rng(1)
    table = stats.correct_summary(summary, counts, rng)
    # (0.62 + 0.8 - 1) / (0.9 + 0.8 - 1); (0.1 + 0.8 - 1) / ... is below 0
    assert table["reader"].tolist() == ["a", "b"]
    assert table["share"].tolist() == pytest.approx([0.42 / 0.7, 0])
    alone = stats.corrected_share(
        62, 100, (90, 100), (40, 50), np.random.default_rng(1)
    )
    assert tuple(table.iloc[0][["share", "low", "high"]]) == alone
    assert stats.correct_summary(summary[1:2], counts, rng).empty


def test_a_corrected_share_stays_within_its_range():
    rng = np.random.default_rng(4)
    # more called right than the judge's errors allow, and fewer
    assert stats.corrected_share(99, 100, (90, 100), (80, 100), rng)[::2] == (1, 1)
    assert stats.corrected_share(5, 100, (90, 100), (80, 100), rng)[:2] == (0, 0)
    # so few labelled answers that the judge may as well be guessing
    found = stats.corrected_share(5, 10, (3, 5), (3, 5), rng)
    assert found == (pytest.approx(0.5), 0, 1)


@pytest.mark.parametrize(
    ("truth", "sensitivity", "specificity"), [(0.7, 0.9, 0.8), (0.9, 0.95, 0.7)]
)
def test_the_interval_of_a_corrected_share_holds_the_truth(
    truth, sensitivity, specificity
):
    """Play it: label some answers, let the judge err, correct, and look."""
    rng = np.random.default_rng(8)
    held = 0
    for _ in range(1000):
        yes, no = rng.binomial(150, sensitivity), rng.binomial(60, specificity)
        right = rng.binomial(200, truth)
        called = rng.binomial(right, sensitivity)
        called += rng.binomial(200 - right, 1 - specificity)
        _, low, high = stats.corrected_share(
            called, 200, (yes, 150), (no, 60), rng, draws=400
        )
        held += low <= truth <= high
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((5, 10, (5, 10), (5, 10)), "no better than chance"),
        ((5, 10, (1, 10), (3, 10)), "sensitivity 0.100 and specificity 0.300"),
        ((11, 10, (9, 10), (9, 10)), "right: got 11 of 10"),
        ((5, 10, (9, 10), (0, 0)), "no: got 0 of 0"),
        ((5, 10, (-1, 10), (9, 10)), "yes: got -1 of 10"),
    ],
)
def test_a_share_that_cannot_be_corrected(counts, message):
    with pytest.raises(ValueError, match=message):
        stats.corrected_share(*counts, np.random.default_rng(1))


def rows_of(*cells):
    """Rows from (type, abstention?, status, label)."""
    return pd.DataFrame(
        [
            {
                "question_id": f"q{i}" + ("_abs" if abstention else ""),
                "question_type": kind,
                "kind": ABSTENTION if abstention else kind,
                "status": status,
                "label": label,
            }
            for i, (kind, abstention, status, label) in enumerate(cells)
        ]
    )


SSU, SSA, SSP, MS, KU, TR = QUESTION_TYPES
ROWS = rows_of(
    (SSU, False, "ok", True),
    (SSU, True, "ok", False),
    (SSA, False, "ok", True),
    (SSP, False, "failed", None),
    (SSP, False, "ok", True),
    (MS, False, "ok", None),
    (MS, False, "ok", False),
    (KU, False, "ok", True),
    (TR, False, "not run", None),
    (TR, True, "ok", True),
)


def pick(table, measure, count):
    row = table[(table["measure"] == measure) & (table["count"] == count)]
    assert len(row) == 1
    return row.iloc[0]


def test_summarise_by_hand():
    table = stats.summarise(ROWS)
    columns = ["measure", "count", "share", "low", "high", "n", "n_right"]
    assert list(table.columns) == columns
    assert len(table) == len(stats.MEASURES) * 2

    strict, lenient = (pick(table, "overall", c) for c in ("strict", "lenient"))
    assert (strict["n_right"], strict["n"], strict["share"]) == (5, 10, 0.5)
    assert (lenient["n_right"], lenient["n"]) == (5, 7)
    assert (lenient["low"], lenient["high"]) == stats.wilson(5, 7)

    # Types keep their abstention questions: 1/2, 1, 1/2, 0, 1, 1/2
    mean = pick(table, "mean over types", "strict")
    assert mean["share"] == pytest.approx((0.5 + 1 + 0.5 + 0 + 1 + 0.5) / 6)
    assert mean["n"] == 10
    # Without the rows that have no verdict: 1/2, 1, 1, 0, 1, 1
    lenient_mean = pick(table, "mean over types", "lenient")
    assert lenient_mean["share"] == pytest.approx(4.5 / 6)

    abstention = pick(table, "abstention", "strict")
    assert (abstention["n_right"], abstention["n"]) == (1, 2)
    assert pick(table, TR, "strict")["share"] == 0.5


def test_interval_of_the_mean_over_types():
    """Equal types of a good size: nearly the interval of their common share."""
    cells = [(t, False, "ok", i < 60) for t in QUESTION_TYPES for i in range(100)]
    table = stats.summarise(rows_of(*cells))
    mean, overall = (pick(table, m, "strict") for m in ("mean over types", "overall"))
    assert mean["share"] == pytest.approx(overall["share"])
    for limit in ("low", "high"):
        assert mean[limit] == pytest.approx(overall[limit], abs=0.003)
    # A small type weighs as much as a large one, so the interval widens.
    fewer = stats.summarise(rows_of(*cells[:-95]))
    fewer = pick(fewer, "mean over types", "strict")
    assert fewer["high"] - fewer["low"] > 1.3 * (mean["high"] - mean["low"])


def test_a_missing_type_leaves_no_mean_over_types():
    table = stats.summarise(ROWS[ROWS["question_type"] != KU])
    mean = pick(table, "mean over types", "strict")
    assert math.isnan(mean["share"])
    assert (mean["low"], mean["high"]) == (0, 1)
    assert not math.isnan(pick(table, "overall", "strict")["share"])


def test_summarise_by_configuration():
    both = pd.concat(
        [ROWS.assign(reader="b"), ROWS.assign(reader="a", label=False)],
        ignore_index=True,
    )
    table = stats.summarise(both, by=["reader"])
    first = table[(table["measure"] == "overall") & (table["count"] == "strict")]
    assert first[["reader", "n_right"]].to_numpy().tolist() == [["b", 5], ["a", 0]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.drop(columns="kind"), "no column kind"),
        (ROWS.assign(status="fine"), "status: got 'fine'"),
        (ROWS.assign(question_type="chat"), "question_type: got 'chat'"),
        (pd.concat([ROWS, ROWS]), "q0 comes twice"),
    ],
)
def test_summarise_refuses(rows, message):
    with pytest.raises(ValueError, match=message):
        stats.summarise(rows)


@pytest.mark.parametrize("dtype", ["object", "boolean", "float"])
def test_labels_of_every_dtype(dtype):
    rows = ROWS.assign(label=ROWS["label"].astype(dtype))
    pd.testing.assert_frame_equal(stats.summarise(rows), stats.summarise(ROWS))


def test_real_labels(shared):
    """Of 500 answers with a public label, 460 are right."""
    import json
    import lzma

    path = shared / "data" / "judged_hypotheses.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = pd.DataFrame(json.loads(line) for line in file)
    rows = rows[rows["source"] == "mentedb"].assign(status="ok")
    rows["kind"] = rows["question_type"].where(
        ~rows["question_id"].str.contains("_abs"), ABSTENTION
    )
    table = stats.summarise(rows)
    assert pick(table, "overall", "strict")["share"] == pytest.approx(0.92)
    assert pick(table, "abstention", "lenient")["n"] == 30


def scores(values, key="V"):
    return pd.DataFrame(
        {
            "question_id": [f"q{i}" for i in range(len(values))],
            "key": key,
            "recall_all@5": values,
        }
    )


def test_scores_are_compared_where_both_have_one():
    rng = np.random.default_rng(1)
    rows = pd.concat(
        [scores([1, 1, 1, 1, 1, 1, 0, np.nan], "V+fact"), scores([0] * 7 + [1])]
    )
    pairs = {"fact": ({"key": "V+fact"}, {"key": "V"})}
    (row,) = stats.compare(rows, pairs, rng, "recall_all@5").to_dict("records")
    assert row["n"] == 7  # the eighth has nothing to find on one side
    assert row["difference"] == pytest.approx(6 / 7)
    assert row["p"] == stats.mcnemar_exact([1] * 6 + [0], [0] * 7) == 0.03125
    graded = rows.assign(ndcg=rows["recall_all@5"] * 0.5)
    (row,) = stats.compare(graded, pairs, rng, "ndcg").to_dict("records")
    assert row["difference"] == pytest.approx(3 / 7)
    assert row["p"] == pytest.approx(
        2 / 2**6
    )  # of 2^7 flips, those that are as far out


def test_score_means_have_intervals_and_their_own_n():
    rows = pd.concat([scores([1, 0, np.nan, 1]), scores([0.2, 0.4, 0.6, 0.8], "fact")])
    table = stats.summarise_scores(
        rows, ["key"], ["recall_all@5"], np.random.default_rng(1)
    )
    assert table["n"].tolist() == [3, 4]
    assert table["value"].tolist() == [pytest.approx(2 / 3), pytest.approx(0.5)]
    assert tuple(table.loc[0, ["low", "high"]]) == stats.wilson(2, 3)
    assert 0.2 < table.loc[1, "low"] < 0.5 < table.loc[1, "high"] < 0.8
    with pytest.raises(ValueError, match="a question comes twice"):
        stats.summarise_scores(rows, ["question_id"], ["recall_all@5"], None)
    with pytest.raises(ValueError, match="got a gap or nothing"):
        stats.mean_interval([], None)
