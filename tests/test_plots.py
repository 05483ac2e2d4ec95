"""Figures and tables: their files, their numbers, and that they stay the same."""

import base64
import io
import json
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest

from lme_utils import plots, tables
from lme_utils.config import ROOT
from lme_utils.provenance import start_run

PAPER = pd.read_csv(ROOT / "data" / "paper" / "figure6.csv")
SUMMARY = pd.DataFrame(
    [
        (reader, layout, method, share, share - 0.1, share + 0.05, 14)
        for reader, base in (("Small 1B", 0.4), ("Large 8B", 0.6))
        for layout, method, share in (
            ("nl", "direct", base),
            ("json", "direct", base - 0.05),
            ("nl", "con", base + 0.05),
            ("json", "con", base + 0.2),
        )
    ],
    columns=["reader", "layout", "method", "share", "low", "high", "n"],
)
RANKING = pd.DataFrame(
    {
        "rank": [1, 2, 3],
        "score": [7.5, 3.0, -0.5],
        "label": ["a trip for $40 to $50", "shoes", "taxes"],
        "gold": [False, True, False],
    }
)


@pytest.fixture
def run(tmp_path):
    run = start_run("06_reading", "mini", tmp_path, settings={"seed": 1})
    run.count_answers(["recorded"] * 56)
    return run


def texts(fig):
    from matplotlib.text import Text

    return [t.get_text() for t in fig.findobj(Text) if t.get_visible()]


def test_paper_values():
    assert len(PAPER) == 12
    assert not PAPER.duplicated(["reader", "layout", "method"]).any()
    value = PAPER.set_index(["reader", "layout", "method"])["value"]
    # The spread of GPT-4o that the paper speaks of: ten points
    assert value["GPT-4o"].max() - value["GPT-4o"].min() == pytest.approx(0.102)
    assert value["GPT-4o", "json", "con"] == 0.924
    best = value.groupby("reader").idxmax()
    assert {key[1:] for key in best} == {("json", "con")}


def test_reading_ablation_shows_every_number():
    fig = plots.reading_ablation(SUMMARY, PAPER)
    axes = fig.axes
    titles = [ax.get_title(loc="left") for ax in axes]
    assert titles == ["Small 1B", "Large 8B", "GPT-4o", "Llama 3.1 70B", "Llama 3.1 8B"]
    assert {ax.get_ylim() for ax in axes} == {(0.0, 1.0)}
    drawn = {(t, y) for t, ax in zip(titles, axes, strict=True)
             for line in ax.get_lines() for y in line.get_ydata()}  # fmt: skip
    wanted = set(zip(SUMMARY["reader"], SUMMARY["share"], strict=True))
    wanted |= set(zip(PAPER["reader"], PAPER["value"], strict=True))
    assert drawn == wanted
    # Intervals belong to our panels only: two ends of four bars each
    ends = [[s[:, 1].tolist() for c in ax.collections for s in c.get_segments()]
            for ax in axes]  # fmt: skip
    assert [len(e) for e in ends] == [4, 4, 0, 0, 0]
    assert sorted(map(tuple, np.round(ends[0], 6).tolist()))[0] == (0.25, 0.4)
    assert {"n = 14", "0.80 CoN", "0.55 direct", "0.92"} <= set(texts(fig))


def test_reading_ablation_survives_gaps_and_extremes(run):
    rows = SUMMARY.iloc[[0, 2, 3]].assign(share=[1.0, 1.0, 0.0], low=0.0, high=1.0)
    fig = plots.reading_ablation(rows, PAPER)
    plots.save_figure(fig, "edge", "edge case", rows, run)
    assert "0.00 CoN" in texts(fig)
    assert not any("nan" in text for text in texts(fig))


def test_ranking_marks_evidence_by_shape_and_word():
    fig = plots.ranking_strip(RANKING.sample(frac=1, random_state=1))
    (ax,) = fig.axes
    marks = {line.get_marker(): line.get_xydata().tolist() for line in ax.get_lines()}
    assert marks == {"D": [[3.0, 2.0]], "o": [[7.5, 1.0], [-0.5, 3.0]]}
    assert {"evidence", "other session"} <= set(texts(fig))
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels[0] == "a trip for $40 to $50   1"
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # rank 1 on top


def test_long_ranking_names_evidence_only():
    n = 48
    ranking = pd.DataFrame(
        {
            "rank": range(1, n + 1),
            "score": np.linspace(1, 0, n),
            "label": [f"session {i}" for i in range(n)],
            "gold": [i in (3, 30) for i in range(n)],
        }
    )
    (ax,) = plots.ranking_strip(ranking).axes
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "session 3   4",
        "session 30   31",
    ]


