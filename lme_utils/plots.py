"""Figures of the notebooks: one style, one look per system, saved with their numbers.

Drawing does not touch global settings: each function works inside `lme.mplstyle`, on
figures that pyplot does not know, so a notebook shows what `save_figure` returns.
"""

from __future__ import annotations

import base64
import html
import io
import re
import textwrap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from IPython.display import HTML
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .provenance import Run

STYLE = Path(__file__).parent / "lme.mplstyle"
WIDTHS_IN = {"column": 3.4, "wide": 7.0}
GREY, PALE, INK = "#8c8c8c", "#f4f4f4", "#333333"


class Look(NamedTuple):
    """How one system is drawn, in every figure."""

    colour: str
    marker: str
    dash: str
    label: str


LOOKS = {
    "direct": Look("#D55E00", "o", "--", "direct"),
    "con": Look("#0072B2", "s", "-", "CoN"),
    "con-separate": Look("#009E73", "^", "-.", "CoN, item by item"),
    "oracle": Look("#000000", "*", ":", "oracle"),
    "bm25": Look("#E69F00", "v", "--", "BM25"),
    "dense": Look("#0072B2", "D", "-", "dense"),
    "evidence": Look("#0072B2", "D", "-", "evidence"),
    "other": Look("#8c8c8c", "o", "-", "other session"),
}
LAYOUTS = {"nl": "text", "json": "JSON"}


def style() -> AbstractContextManager[None]:
    """The look of `lme.mplstyle`, for as long as the `with` block lasts."""
    import matplotlib.style

    return matplotlib.style.context(["default", STYLE])


def new_figure(
    kind: Literal["column", "wide"] = "column",
    height_in: float = 2.3,
    **subplots: Any,
) -> tuple[Figure, Any]:
    """A figure and its axes: 3.4 in wide for one column, 7.0 in for the page.

    subplots  as for `Figure.subplots`: nrows, ncols, sharey, width_ratios ...
    returns   (figure, axes); axes is one or an array, as `Figure.subplots` gives them

    >>> fig, ax = new_figure("wide", height_in=2.0)
    >>> [float(x) for x in fig.get_size_inches()]
    [7.0, 2.0]
    """
    from matplotlib.figure import Figure

    with style():
        fig = Figure(figsize=(WIDTHS_IN[kind], height_in))
        return fig, fig.subplots(**subplots)


def reading_ablation(summary: pd.DataFrame, paper: pd.DataFrame) -> Figure:
    """How well readers answer from evidence alone, by layout and method (Figure 6).

    summary  columns reader, layout ("nl" or "json"), method ("direct" or "con"), share,
             low, high, n: our readers, a panel each, in the order they come
    paper    columns reader, layout, method, value: the published values, in grey

    All panels share one axis from 0 to 1. Intervals are ours only: the paper has none.
    """
    published = paper.rename(columns={"value": "share"})
    panels = [(reader, rows, True) for reader, rows in _by_reader(summary)]
    panels += [(reader, rows, False) for reader, rows in _by_reader(published)]
    last = [i in (summary["reader"].nunique() - 1, len(panels) - 1)
            for i in range(len(panels))]  # fmt: skip
    fig, axes = new_figure(
        "wide",
        2.7,
        ncols=len(panels),
        sharey=True,
        width_ratios=[4.0 if named else 3.0 for named in last],
    )
    with style():
        for ax, (reader, rows, ours), named in zip(axes, panels, last, strict=True):
            _reading_panel(ax, rows, ours, named)
            below = _n_text(rows["n"]) if ours else "paper, Fig. 6"
            ax.set_title(textwrap.fill(reader, 15), pad=16)
            ax.text(0, 1.055, below, transform=ax.transAxes, color=INK)
        axes[0].set_ylim(0, 1)
        axes[0].set_ylabel("share of questions right")
        axes[0].tick_params(axis="y", labelleft=True)
        axes[0].set_xlabel("layout of the history", loc="left")
    return fig


