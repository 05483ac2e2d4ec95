"""Figures about finding: scores of configurations beside each other and the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .plots import GREY, INK, PALE, Look, new_figure, style
from .plots_data import grouped_dots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = Look(GREY, "x", ":", "paper")
# Series keep their look in every figure of this module.
SERIES_LOOKS = {
    "BM25": Look("#E69F00", "v", "--", "BM25"),
    "BM25, words": Look("#D55E00", "^", "--", "BM25, words"),
    "MiniLM": Look("#0072B2", "D", "-", "MiniLM"),
    "mpnet": Look("#009E73", "s", "-", "mpnet"),
    "Contriever": Look("#56B4E9", "P", "-", "Contriever"),
    "Stella": Look("#CC79A7", "o", "-", "Stella"),
}


def score_panels(
    rows: pd.DataFrame,
    looks: Mapping[str, Look],
    xlabel: str,
    height_in: float = 3.0,
) -> Figure:
    """Scores in [0, 1]: a panel a column of a table, a row of marks a configuration.

    rows   columns panel, group, series, value, low, high; low and high may be missing
           (a published value has none). Panels and groups keep their order. A column
           block, where there is one, says which series are spread over a row together
    looks  how each series is drawn
    """
    panels = list(dict.fromkeys(rows["panel"]))
    groups = list(dict.fromkeys(rows["group"]))
    fig, axes = new_figure("wide", height_in, ncols=len(panels), sharey=True)
    with style():
        for ax, panel in zip(np.atleast_1d(axes), panels, strict=True):
            here = rows[rows["panel"] == panel]
            for _, block in here.groupby("block") if "block" in here else [("", here)]:
                grouped_dots(ax, block, groups, True, "series", looks)
            ax.set_title(panel)
            ax.set_xlim(0, 1)
            ax.set_ylim(len(groups) - 0.5, -0.5)
            for place in range(0, len(groups), 2):
                ax.axhspan(place - 0.5, place + 0.5, color=PALE, zorder=0)
        fig.supxlabel(xlabel, size=8)
        found = {
            label: handle
            for ax in np.atleast_1d(axes)
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
        }
        fig.legend(
            found.values(), found.keys(), loc="outside upper right", ncols=len(found)
        )
    return fig


def difference_bars(
    rows: pd.DataFrame, xlabel: str, groups: Sequence[str], height_in: float = 2.3
) -> Figure:
    """Differences with intervals around a line at zero: a panel a column of a table.

    rows    columns panel, group, value, low, high
    groups  from top to bottom
    """
    panels = list(dict.fromkeys(rows["panel"]))
    fig, axes = new_figure(
        "wide", height_in, ncols=len(panels), sharex=True, sharey=True
    )
    with style():
        for ax, panel in zip(np.atleast_1d(axes), panels, strict=True):
            one = rows[rows["panel"] == panel].set_index("group").reindex(groups)
            at = np.arange(len(groups))
            ax.axvline(0, color=INK, lw=0.8)
            ax.hlines(at, one["low"], one["high"], color="#0072B2", lw=1.2)
            ax.plot(one["value"], at, "D", color="#0072B2", markersize=4.5)
            ax.set_title(panel)
            ax.set_yticks(at, groups)
            ax.set_ylim(len(groups) - 0.5, -0.5)
            ax.grid(axis="x")
            ax.grid(False, axis="y")
        fig.supxlabel(xlabel, size=8)
    return fig


def panels_of(
    means: pd.DataFrame, paper: pd.DataFrame, group: str, measure: str = "recall_all"
) -> pd.DataFrame:
    """Means of ours and published values as rows for `score_panels`.

    means    from `stats.summarise_scores`, with columns granularity, retriever, `group`
    paper    columns granularity, `group`, and the measure at 5 and 10
    returns  panels session@5, session@10, round@5, round@10; the paper's groups first
    """
    measures = [f"{measure}@5", f"{measure}@10"]
    published = paper.melt(["granularity", group], measures, "measure")
    names = {"dense": "MiniLM", "bm25": "BM25", "bm25-words": "BM25, words"}
    ours = means.assign(series=means["retriever"].map(lambda r: names.get(r, r)))
    rows = pd.concat([published.assign(series="paper"), ours])
    rows = rows[rows["measure"].isin(measures)].rename(columns={group: "group"})
    levels = rows["granularity"].replace({"turn": "round"})
    rows["panel"] = levels + rows["measure"].str.removeprefix(measure)
    places = ["session@5", "session@10", "round@5", "round@10"]
    groups = list(dict.fromkeys(rows["group"]))
    rows = rows.sort_values("group", key=lambda g: g.map(groups.index), kind="stable")
    rows = rows.sort_values("panel", key=lambda p: p.map(places.index), kind="stable")
    return rows[["panel", "group", "series", "value", "low", "high", "n"]]