@pytest.mark.parametrize("draw", ["reading", "ranking"])
def test_two_runs_write_the_same_bytes(tmp_path, draw):
    written = []
    for place in ("one", "two"):
        run = start_run("06_reading", "mini", tmp_path / place)
        if draw == "reading":
            fig, data = plots.reading_ablation(SUMMARY, PAPER), SUMMARY
        else:
            fig, data = plots.ranking_strip(RANKING), RANKING
        shown = plots.save_figure(fig, "figure", "what it says", data, run)
        files = {p.name: p.read_bytes() for p in run.figures_dir.iterdir()}
        written.append((files, shown.data))
    assert set(written[0][0]) == {
        f"figure.{end}" for end in ("svg", "png", "pdf", "alt.txt", "csv", "json")
    }
    assert written[0] == written[1]
    for name, content in written[0][0].items():
        assert not re.search(rb"20[0-9]{2}-[0-9]{2}-[0-9]{2}", content), name


def test_saved_figure(run):
    from PIL import Image

    alt = 'CoN with JSON is "best",\n  0.80 & 0.60'
    fig = plots.reading_ablation(SUMMARY, PAPER)
    shown = plots.save_figure(fig, "by_layout", alt, SUMMARY, run).data
    folder = run.figures_dir
    assert (folder / "by_layout.alt.txt").read_text() == (
        'CoN with JSON is "best", 0.80 & 0.60\n'
    )
    pd.testing.assert_frame_equal(pd.read_csv(folder / "by_layout.csv"), SUMMARY)
    stamp = json.loads((folder / "by_layout.json").read_text())
    assert (stamp["profile"], stamp["answers"]) == ("mini", {"recorded": 56})
    with Image.open(folder / "by_layout.png") as png:
        assert (png.width, round(png.info["dpi"][0])) == (2100, 300)
    assert b"/Type /Font" in (folder / "by_layout.pdf").read_bytes()
    assert "profile mini · 56 answers recorded, 0 live" in texts(fig)

    assert 'alt="CoN with JSON is &quot;best&quot;, 0.80 &amp; 0.60"' in shown
    assert len(shown) < 100_000
    embedded = base64.b64decode(re.search(r'base64,([^"]+)"', shown)[1])
    with Image.open(io.BytesIO(embedded)) as png:
        assert png.width == 1120


def test_a_figure_needs_alt_text(run):
    fig, _ = plots.new_figure()
    with pytest.raises(ValueError, match="alt text"):
        plots.save_figure(fig, "x", " ", SUMMARY, run)
    assert not run.figures_dir.exists()


def test_style_stays_inside():
    with matplotlib.rc_context({"font.size": 23, "axes.spines.top": True}):
        before = dict(matplotlib.rcParams)
        plots.reading_ablation(SUMMARY, PAPER)
        assert dict(matplotlib.rcParams) == before
        fig, ax = plots.new_figure("column")
    assert fig.get_size_inches().tolist() == [3.4, 2.3]
    assert not ax.spines["top"].get_visible()
    assert ax.xaxis.label.get_size() == 8


def test_systems_differ_without_colour():
    systems = [look for name, look in plots.LOOKS.items() if name not in
               ("evidence", "other")]  # fmt: skip
    assert len({look.marker for look in systems}) == len(systems)


TABLE = pd.DataFrame(
    {
        "reader": ["a_b", "c|d"],
        "share": [0.642857142857, np.nan],
        "low": [0.39, 0.2],
        "high": [0.84, 0.6],
        "n": [1400, 14],
        "right": [True, False],
    }
)


def test_table_files(run):
    shown = tables.save_table(TABLE, "readers", run, "Readers, 50% & more.").data
    folder = run.figures_dir
    pd.testing.assert_frame_equal(pd.read_csv(folder / "readers.csv"), TABLE)
    markdown = (folder / "readers.md").read_text()
    assert markdown.startswith("Readers, 50% & more (profile mini · 56 answers")
    # Half-widths near 0.2: two decimals
    assert re.search(r"\| a_b +\| +0\.64 \| +0\.39 \| +0\.84 \| +1,400 \|", markdown)
    assert "c\\|d" in markdown
    latex = (folder / "readers.tex").read_text()
    assert "\\toprule" in latex
    assert "a\\_b & 0.64" in latex
    assert "50\\% \\& more" in latex
    assert "–" in latex
    assert json.loads((folder / "readers.json").read_text())["name"] == "readers"
    assert "50% &amp; more" in shown or "50% & more" in shown
    assert "0.642857" not in shown
    assert (
        shown == tables.save_table(TABLE, "readers", run, "Readers, 50% & more.").data
    )


def test_table_formats(run):
    tables.save_table(TABLE, "readers", run, "x", {"share": ".4f"})
    assert "0.6429" in (run.figures_dir / "readers.md").read_text()
    with pytest.raises(ValueError, match="no column 'shares'"):
        tables.save_table(TABLE, "readers", run, "x", {"shares": ".4f"})


@pytest.mark.parametrize(
    ("half", "decimals"), [(0.25, 2), (0.1, 2), (0.04, 3), (0.008, 4), (12, 0)]
)
def test_decimals_follow_the_interval(half, decimals):
    table = pd.DataFrame({"low": [1 - half], "high": [1 + half]})
    assert tables._decimals(table) == decimals