def _by_reader(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return list(rows.groupby("reader", sort=False))


def _reading_panel(ax: Axes, rows: pd.DataFrame, ours: bool, named: bool) -> None:
    """A line per method from the text layout to the JSON layout, with its values."""
    lines = {
        method: rows[rows["method"] == method].set_index("layout").reindex(LAYOUTS)
        for method in LOOKS
        if method in set(rows["method"])
    }
    for place, (method, line) in enumerate(lines.items()):
        look = LOOKS[method]
        colour, dash = (look.colour, look.dash) if ours else (GREY, ":")
        x = np.arange(len(LAYOUTS)) + 0.14 * (place - (len(lines) - 1) / 2)
        if ours:
            ax.vlines(x, line["low"], line["high"], color=colour, lw=1.0, alpha=0.5)
        fill = "white" if method == "direct" else colour
        ax.plot(x, line["share"], dash, marker=look.marker, color=colour,
                markerfacecolor=fill, clip_on=False, zorder=3)  # fmt: skip
    for layout, x, side in (("nl", -0.22, "right"), ("json", 1.22, "left")):
        shares = {m: line.loc[layout, "share"] for m, line in lines.items()}
        shares = {m: share for m, share in shares.items() if not np.isnan(share)}
        for (method, share), y in zip(
            shares.items(), _spread([*shares.values()]), strict=True
        ):
            name = f" {LOOKS[method].label}" if named and layout == "json" else ""
            colour = LOOKS[method].colour if ours else "#6e6e6e"
            ax.text(x, y, f"{share:.2f}{name}", ha=side, va="center", size=7,
                    color=colour, in_layout=False)  # fmt: skip
    ax.set_xlim(-1.0, 3.0 if named else 2.0)
    ax.set_xticks(range(len(LAYOUTS)), LAYOUTS.values())
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0, labelleft=False)
    if not ours:
        ax.set_facecolor(PALE)
        ax.grid(axis="y", color="white")


def ranking_strip(ranking: pd.DataFrame) -> Figure:
    """The sessions of one question by score, best on top, evidence marked.

    ranking  columns rank (from 1), score, label (text) and gold (True: evidence)

    Every session has its label up to 20 of them; beyond that, evidence only.
    """
    ranking = ranking.sort_values("rank")
    gold = ranking["gold"].to_numpy(bool)
    few = len(ranking) <= 20
    fig, ax = new_figure("wide", 0.8 + len(ranking) * (0.19 if few else 0.085))
    with style():
        ax.hlines(ranking["rank"], 0, ranking["score"], color="#d0d0d0", lw=1.0)
        for name, rows in (("evidence", ranking[gold]), ("other", ranking[~gold])):
            look, bold = LOOKS[name], name == "evidence"
            ax.plot(rows["score"], rows["rank"], look.marker, color=look.colour,
                    markerfacecolor=look.colour if bold else "white",
                    markersize=6 if bold else 4.5)  # fmt: skip
            for row in rows.iloc[[0 if bold else -1]].itertuples() if len(rows) else ():
                ax.annotate(look.label, (max(0, row.score), row.rank), (7, 0),
                            textcoords="offset points", va="center_baseline",
                            color=look.colour if bold else INK,
                            weight="bold" if bold else "normal")  # fmt: skip
        named = ranking[gold | few]
        ax.set_yticks(named["rank"], [_rank_label(row) for row in named.itertuples()])
        for tick, is_gold in zip(ax.get_yticklabels(), named["gold"], strict=True):
            tick.set(color=LOOKS["evidence"].colour if is_gold else INK)
            tick.set(weight="bold" if is_gold else "normal", size=8 if few else 6)
        ax.set_ylim(len(ranking) + 0.7, 0.3)
        low, high = min(0, ranking["score"].min()), max(0, ranking["score"].max())
        ax.set_xlim(low - 0.02 * (high - low), high + 0.12 * (high - low))
        ax.set_xlabel("retrieval score")
        ax.set_title(f"{len(ranking)} sessions in rank order")
        ax.grid(axis="x")
        ax.grid(False, axis="y")
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
    return fig


