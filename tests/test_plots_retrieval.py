"""The figures about finding show what they are given."""

import pandas as pd
import pytest

from lme_utils import plots_retrieval
from lme_utils.plots_retrieval import SERIES_LOOKS


def marks(ax):
    """What is drawn: label to (values, places)."""
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in ax.lines
        if not line.get_label().startswith("_")
    }


def scores(*rows):
    columns = ["panel", "group", "block", "series", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


ROWS = scores(
    ("session@5", "V", "ours", "BM25", 0.6, 0.5, 0.7),
    ("session@5", "V", "ours", "MiniLM", 0.8, 0.7, 0.9),
    ("session@5", "V, paper", "paper", "Stella", 0.7, None, None),
    ("round@5", "V", "ours", "BM25", 0.4, 0.3, 0.5),
)


def test_a_panel_a_column_and_a_row_a_group():
    fig = plots_retrieval.score_panels(ROWS, SERIES_LOOKS, "share")
    left, right = fig.axes
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["session@5", "round@5"]
    assert [t.get_text() for t in left.get_yticklabels()] == ["V", "V, paper"]
    assert {name: values for name, (values, _) in marks(left).items()} == {
        "BM25": [0.6], "MiniLM": [0.8], "Stella": [0.7],
    }  # fmt: skip
    assert set(marks(right)) == {"BM25"}
    assert (left.get_xlim(), left.get_ylim()) == ((0, 1), (1.5, -0.5))
    assert [t.get_text() for t in fig.legends[0].get_texts()] == [
        "BM25", "MiniLM", "Stella",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "place"), [(ROWS, 1.0), (ROWS.drop(columns="block"), 1.2)]
)
def test_only_series_of_a_block_make_room_for_each_other(rows, place):
    left = plots_retrieval.score_panels(rows, SERIES_LOOKS, "share").axes[0]
    (found,) = marks(left)["Stella"][1]
    assert found == pytest.approx(place)


def test_only_what_has_an_interval_gets_one():
    left = plots_retrieval.score_panels(ROWS, SERIES_LOOKS, "share").axes[0]
    drawn = [lines.get_segments()[0][:, 0].tolist() for lines in left.collections]
    assert drawn == [[0.5, 0.7], [0.7, 0.9]]


def test_differences_lie_around_zero_in_the_order_asked_for():
    rows = pd.DataFrame(
        [("session", "b", 0.1, 0.0, 0.2), ("session", "a", -0.1, -0.2, 0.0)],
        columns=["panel", "group", "value", "low", "high"],
    )
    (ax,) = plots_retrieval.difference_bars(rows, "difference", ["a", "b"]).axes
    zero, points = ax.lines
    assert list(zero.get_xdata()) == [0, 0]
    assert list(points.get_xdata()) == [-0.1, 0.1]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]


def test_published_values_and_ours_share_the_panels():
    paper = pd.DataFrame(
        [("session", "V", 0.7, 0.8), ("turn", "V", 0.5, 0.6)],
        columns=["granularity", "key", "recall_all@5", "recall_all@10"],
    )
    means = pd.DataFrame(
        [("turn", "dense", "V", "recall_all@5", 0.9, 0.8, 1.0, 20)],
        columns=["granularity", "retriever", "key", "measure", "value", "low", "high",
                 "n"],
    )  # fmt: skip
    rows = plots_retrieval.panels_of(means, paper, "key")
    assert list(dict.fromkeys(rows["panel"])) == [
        "session@5", "session@10", "round@5", "round@10",
    ]  # fmt: skip
    assert rows.query("panel == 'round@5'")["series"].tolist() == ["paper", "MiniLM"]
