"""Figures about time: a history on an axis of days, with the range of a question."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pandas as pd

from .date_words import Span
from .plots import INK, LOOKS, new_figure, style
from .plots_data import _date_axis
from .schema import Instance
from .timeline import is_near

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RANGE_COLOUR = "#F0E442"
ROWS = {"evidence": 0, "other": 1}


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """One history as `history_and_range` draws it.

    title          text above the panel
    sessions       from `in_range`
    span           the range, without the slack
    question_date  the day of the question
    """

    title: str
    sessions: pd.DataFrame
    span: Span
    question_date: date


def in_range(
    instance: Instance,
    span: Span,
    days: Mapping[int, Collection[date]],
    slack_days: int = 2,
) -> pd.DataFrame:
    """Which sessions of a history tell of a day in a range.

    days        of each session by its place, from `finding.session_times`
    slack_days  the range is widened by so many days on both sides
    returns     a row a session, in the history's order: date (its own), evidence,
                inside, and told: the day nearest to its own that is inside; None where
                that is its own date, or where none is
    """
    rows = []
    for place, entry in enumerate(instance.history):
        own = entry.date.date()
        found = [d for d in days[place] if is_near(d, span, slack_days)]
        told = min(found, key=lambda d: (abs(d - own), d), default=own)
        evidence = entry.session_id in instance.answer_session_ids
        rows.append((own, evidence, bool(found), told if told != own else None))
    return pd.DataFrame(rows, columns=["date", "evidence", "inside", "told"])


def history_and_range(panels: Sequence[TimeAxis], slack_days: int = 2) -> Figure:
    """Histories on axes of time, the range shaded: what stays in it, what falls out.

    Filled marks are sessions inside; a thin line leads from a session to the day it
    tells of where only that day is inside. A range far away is named, not drawn.
    """
    fig, axes = new_figure("wide", 0.3 + 1.5 * len(panels), nrows=len(panels),
                           squeeze=False)  # fmt: skip
    with style():
        for ax, panel in zip(axes[:, 0], panels, strict=True):
            _draw(ax, panel, slack_days)
    return fig


def _draw(ax: Axes, panel: TimeAxis, slack_days: int) -> None:
    day = timedelta(days=1)
    first, last = _limits(panel)
    ax.axvspan(panel.span.start, panel.span.end + day, color=RANGE_COLOUR, alpha=0.55,
               lw=0, zorder=0)  # fmt: skip
    for end, far in (
        (panel.span.start, -slack_days * day),
        (panel.span.end + day, slack_days * day),
    ):
        ax.axvspan(*sorted((end, end + far)), color=RANGE_COLOUR, alpha=0.25, lw=0,
                   zorder=0)  # fmt: skip
    labels = {}
    for name, row in ROWS.items():
        look = LOOKS[name]
        some = panel.sessions[panel.sessions["evidence"] == (name == "evidence")]
        for one in some.itertuples():
            ax.plot(one.date, row, look.marker, color=look.colour, zorder=3,
                    markerfacecolor=look.colour if one.inside else "white",
                    markersize=6 if name == "evidence" else 4.5)  # fmt: skip
            if one.inside and not pd.isna(one.told):
                ax.plot([one.date, one.told], [row, row], color=look.colour, lw=0.9)
                ax.plot(one.told, row, "|", color=look.colour, markersize=8)
        labels[row] = f"{name} ({int(some['inside'].sum())} of {len(some)} in)"
    ax.axvline(panel.question_date, color=INK, lw=1.0)
    ax.annotate("question", (panel.question_date, 1.55), (-3, 0), va="center",
                ha="right", textcoords="offset points", color=INK, size=7)  # fmt: skip
    if panel.span.end < first or panel.span.start > last:
        side = "left" if panel.span.end < first else "right"
        ax.annotate(f"the range lies outside, on the {side}",
                    (0.01 if side == "left" else 0.99, 0.04), ha=side,
                    xycoords="axes fraction", color=INK, size=7)  # fmt: skip
    ax.set_title(panel.title)
    ax.set_yticks(list(labels), labels.values())
    ax.set_ylim(1.9, -0.6)
    ax.set_xlim(first, last)
    ax.grid(axis="x")
    ax.grid(False, axis="y")
    _date_axis(ax)


def _limits(panel: TimeAxis) -> tuple[date, date]:
    """The days that are drawn: the history, the question, and a range that is near."""
    days = [*panel.sessions["date"], panel.question_date]
    first, last = min(days), max(days)
    near = (last - first) / 2
    if first - near <= panel.span.start < first:
        first = panel.span.start
    if last < panel.span.end <= last + near:
        last = panel.span.end
    margin = max((last - first) * 0.02, timedelta(days=3))
    return first - margin, last + margin
