"""Figures about the data: how it is made, what it holds, how it compares."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .plots import INK, LOOKS, PALE, Look, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Data sets and sources look the same in every figure of this module.
DATA_LOOKS = {
    "mini": Look("#0072B2", "D", "-", "mini"),
    "real": Look("#E69F00", "o", "-", "LongMemEval S"),
    "paper": Look("#8c8c8c", "x", ":", "paper"),
}
SOURCE_LOOKS = {
    "evidence": LOOKS["evidence"],
    "simulated": Look("#CC79A7", "o", "-", "simulated user"),
    "assistant-chat": Look("#009E73", "s", "-", "assistant chat"),
    "open-chat": Look("#E69F00", "^", "-", "open chat"),
}
SHORT = {
    "single-session-user": "single-session\nuser",
    "single-session-assistant": "single-session\nassistant",
    "single-session-preference": "single-session\npreference",
    "multi-session": "multi-session",
    "knowledge-update": "knowledge\nupdate",
    "temporal-reasoning": "temporal\nreasoning",
    "all": "all",
}


def pipeline(stages: Sequence[tuple[str, str, str]]) -> Figure:
    """The stages of data construction as boxes in a row (paper, Figure 2).

    stages  (name, count, what it is) each
    """
    fig, ax = new_figure("wide", 1.75)
    with style():
        n = len(stages)
        for i, (name, count, what) in enumerate(stages):
            ax.add_patch(_box(i + 0.06, 0.0, 0.8, 1.0))
            ax.text(
                i + 0.46, 0.84, name, ha="center", va="center", weight="bold", size=7
            )
            ax.text(i + 0.46, 0.62, count, ha="center", va="center", size=12,
                    color=LOOKS["evidence"].colour)  # fmt: skip
            ax.text(i + 0.46, 0.27, textwrap.fill(what, 18), ha="center", va="center",
                    size=6.5, color=INK)  # fmt: skip
            if i < n - 1:
                ax.annotate("", (i + 1.05, 0.5), (i + 0.87, 0.5),
                            arrowprops={"arrowstyle": "->", "color": INK})  # fmt: skip
        ax.set_xlim(0, n - 0.08)
        ax.set_ylim(-0.03, 1.03)
        ax.axis("off")
    return fig


def _box(x: float, y: float, width: float, height: float):
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.04",
        facecolor=PALE, edgecolor="#c8c8c8",
    )  # fmt: skip


def composition(shares: pd.DataFrame) -> Figure:
    """Question types, evidence sessions, round of the evidence (paper, Figure 9).

    shares  columns measure (three values, a panel each), group, value, low, high and
            dataset ("mini", "real" or "paper"); low and high may be missing
    """
    measures = list(dict.fromkeys(shares["measure"]))
    fig, axes = new_figure("wide", 2.6, ncols=3, width_ratios=[1.5, 1, 1])
    with style():
        for ax, measure in zip(axes, measures, strict=True):
            rows = shares[shares["measure"] == measure]
            found = set(rows["group"])
            groups = [g for g in SHORT if g in found] or sorted(found)
            grouped_dots(ax, rows, groups, horizontal=measure == measures[0])
            ax.set_title(measure)
        axes[1].set_ylabel("share")
        axes[0].set_xlabel("share of questions")
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper right", ncols=3)
    return fig


def grouped_dots(
    ax: Axes,
    rows: pd.DataFrame,
    groups: Sequence[str],
    horizontal: bool,
    series: str = "dataset",
    looks: Mapping[str, Look] = DATA_LOOKS,
) -> None:
    """A mark for each series in each group, with its interval where it has one.

    rows    columns group, value, low, high, and `series`, whose values `looks` knows
    groups  in order; a row of marks (or a column) each
    """
    names = [name for name in looks if name in set(rows[series])]
    for place, name in enumerate(names):
        look = looks[name]
        one = rows[rows[series] == name].set_index("group").reindex(groups)
        at = np.arange(len(groups)) + 0.2 * (place - (len(names) - 1) / 2)
        known = one["value"].notna().to_numpy()
        lines = ax.hlines if horizontal else ax.vlines
        if one["low"].notna().any():
            lines(at[known], one["low"][known], one["high"][known],
                  color=look.colour, lw=1.2)  # fmt: skip
        xy = (one["value"][known], at[known])
        ax.plot(*(xy if horizontal else xy[::-1]), look.marker, color=look.colour,
                label=look.label, markersize=4.5, clip_on=False)  # fmt: skip
    texts = [SHORT.get(group, group) for group in groups]
    if horizontal:
        ax.set_yticks(range(len(groups)), texts)
        ax.invert_yaxis()
        ax.set_xlim(0, None)
        ax.grid(axis="x")
        ax.grid(False, axis="y")
    else:
        ax.set_xticks(range(len(groups)), [t.replace(" or ", "\nor ") for t in texts])
        ax.set_ylim(0, None)


def recall_by_type(recall: pd.DataFrame) -> Figure:
    """Retrieval difficulty of two data sets, by type: four panels, one axis.

    recall  columns retriever, level, group (question type or "all"), dataset ("mini"
            or "real"), value, low, high
    """
    panels = list(dict.fromkeys(zip(recall["retriever"], recall["level"], strict=True)))
    fig, axes = new_figure("wide", 3.4, ncols=len(panels), sharey=True, sharex=True)
    groups = [g for g in SHORT if g in set(recall["group"])]
    with style():
        for ax, (retriever, level) in zip(axes, panels, strict=True):
            rows = recall[
                (recall["retriever"] == retriever) & (recall["level"] == level)
            ]
            grouped_dots(ax, rows, groups, horizontal=True)
            name = LOOKS[retriever].label
            ax.set_title(f"{name}, {'round' if level == 'turn' else level}")
            ax.set_xlim(0, 1.02)
            ax.axhspan(len(groups) - 1.5, len(groups) - 0.5, color=PALE, zorder=0)
        axes[0].set_ylim(len(groups) - 0.5, -0.5)
        fig.supxlabel("share of questions with all evidence among the first 5", size=8)
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper right", ncols=2)
    return fig


def history_in_time(
    sessions: Sequence[tuple[datetime, str]], question_date: datetime
) -> Figure:
    """One history: a mark for each session at its time, by source; the question last.

    sessions  (time, "evidence" or a source) each
    """
    fig, ax = new_figure("wide", 1.5)
    with style():
        names = [n for n in SOURCE_LOOKS if n in {source for _, source in sessions}]
        for row, name in enumerate(names):
            look = SOURCE_LOOKS[name]
            dates = [date for date, source in sessions if source == name]
            ax.plot(dates, [row] * len(dates), look.marker, color=look.colour,
                    markersize=6 if name == "evidence" else 4.5)  # fmt: skip
        ax.axvline(question_date, color=INK, lw=1.0)
        ax.annotate("question", (question_date, -0.4), (-3, 0), ha="right",
                    textcoords="offset points", va="center", color=INK)  # fmt: skip
        counts: Mapping[str, int] = {
            n: sum(source == n for _, source in sessions) for n in names
        }
        ax.set_yticks(
            range(len(names)), [f"{SOURCE_LOOKS[n].label} ({counts[n]})" for n in names]
        )
        ax.set_ylim(len(names) - 0.5, -0.8)
        ax.grid(axis="x")
        ax.grid(False, axis="y")
        _date_axis(ax)
    return fig


def _date_axis(ax: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def vocabulary_growth(growth: pd.DataFrame) -> Figure:
    """Distinct words against words read, both on logarithmic axes.

    growth  columns dataset, words (read), value (distinct words)
    """
    from matplotlib.ticker import NullFormatter

    fig, ax = new_figure("column", 2.2)
    with style():
        for name, rows in growth.groupby("dataset", sort=False):
            look = DATA_LOOKS[name]
            ax.plot(rows["words"], rows["value"], look.dash, marker=look.marker,
                    color=look.colour, label=look.label)  # fmt: skip
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(sorted(set(growth["words"])))
        ticks = [2_000, 5_000, 10_000, 20_000, 40_000]
        ax.set_yticks([t for t in ticks if t <= 1.3 * growth["value"].max()])
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda x, _: f"{x:,.0f}")
            axis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("words read")
        ax.set_ylabel("distinct words")
        ax.legend()
    return fig
