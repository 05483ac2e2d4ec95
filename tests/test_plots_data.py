"""The figures about the data show what they are given."""

from datetime import datetime

import pandas as pd

from lme_utils import plots_data


def texts(fig):
    fig.draw_without_rendering()
    return [t.get_text() for t in fig.findobj(lambda o: hasattr(o, "get_text"))]


def dots(rows):
    columns = ("measure", "group", "value", "low", "high", "dataset")
    return pd.DataFrame(rows, columns=columns)


def test_the_pipeline_names_every_stage_and_count():
    shown = texts(plots_data.pipeline([("1 a", "164", "what"), ("2 b", "7", "how")]))
    assert {"1 a", "164", "2 b", "7"} <= set(shown)


def test_composition_has_a_panel_a_measure_and_groups_in_order():
    rows = [
        ("question type", "multi-session", 0.5, 0.4, 0.6, "mini"),
        ("question type", "single-session-user", 0.5, 0.4, 0.6, "mini"),
        ("question type", "multi-session", 0.3, None, None, "paper"),
        ("evidence sessions", "2", 0.7, 0.6, 0.8, "mini"),
        ("evidence sessions", "1", 0.3, 0.2, 0.4, "real"),
        ("round of the evidence", "1", 0.7, 0.6, 0.8, "mini"),
    ]
    fig = plots_data.composition(dots(rows))
    first, second, _ = fig.axes
    assert [t.get_text() for t in first.get_yticklabels()] == [
        "single-session\nuser", "multi-session",
    ]  # fmt: skip
    assert [t.get_text() for t in second.get_xticklabels()] == ["1", "2"]
    assert {line.get_label() for line in first.lines} == {"mini", "paper"}
    values = {line.get_label(): list(line.get_xdata()) for line in first.lines}
    assert values == {"mini": [0.5, 0.5], "paper": [0.3]}


def test_recall_has_a_panel_for_each_retriever_and_level():
    recall = pd.DataFrame(
        [
            (retriever, level, group, dataset, 0.5, 0.4, 0.6)
            for retriever in ("bm25", "dense")
            for level in ("session", "turn")
            for group in ("knowledge-update", "all")
            for dataset in ("mini", "real")
        ],
        columns=["retriever", "level", "group", "dataset", "value", "low", "high"],
    )
    fig = plots_data.recall_by_type(recall)
    assert [ax.get_title(loc="left") for ax in fig.axes] == [
        "BM25, session", "BM25, round", "dense, session", "dense, round",
    ]  # fmt: skip
    assert fig.axes[0].get_xlim()[0] == 0


def test_a_history_has_a_row_a_source_and_the_question_last():
    days = [datetime(2024, 3, d) for d in (1, 4, 9)]
    marks = list(zip(days, ("open-chat", "evidence", "open-chat"), strict=True))
    fig = plots_data.history_in_time(marks, datetime(2024, 3, 20))
    labels = [t.get_text() for t in fig.axes[0].get_yticklabels()]
    assert labels == ["evidence (1)", "open chat (2)"]
    assert "question" in texts(fig)


def test_vocabulary_is_drawn_for_both():
    growth = pd.DataFrame(
        {"dataset": ["mini", "mini", "real", "real"],
         "words": [10_000, 30_000] * 2, "value": [2000, 4000, 2500, 5200]}
    )  # fmt: skip
    fig = plots_data.vocabulary_growth(growth)
    (ax,) = fig.axes
    assert [list(line.get_ydata()) for line in ax.lines] == [[2000, 4000], [2500, 5200]]
    assert "10,000" in texts(fig)
