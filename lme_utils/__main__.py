"""The commands: `python -m lme_utils COMMAND --help` says more about each.

They read and write the authors' file formats, so that files of their scripts, or of
another memory system, can come in at any step.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from tqdm import tqdm

from . import data, exchange
from . import extract as notes_of
from .config import ROOT, SEED, load_profile
from .files import written_aside
from .index import build_records
from .llm import StopRun, say_progress
from .metrics import mean_scores, score_ranking
from .retrieve import Retriever, embed_all, rank_all
from .schema import Answer, Config, Instance, Verdict


def describe(args: argparse.Namespace) -> None:
    """Print what is in a data file, its traps counted."""
    report = data.describe(args.data)
    if not args.ids:
        del report["ids"]
    print(json.dumps(report, indent=1, ensure_ascii=False))


def retrieve(args: argparse.Namespace) -> None:
    """Rank every history, print the mean scores, and write the retrieval log."""
    expansions = exchange.read_expansions(args.expansions) if args.expansions else None
    index = partial(
        build_records,
        granularity=args.granularity,
        compat=args.compat,
        expansions=expansions,
        join=args.join,
        split=args.split,
    )
    instances: Iterable[Instance] = data.load_instances(args.data)
    if args.retriever == "dense":
        instances = list(instances)
        n_referenced, n_distinct = embed_all(
            instances, index, args.model, say_progress("embedding")
        )
        say(f"{n_referenced:,} texts referenced, {n_distinct:,} distinct")
    scored = []

    def log_lines() -> Iterable[dict]:
        bar = tqdm(instances, unit=" questions", disable=None)  # only in a terminal
        ranked = rank_all(bar, index, args.retriever, args.compat, args.model)
        for instance, ranking in ranked:
            scores = score_ranking(instance, ranking, args.granularity, args.compat)
            scored.append((instance, scores))
            yield exchange.log_line(instance, ranking, scores) if args.out else {}

    if args.out:
        exchange.write_jsonl(args.out, log_lines())
    else:
        for _ in log_lines():
            pass
    print(json.dumps(mean_scores(scored), indent=1))


def extract(args: argparse.Namespace) -> None:
    """Let a model note down every session or round: a file for `--expansions`."""
    from .models import Models

    profile = load_profile(args.profile)
    name = args.extractor or profile.extractor
    records = [
        record
        for instance in data.load_instances(args.data)
        for record in build_records(instance, args.granularity)
    ]
    with Models(profile) as models:
        ask = partial(models.ask, name, what=f"{args.kind} of {args.granularity}s")
        notes = notes_of.extract(records, args.kind, ask, args.sides)
    failed = [note for note in notes.values() if note.status != "ok"]
    why = f"; the first: {failed[0].reason}" if failed else ""
    say(f"{len(notes)} distinct texts, {len(failed)} without a note{why}")
    if models.stopped:
        raise models.stopped
    found = notes_of.expansions(records, notes, args.kind, sides=args.sides)
    with written_aside(args.out) as aside:
        aside.write_text(json.dumps(found, ensure_ascii=False, indent=0))


def answer(args: argparse.Namespace) -> None:
    """Let a model answer the questions: writes `question_id` and `hypothesis`."""
    from . import study

    profile = load_profile(args.profile)
    reader = args.reader or next(iter(profile.endpoints), "")
    instances = list(data.load_instances(args.data))
    logged = None
    if args.log:
        logged = exchange.read_log(args.log, instances, args.granularity)
    config = Config(
        reader=reader,
        retriever="log" if args.log else args.retriever,
        granularity=args.granularity,
        layout=args.layout,
        method=args.method,
        k=args.k,
        budget_tokens=args.budget_tokens,
    )
    jobs = study.make_jobs([config], instances, profile, logged=logged)
    with study.Models(profile) as models:
        answers = study.answer(jobs, reader, models)
    exchange.write_jsonl(
        args.out, (exchange.answer_line(answers[job][0]) for job in jobs)
    )
    say_failures([answers[job][0] for job in jobs])
    if models.stopped:
        raise models.stopped


def judge(args: argparse.Namespace) -> None:
    """Judge the answers of a file: writes them with `autoeval_label` added.

    A second judge's verdict is added as `autoeval_label_2`, and how far the two agree
    is printed: by kind of question, with the answers they part on.
    """
    from . import study

    profile = load_profile(args.profile)
    instances = {i.question_id: i for i in data.load_instances(args.data)}
    lines, answers = exchange.read_answers(args.answers, instances)
    names = [args.judge or profile.judge, args.second or profile.second_judge]
    with study.Models(profile) as models:
        judged = [
            [verdict for verdict, _ in study.judge_answers(answers, name, models)]
            for name in names
            if name
        ]
    exchange.write_jsonl(
        args.out,
        (
            line | exchange.verdict_fields(instance, *verdicts)
            for line, (instance, _), *verdicts in zip(
                lines, answers, *judged, strict=True
            )
        ),
    )
    if len(judged) == 2:
        print_agreement([instance.kind for instance, _ in answers], *judged)
    for name, verdicts in zip(names, judged, strict=False):
        n_unjudged = sum(v.label is None for v in verdicts)
        say(f"{name}: {len(verdicts)} answers judged, {n_unjudged} without a verdict")
    say(f"written: {args.out}")
    if models.stopped:
        raise models.stopped


def print_agreement(
    kinds: Sequence[str], first: Sequence[Verdict], second: Sequence[Verdict]
) -> None:
    """Print how far two judges agree on the same answers, overall and by kind."""
    import pandas as pd

    from .judge import agreement_table

    rows = pd.DataFrame({"kind": kinds})
    for name, verdicts in (("label", first), ("label_2", second)):
        rows[name] = pd.array([v.label for v in verdicts], dtype="boolean")
    flips = {"false_yes": "yes to no", "false_no": "no to yes"}
    shown = agreement_table(rows).drop(columns=["true_yes", "true_no"])
    print(shown.rename(columns=flips).to_markdown(index=False, floatfmt=".3f"))


def report(args: argparse.Namespace) -> None:
    """Print shares right: overall, mean over types, abstention, each type."""
    from .stats import summarise

    instances = list(data.load_instances(args.data)) if args.data else None
    rows = exchange.read_verdicts(args.results, instances)
    for source, group in rows.groupby("source", sort=False):
        if source:
            print(f"\n{source}")
        shown = summarise(group)
        print(shown.to_markdown(index=False, floatfmt=".4f"))


def build_history(args: argparse.Namespace) -> None:
    """Write the questions of a file with new histories made of the file's sessions.

    Every session of the file is in the pool. By default no session stands twice in a
    history, none is later than its question, and none comes from the background that
    the evidence comes from, as far as ids tell.
    """
    from .construct.haystack import MIX, Recipe
    from .construct.histories import build_history

    mix = dict(zip(MIX, args.mix, strict=True)) if args.mix else MIX
    recipe = Recipe(args.sessions, args.tokens, mix, args.compat)
    built = build_history(
        args.data, args.out, recipe, args.seed, args.keep_clashes, say_progress("built")
    )
    say(
        f"{built.n_questions:,} questions, {built.n_sessions:,} sessions from a pool "
        f"of {built.n_pool:,}; evidence moved to before the question in "
        f"{built.n_moved:,}: {args.out}"
    )


def download(args: argparse.Namespace) -> None:
    """Fetch the LongMemEval files that `data/sources.toml` names, hashes checked."""
    from .download import fetch_dataset

    for path in fetch_dataset(args.files):
        print(path.relative_to(ROOT))


def record(args: argparse.Namespace) -> None:
    """Keep the answers of the profile's last run in `data/recordings`."""
    from . import recordings

    for path in recordings.record(load_profile(args.profile)):
        print(path.relative_to(ROOT))


