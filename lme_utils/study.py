"""Running a grid: configurations times questions, a row for each, nothing dropped.

Each ranking is made once for all configurations that share it, and every model call
goes through the response store: a run that stops, for whatever reason, has a row for
every question, and the next run goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import judge, llm
from .config import Profile
from .files import written_aside
from .finding import remember
from .jobs import Job, make_jobs, room
from .models import Models
from .read import answer_messages, note_messages
from .schema import Answer, Config, Instance, Verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Job",
    "Models",
    "answer",
    "judge_answers",
    "make_jobs",
    "reading_order",
    "room",
    "run",
    "save_table",
]


def run(
    configs: Sequence[Config],
    instances: Iterable[Instance],
    profile: Profile,
    store: llm.Store | None = None,
) -> pd.DataFrame:
    """Answer and judge every question under every configuration.

    configs    what to compare; their readers are names of `profile.endpoints`
    instances  the questions
    store      where answers are kept (default: the user's, and the recordings)

    Returns a table with one row a configuration and question: the fields of `Config`,
    `Answer` and `Verdict`, the question's type and kind, how many records were read
    (`n_records`), did not fit (`n_left_out`) and held nothing (`n_empty`), the tokens
    of history read (`n_read`), and the keys of the calls made.
    Where the profile has a second judge, the columns of its verdict end in `_2`.
    Raises `llm.StopRun`, its `table` holding all rows, where going on made no sense.
    """
    instances = list(instances)
    with Models(profile, store) as models:
        memory = remember(configs, instances, models)
        jobs = make_jobs(configs, instances, profile, memory)
        answers: dict[Job, tuple[Answer, tuple[str, ...]]] = {}
        for reader in dict.fromkeys(config.reader for config in configs):
            chosen = [job for job in jobs if job.config.reader == reader]
            answers |= answer(chosen, reader, models)
        answered = [(job.instance, answers[job][0]) for job in jobs]
        judges = [name for name in (profile.judge, profile.second_judge) if name]
        verdicts = [judge_answers(answered, name, models) for name in judges]
    rows = [
        _row(job, *answers[job], judged)
        for job, *judged in zip(jobs, *verdicts, strict=True)
    ]
    table = _as_table(rows, profile)
    if models.stopped:
        models.stopped.table = table
        raise models.stopped
    return table


def answer(
    jobs: Sequence[Job], reader: str, models: Models
) -> dict[Job, tuple[Answer, tuple[str, ...]]]:
    """Ask one reader: for each job its answer and the keys of the calls behind it.

    con-separate asks for notes on each record first; if one fails, so does the answer.
    """
    jobs = reading_order(jobs, models.endpoint(reader).n_parallel)
    limits = models.profile.reading.max_tokens
    notes = _take_notes(jobs, reader, models)
    answers: dict[Job, tuple[Answer, tuple[str, ...]]] = {}
    ready = []
    for job in jobs:
        failed = [note for note in notes.get(job, ()) if note.status != "ok"]
        if failed:
            keys = tuple(note.key for note in notes[job])
            reply = replace(failed[0], text="", reason=f"notes: {failed[0].reason}")
            answers[job] = _to_answer(job, reply, notes[job]), keys
        else:
            ready.append(job)
    prompts = [
        (
            answer_messages(
                job.instance,
                job.records,
                job.config.layout,
                job.config.method,
                [note.text for note in notes[job]] if job in notes else None,
            ),
            limits[job.config.method],
        )
        for job in ready
    ]
    for job, reply in zip(
        ready, models.ask(reader, prompts, f"answers of {reader}"), strict=True
    ):
        calls = [*notes.get(job, ()), reply]
        answers[job] = _to_answer(job, reply, calls), tuple(c.key for c in calls)
    return answers


def judge_answers(
    answered: Sequence[tuple[Instance, Answer]], name: str, models: Models
) -> list[tuple[Verdict, tuple[str, ...]]]:
    """Ask one judge: for each answer its verdict and the keys of the calls behind it.

    name  "offline", which makes no calls, or an endpoint of the profile

    An answer that failed gets the label None: it counts as wrong in the strict mean.
    """
    usable = [i for i, (_, answer) in enumerate(answered) if answer.status == "ok"]
    if name == "offline":
        found = [(judge.judge_offline(*_question(*answered[i])), ()) for i in usable]
    else:
        prompts = [
            (judge.judge_messages(*_question(*answered[i])), judge.MAX_TOKENS)
            for i in usable
        ]
        replies = models.ask(
            name, prompts, f"verdicts of {name}", top_logprobs=judge.TOP_LOGPROBS
        )
        found = [
            (judge.read_verdict(answered[i][0].question_id, reply, name), (reply.key,))
            for i, reply in zip(usable, replies, strict=True)
        ]
    verdicts = dict(zip(usable, found, strict=True))
    return [
        verdicts.get(i) or (Verdict(instance.question_id, None, name, "no answer"), ())
        for i, (instance, _) in enumerate(answered)
    ]


def reading_order(jobs: Sequence[Job], n_parallel: int) -> list[Job]:
    """The jobs so that a server meets a history again while it still holds it.

    Histories come in groups of `n_parallel`; of a group, first every history with the
    first method, then every history with the next.
    """
    groups: dict[tuple, dict[str, list[Job]]] = {}
    for job in jobs:
        history = (job.config.layout, job.instance.question_id, job.records)
        groups.setdefault(history, {}).setdefault(job.config.method, []).append(job)
    histories = list(groups.values())
    ordered = []
    for start in range(0, len(histories), n_parallel):
        block = histories[start : start + n_parallel]
        for method in dict.fromkeys(m for group in block for m in group):
            ordered += [job for group in block for job in group.get(method, ())]
    return ordered


def _take_notes(
    jobs: Sequence[Job], reader: str, models: Models
) -> dict[Job, list[llm.Reply]]:
    separate = [job for job in jobs if job.config.method == "con-separate"]
    n_tokens = models.profile.reading.max_tokens.get("con-separate", 0)
    prompts = [
        (note_messages(job.instance, record, job.config.layout), n_tokens)
        for job in separate
        for record in job.records
    ]
    replies = iter(models.ask(reader, prompts, f"notes of {reader}") if prompts else ())
    return {job: [next(replies) for _ in job.records] for job in separate}


def _to_answer(job: Job, reply: llm.Reply, calls: Sequence[llm.Reply]) -> Answer:
    """The reply as an answer; tokens, seconds and money are those of all its calls."""
    return Answer(
        question_id=job.instance.question_id,
        hypothesis=reply.text,
        status=reply.status,
        reason=reply.reason,
        finish_reason=reply.finish_reason,
        n_prompt=sum(call.n_prompt for call in calls),
        n_completion=sum(call.n_completion for call in calls),
        latency_s=sum(call.latency_s for call in calls),
        usd=sum(call.usd for call in calls),
        source=reply.source,
    )


def _question(instance: Instance, answer: Answer) -> tuple[str, str, str, str, str]:
    return (
        instance.question_id,
        instance.question_type,
        instance.question,
        instance.answer,
        answer.hypothesis,
    )


def _row(
    job: Job,
    answer: Answer,
    keys: tuple[str, ...],
    judged: Sequence[tuple[Verdict, tuple[str, ...]]],
) -> dict:
    row = (
        asdict(job.config)
        | {
            "question_type": job.instance.question_type,
            "kind": job.instance.kind,
            "n_records": len(job.records),
            "n_left_out": job.n_left_out,
            "n_empty": job.n_empty,
            "n_read": job.n_read,
        }
        | asdict(answer)
    )
    for suffix, (verdict, _) in zip(("", "_2"), judged, strict=False):
        row |= {
            f"label{suffix}": verdict.label,
            f"judge{suffix}": verdict.judge,
            f"verdict_reason{suffix}": verdict.reason,
            f"p_yes{suffix}": verdict.p_yes,
        }
    asked = [key for _, calls in judged for key in calls]
    return row | {"keys": [*keys, *asked]}


def _as_table(rows: list[dict], profile: Profile) -> pd.DataFrame:
    import pandas as pd

    table = pd.DataFrame(rows)
    table.insert(0, "profile", profile.name)
    for name in {"label", "label_2"} & set(table.columns):
        table[name] = table[name].astype("boolean")
    return table


def save_table(table: pd.DataFrame, path: Path) -> None:
    """Write the results as Parquet: the whole file, or none."""
    with written_aside(path) as aside:
        table.to_parquet(aside)
