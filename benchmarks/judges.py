"""How far the judges agree with labels that a large judge gave.

    python benchmarks/judges.py FILE [--judge NAME] [--out CSV]

FILE has a JSON object a line, packed or not: source, question_id, question_type,
question, answer, hypothesis, label. Questions are split in two by the sha256 of their
id, read as a number: even is the dev half, on which rules and threshold were chosen,
odd the test half. The table has a row for each half and both, each source and all, each
kind and all, and all without preferences; printed are the rows of all kinds or all
sources. Without --judge, the rules judge all of it. With it, an endpoint of the profile
`mini` judges a sample: of each kind the first questions by that hash, with the answers
of every source.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lme_utils import judge
from lme_utils.config import load_profile
from lme_utils.exchange import read_jsonl
from lme_utils.models import Models
from lme_utils.schema import ABSTENTION
from lme_utils.stats import OVERALL

PREFERENCE = "single-session-preference"
ALL, WITHOUT = "all", "without preferences"
N_DEV, N_TEST = 1, 4  # questions of each kind in a model's sample


def read_rows(path: Path) -> pd.DataFrame:
    """The labelled answers, with kind, hash, and half ("dev" or "test")."""
    rows = pd.DataFrame([line for _, line in read_jsonl(path)])
    rows["answer"] = rows["answer"].astype(str)
    names = rows["question_id"]
    rows["kind"] = rows["question_type"].where(~names.str.contains("_abs"), ABSTENTION)
    rows["hash"] = [hashlib.sha256(name.encode()).hexdigest() for name in names]
    even = [int(digest, 16) % 2 == 0 for digest in rows["hash"]]
    rows["half"] = ["dev" if e else "test" for e in even]
    return rows


def take_sample(rows: pd.DataFrame) -> pd.DataFrame:
    """All answers to the first questions of each kind and half, by hash."""
    chosen = []
    for (_, half), group in rows.groupby(["kind", "half"]):
        first = sorted(group["hash"].unique())[: N_DEV if half == "dev" else N_TEST]
        chosen.append(group[group["hash"].isin(first)])
    return pd.concat(chosen).sort_values(["source", "kind", "hash"])


def best_threshold(p_yes: pd.Series, labels: pd.Series) -> float:
    """The threshold of P(yes) that agrees best with the labels."""
    thresholds = [i / 100 for i in range(5, 100, 5)]
    return max(thresholds, key=lambda t: ((p_yes >= t) == labels).mean())


def ask_model(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows with the model's P(yes) and its label under the chosen threshold."""
    fields = ["question_id", "question_type", "question", "answer", "hypothesis"]
    prompts = [
        (judge.judge_messages(*row), judge.MAX_TOKENS)
        for row in rows[fields].itertuples(index=False)
    ]
    with Models(load_profile("mini")) as models:
        replies = models.ask(
            name, prompts, f"verdicts of {name}", top_logprobs=judge.TOP_LOGPROBS
        )
    verdicts = [
        judge.read_verdict(question_id, reply, name)
        for question_id, reply in zip(rows["question_id"], replies, strict=True)
    ]
    rows = rows.assign(p_yes=[verdict.p_yes for verdict in verdicts])
    dev = rows[(rows["half"] == "dev") & rows["p_yes"].notna()]
    threshold = best_threshold(dev["p_yes"], dev["label"])
    print(f"threshold of P(yes), from {len(dev)} answers of the dev half: {threshold}")
    labels = [None if pd.isna(p) else p >= threshold for p in rows["p_yes"]]
    return rows.assign(judged=labels)


def ask_rules(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the labels of the rules."""
    fields = ["question_id", "question_type", "question", "answer", "hypothesis"]
    verdicts = (judge.judge_offline(*r) for r in rows[fields].itertuples(index=False))
    return rows.assign(judged=[verdict.label for verdict in verdicts])


def tabulate(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Agreement and its counts by half, source and kind, with those over all of them.

    sensitivity  share of the answers labelled right that the judge calls right
    specificity  share of the answers labelled wrong that the judge calls wrong
    Both are of the answers that the judge gave a label; nan where there are none.
    """
    tables = []
    for half in ("whole", "dev", "test"):
        in_half = rows if half == "whole" else rows[rows["half"] == half]
        for source in (ALL, *sorted(rows["source"].unique())):
            group = in_half if source == ALL else in_half[in_half["source"] == source]
            others = group[group["kind"] != PREFERENCE]
            by_kind = judge.agreement_table(group, "judged", "label")
            without = judge.agreement_table(others, "judged", "label").head(1)
            for table, overall in ((by_kind, ALL), (without, WITHOUT)):
                table = table.replace({"kind": {OVERALL: overall}})
                table.insert(0, "source", source)
                table.insert(0, "half", half)
                tables.append(table)
    table = pd.concat(tables, ignore_index=True)
    table.insert(0, "judge", name)
    table["sensitivity"] = table["true_yes"] / (table["true_yes"] + table["false_no"])
    table["specificity"] = table["true_no"] / (table["true_no"] + table["false_yes"])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--judge", help="an endpoint of the profile mini")
    parser.add_argument("--out", type=Path, help="a CSV file, numbers only")
    args = parser.parse_args()
    rows = read_rows(args.file)
    if args.judge:
        sample = take_sample(rows)
        both = [
            tabulate(ask_model(sample, args.judge), args.judge),
            tabulate(ask_rules(sample), "offline, same answers"),
        ]
        table = pd.concat(both)
    else:
        table = tabulate(ask_rules(rows), "offline")
    shown = table[(table["source"] == ALL) | table["kind"].isin([ALL, WITHOUT])]
    print(shown.to_markdown(index=False, floatfmt=".3f"))
    if args.out:
        table.to_csv(args.out, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
