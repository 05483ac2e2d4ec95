"""The README's results are those of the published tables."""

import csv
import re

import pytest

from lme_utils.config import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def published(notebook, table):
    """Differences by comparison, as the README rounds them."""
    path = ROOT / "figures" / notebook / f"{table}.csv"
    with open(path, encoding="utf-8", newline="") as file:
        return {row["comparison"]: signed(row) for row in csv.DictReader(file)}


def signed(row):
    text = f"{float(row['difference']):+.2f}".replace("-", "\u2212")
    return "0.00" if text[1:] == "0.00" else text


READING = published("06_reading_ablation", "paired_differences")
DENSE = published("09_retrievers_and_merging", "differences")
NOTES = published("09_retrievers_and_merging", "note_differences")


@pytest.mark.parametrize(
    ("claim", "values"),
    [
        *(
            (readme, [READING[f"{ours} (Qwen2.5-Coder-{size})"] for size in SIZES])
            for SIZES in [("1.5B", "0.5B")]
            for readme, ours in (
                (
                    "CoN beats direct answers, with JSON",
                    "CoN beats direct, with JSON",
                ),
                ("JSON beats text, with CoN", "JSON beats NL, with CoN"),
                (
                    "JSON with CoN beats text with direct answers",
                    "JSON+CoN beats NL+direct",
                ),
            )
        ),
        (
            "dense beats BM25, sessions / rounds",
            [DENSE[f"MiniLM beats BM25, {level}"] for level in ("session", "round")],
        ),
        ("V+fact beats V, dense, sessions", [NOTES["V+fact beats V, MiniLM, session"]]),
        (
            "one merged key beats merged rankings, facts of sessions",
            [NOTES["V+fact: one key beats best rank, session"]],
        ),
    ],
)
def test_a_row_of_the_readme_says_what_was_measured(claim, values):
    (row,) = re.findall(rf"^\| {re.escape(claim)} \|(.*)\|$", README, re.MULTILINE)
    assert row.split("|")[1].strip() == " / ".join(values)
