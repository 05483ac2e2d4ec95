"""The published numbers: whole answers behind the shares, drops, sums."""

from fractions import Fraction
from itertools import product

import pandas as pd
import pytest

from lme_utils.config import ROOT
from lme_utils.schema import KINDS

PAPER = ROOT / "data" / "paper"
ASKED = 97  # questions asked of the assistants (§3.4, appendix B)


def printed(name):
    """A table as text, so that no digit gets lost; empty cells are empty."""
    path = PAPER / f"{name}.csv"
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def rounds_to(value, text):
    """Whether `value` rounds to the printed `text`; a half may go either way."""
    half = Fraction(1, 2 * 10 ** len(text.split(".")[1]))
    return abs(value - Fraction(text)) <= half


def counts(text, n):
    """Numbers of right answers out of n that the printed share allows."""
    return [k for k in range(n + 1) if rounds_to(Fraction(k, n), text)]


def splits():
    """Appendix B: questions by ability, IE, MR, KU, TR, that Table 7 allows.

    Every share of an ability is a whole number of its questions, and there are 97
    in all. The value lists, for each assistant, the answers right in all.
    """
    shares = printed("table7").pivot(
        index=["system", "model"], columns="ability", values="share"
    )[["IE", "MR", "KU", "TR"]]
    sizes = [
        [n for n in range(1, ASKED) if all(counts(text, n) for text in column)]
        for _, column in shares.items()
    ]
    found = {}
    for split in product(*sizes):
        if sum(split) == ASKED:
            found[split] = {
                assistant: {
                    sum(right)
                    for right in product(*map(counts, shares.loc[assistant], split))
                }
                for assistant in shares.index
            }
    return found


def test_counts_by_hand():
    assert counts("0.813", 16) == [13]  # .8125, a half
    assert counts("0.043", 23) == [1]  # .0435
    assert counts("0.5", 4) == [2]
    assert counts("0.5", 20) == [9, 10, 11]  # .45, .50, .55
    assert counts("0.647", 33) == []  # 21 of 33 is .636, 22 is .667


def test_table7_leaves_one_split_of_the_97_questions():
    assert splits() == {
        (16, 34, 24, 23): {
            ("ChatGPT", "GPT-4o"): {11 + 15 + 20 + 10},
            ("ChatGPT", "GPT-4o-mini"): {16 + 22 + 16 + 15},
            ("Coze", "GPT-3.5-turbo"): {10 + 4 + 9 + 1},
            ("Coze", "GPT-4o"): {13 + 5 + 5 + 9},
        }
    }


def test_figure3a_is_the_sum_of_table7():
    (right,) = splits().values()
    figure = printed("figure3a").set_index(["system", "model"])["accuracy"]
    offline = figure.pop(("offline reading", "GPT-4o"))
    for assistant, text in figure.items():
        assert set(counts(text, ASKED)) == right.pop(assistant)
    assert not right
    # not a whole number of 97, nor of anything up to 120 but these
    assert [n for n in range(1, 121) if counts(offline, n)] == [49, 98]


def test_figure3b_drops_follow_from_the_shares():
    table = printed("figure3b")
    whole = table.pivot(index=["reader", "method"], columns="history")
    assert (table[table["history"] == "oracle"]["drop"] == "").all()
    assert len(whole) == 10
    off = {}
    for row in whole.index:
        oracle, s = (Fraction(whole.loc[row, ("value", h)]) for h in ("oracle", "s"))
        drop = whole.loc[row, ("drop", "s")]
        if not rounds_to((oracle - s) / oracle, drop):
            off[row] = (drop, f"{float((oracle - s) / oracle):.4f}")
    assert off == {("Phi-3.5 Mini 4B", "direct"): ("0.481", "0.4818")}


def test_table6_averages():
    table = printed("table6").astype({"agree": int, "of": int})
    assert table.groupby("reader")["kind"].agg(tuple).tolist() == [KINDS, KINDS]
    assert (table["of"] == 30).all()
    sums = table.groupby("reader")["agree"].sum()
    assert sums.to_dict() == {"gpt-4o": 206, "llama-3.1-8b": 204}  # of 210
    assert rounds_to(Fraction(206, 210), "0.98")
    assert rounds_to(Fraction(204, 210), "0.97")


def test_table8_has_every_setting_of_every_reader():
    table = printed("table8")
    settings = table.groupby("reader", sort=False)[["history", "key", "method"]].apply(
        lambda rows: list(rows.itertuples(index=False, name=None))
    )
    assert len(settings) == 5
    assert all(
        rows
        == [
            ("oracle", "", "direct"),
            ("oracle", "", "con"),
            ("s", "", "direct"),
            ("s", "", "con"),
            ("s", "V", ""),
            ("s", "V+fact", ""),
            ("m", "V", ""),
            ("m", "V+fact", ""),
        ]
        for rows in settings
    )
    # V+fact above V for each reader, in both histories
    memory = table[table["key"] != ""].astype({"value": float})
    wide = memory.pivot(index=["reader", "history"], columns="key", values="value")
    assert (wide["V+fact"] > wide["V"]).all()


@pytest.mark.skipif(
    not (PAPER / "figure14.csv").exists(), reason="data/paper/figure14.csv is missing"
)
def test_figure14_labels_sum_to_one():
    table = printed("figure14")
    sums = table.groupby("reader")["share"].agg(lambda cells: sum(map(Fraction, cells)))
    assert len(sums) == 3
    assert (table.groupby("reader").size() == 4).all()
    assert (sums == 1).all()
