"""How far the judges agree with labels that a large judge gave.

    python benchmarks/judges.py FILE [--judge NAME] [--out CSV]

FILE has a JSON object a line: source, question_id, question_type, question, answer,
hypothesis, label. Questions are split in two by a hash of their id: rules and threshold
were chosen on the first half, and only the second is reported. Without --judge, the
rules judge all of it. With it, an endpoint of the profile `mini` judges a sample: of
each kind the first questions by that hash, with the answers of every source.
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
from lme_utils.schema import ABSTENTION, KINDS

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
    """Agreement on the test half: by kind, by source, and over all."""
    test = rows[rows["half"] == "test"]
    groups = [(kind, test[test["kind"] == kind]) for kind in KINDS]
    groups += list(test.groupby("source"))
    groups.append(("all", test))
    return pd.DataFrame(
        [
            {"judge": name, "answers": group_name}
            | judge.agreement(list(g["judged"]), list(g["label"]))._asdict()
            for group_name, g in groups
        ]
    )


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
    print(table.to_markdown(index=False, floatfmt=".3f"))
    if args.out:
        table.to_csv(args.out, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