def check_recordings(args: argparse.Namespace) -> None:
    """Ask again for a sample of the recorded answers and say how many differ."""
    from . import recordings

    print(recordings.check(load_profile(args.profile), args.n))


def say(text: str) -> None:
    """A word to the person at the terminal; results alone go to standard output."""
    print(text, file=sys.stderr)


def say_failures(answers: Sequence[Answer]) -> None:
    """Say how many answers failed, and why the first did."""
    failed = [a for a in answers if a.status != "ok"]
    why = f"; the first: {failed[0].question_id}: {failed[0].reason}" if failed else ""
    say(f"{len(answers)} questions, {len(failed)} without an answer{why}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m lme_utils", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    def command(function, name: str | None = None) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name or function.__name__,
            help=function.__doc__.splitlines()[0],
            description=function.__doc__,
        )
        made.set_defaults(function=function)
        return made

    def add_profile(made: argparse.ArgumentParser) -> None:
        made.add_argument("--profile", default="mini", help="a name, or a .toml file")

    def add_granularity(made: argparse.ArgumentParser) -> None:
        made.add_argument(
            "--granularity", choices=("session", "turn"), default="session"
        )

    def add_retriever(made: argparse.ArgumentParser) -> None:
        made.add_argument("--retriever", choices=get_args(Retriever), default="bm25")

    made = command(describe)
    made.add_argument("--data", type=Path, required=True, help="official JSON")
    made.add_argument("--ids", action="store_true", help="name the questions too")

    made = command(retrieve)
    made.add_argument("--data", type=Path, required=True)
    add_retriever(made)
    add_granularity(made)
    made.add_argument("--compat", choices=("official", "fixed"), default="fixed")
    made.add_argument("--model", default="all-MiniLM-L6-v2", help="embedder of dense")
    made.add_argument("--expansions", type=Path, help="JSON: bare id to text(s)")
    made.add_argument(
        "--join", choices=("merge", "replace", "separate"), default="merge"
    )
    made.add_argument("--split", action="store_true", help="each text of a list apart")
    made.add_argument("--out", type=Path, help="retrieval log, a JSON line a question")

    made = command(extract)
    made.add_argument("--data", type=Path, required=True)
    add_profile(made)
    made.add_argument("--extractor", help="an endpoint (default: the profile's)")
    made.add_argument("--kind", choices=tuple(notes_of.PROMPTS), required=True)
    add_granularity(made)
    made.add_argument("--sides", choices=("user", "both"), default="user")
    made.add_argument(
        "--out", type=Path, required=True, help="JSON: bare id to text(s)"
    )

    made = command(answer)
    made.add_argument("--data", type=Path, required=True)
    add_profile(made)
    made.add_argument(
        "--reader", help="an endpoint of the profile (default: its first)"
    )
    made.add_argument("--log", type=Path, help="read the rankings of a retrieval log")
    add_retriever(made)
    add_granularity(made)
    made.add_argument("--layout", choices=("json", "nl"), default="json")
    made.add_argument(
        "--method", choices=("direct", "con", "con-separate"), default="con"
    )
    made.add_argument("--k", type=int, help="read the k best (default: all)")
    made.add_argument("--budget-tokens", type=int, help="read what fits so many tokens")
    made.add_argument("--out", type=Path, required=True)

    made = command(judge)
    made.add_argument("answers", type=Path, help="JSONL: question_id, hypothesis")
    made.add_argument("--data", type=Path, required=True)
    add_profile(made)
    made.add_argument("--judge", help="offline, or an endpoint of the profile")
    made.add_argument("--second", help="another judge, to see how far the two agree")
    made.add_argument("--out", type=Path, required=True)

    made = command(report)
    made.add_argument("results", type=Path, help="JSONL with verdicts")
    made.add_argument(
        "--data", type=Path, help="the questions; those without a verdict count"
    )

    made = command(build_history, "build-history")
    made.add_argument("--data", type=Path, required=True, help="official JSON")
    length = made.add_mutually_exclusive_group(required=True)
    length.add_argument("--sessions", type=int, help="sessions a history; 0: evidence")
    length.add_argument("--tokens", type=int, help="tokens a history (4 bytes each)")
    made.add_argument(
        "--mix",
        type=float,
        nargs=3,
        metavar=("SIMULATED", "ASSISTANT", "OPEN"),
        help="shares of the fillers' sources (default: 0.5 0.25 0.25)",
    )
    made.add_argument("--seed", type=int, default=SEED)
    made.add_argument("--compat", choices=("official", "fixed"), default="fixed")
    made.add_argument(
        "--keep-clashes", action="store_true", help="allow the evidence's background"
    )
    made.add_argument("--out", type=Path, required=True)

    made = command(download)
    made.add_argument("files", nargs="*", help="default: oracle and S")
    add_profile(command(record))
    made = command(check_recordings, "check-recordings")
    add_profile(made)
    made.add_argument("--n", type=int, default=50, help="how many answers to ask again")
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; what is wrong with the input is said in one line."""
    args = parser().parse_args(words)
    try:
        args.function(args)
    except (ValueError, OSError, StopRun) as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("stopped; what was answered is kept, the same command goes on")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