def _rank_label(row: Any) -> str:
    return f"{textwrap.shorten(str(row.label), 48, placeholder='…')}   {row.rank}"


def save_figure(fig: Figure, name: str, alt: str, data: pd.DataFrame, run: Run) -> HTML:
    """Write a figure with its numbers and provenance, and show it in the notebook.

    alt   what the picture says, for those who cannot see it
    data  the plotted numbers

    Writes `name.svg`, `.png` (300 dpi), `.pdf`, `.alt.txt`, `.csv` and `.json` into the
    run's figures. The files hold no date and no random id: bytes change only when the
    picture does. The profile is written below the picture.
    """
    from IPython.display import HTML

    if not alt.strip():
        raise ValueError(
            f"figure {name}: got no alt text, wanted what the picture says"
        )
    alt = " ".join(alt.split())
    with style():
        _footer(fig, run.about)
        for end, metadata in {
            "svg": {"Date": None, "Creator": None, "Description": alt},
            "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
            "png": {"Software": None, "Description": alt},
        }.items():
            run.write(f"{name}.{end}", _render(fig, end, metadata))
        screen = _few_colours(_render(fig, "png", {"Software": None}, dpi=160))
    run.write(f"{name}.alt.txt", alt + "\n")
    run.write(f"{name}.csv", data.to_csv(index=False, lineterminator="\n"))
    run.write_stamp(name, alt=alt)
    width_px = round(fig.get_figwidth() * 110)
    return HTML(
        f'<img alt="{html.escape(alt)}" width="{width_px}" '
        f'src="data:image/png;base64,{base64.b64encode(screen).decode()}">'
    )


def _render(fig: Figure, end: str, metadata: dict, dpi: int = 300) -> bytes:
    file = io.BytesIO()
    fig.savefig(file, format=end, metadata=metadata, dpi=dpi)
    return _name_clips(file.getvalue()) if end == "svg" else file.getvalue()


def _name_clips(svg: bytes) -> bytes:
    """The picture with its clip paths numbered: some names hold a memory address."""
    names = re.findall(rb'<clipPath id="(p[0-9a-f]{10})"', svg)
    for number, name in enumerate(dict.fromkeys(names), 1):
        svg = svg.replace(name, b"clip%d" % number)
    return svg


def _few_colours(png: bytes) -> bytes:
    """The picture with 128 colours: a third of the size, no difference to the eye."""
    from PIL import Image

    file = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").quantize(128).save(file, "PNG", optimize=True)
    return file.getvalue()


def _footer(fig: Figure, text: str) -> None:
    """A grey line under the picture, with room made for it."""
    height = 0.16 / fig.get_figheight()
    fig.get_layout_engine().set(rect=(0, height, 1, 1 - height))
    fig.text(0.995, 0.25 * height, text, ha="right", va="bottom", size=6, color=GREY)


def _spread(values: Sequence[float], gap: float = 0.075) -> list[float]:
    """Heights for labels: near their values, in [0.03, 1], at least `gap` apart.

    >>> [round(y, 3) for y in _spread([0.50, 0.515, 0.90])]
    [0.47, 0.545, 0.9]
    >>> _spread([1.0, 1.0])
    [0.925, 1.0]
    """
    order = np.argsort(values, kind="stable")
    heights = np.clip(np.array(values, dtype=float), 0.03, 1)
    for below, above in pairwise(order):
        short = gap - (heights[above] - heights[below])
        if short > 0:
            up = min(short / 2, 1 - heights[above])
            up = max(up, short - (heights[below] - 0.03))
            heights[above] += up
            heights[below] -= short - up
    return heights.tolist()


def _n_text(n: pd.Series) -> str:
    low, high = int(n.min()), int(n.max())
    return f"n = {low:,}" if low == high else f"n = {low:,} to {high:,}"
