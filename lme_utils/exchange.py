"""The authors' file formats, read and written: retrieval log, answers, verdicts.

All are JSON lines, one question a line. A file from their scripts or from another
memory system can come in at any step; a line that is not in the format is refused with
its file and number.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .files import written_aside
from .formats import FormatError, open_data, to_official
from .index import bare_id, build_records
from .metrics import Scores
from .schema import (
    ABSTENTION,
    QUESTION_TYPES,
    Answer,
    Granularity,
    Instance,
    Ranking,
    Record,
    Verdict,
    format_date,
)

if TYPE_CHECKING:
    import pandas as pd


def write_jsonl(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON object a line: the whole file, or none."""
    with written_aside(path) as aside, open(aside, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_jsonl(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where, object) for each line that is not blank; plain, `.xz` or `.gz`.

    Raises FormatError naming file and line.
    """
    with open_data(path) as file:
        for number, raw in enumerate(file, 1):
            where = f"{path}: line {number}"
            if not raw.strip():
                continue
            try:
                line = json.loads(raw)
            except ValueError as error:
                raise FormatError(f"{where}: not JSON ({error})") from None
            if not isinstance(line, dict) or not isinstance(
                line.get("question_id"), str
            ):
                raise FormatError(
                    f"{where}: wanted an object with a question_id, got "
                    f"{raw[:60].decode(errors='replace')!r}"
                )
            yield where, line


def read_expansions(path: Path) -> dict[str, str | list[str]]:
    """Text to find items by: id without `answer_` or `noans_` to one or several texts.

    Raises FormatError naming the file and the first entry that is neither.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise FormatError(f"{path}: got {type(found).__name__}, wanted an object")
    for name, texts in found.items():
        parts = texts if isinstance(texts, list) else [texts]
        if not all(isinstance(part, str) for part in parts):
            raise FormatError(
                f"{path}: {name}: got {str(texts)[:60]!r}, wanted a text or a list of "
                "texts"
            )
    return found


def log_line(
    instance: Instance, ranking: Ranking, scores: Mapping[str, Scores]
) -> dict[str, Any]:
    """One line of a retrieval log: the instance, its ranked items, their metrics."""
    return to_official(instance) | {
        "retrieval_results": {
            "query": instance.question,
            "ranked_items": [
                {
                    "corpus_id": record.id,
                    "text": record.key,
                    "timestamp": format_date(record.date),
                }
                for record in ranking.records
            ],
            "metrics": scores,
        }
    }


def read_log(
    path: Path, instances: Sequence[Instance], granularity: Granularity
) -> dict[str, Ranking]:
    """The rankings of a retrieval log, by question id.

    Items are found in the history by id, `answer_` and `noans_` set aside, so that logs
    of either way of building an index can be read. Where the log has no scores, ranks
    stand in for them. Raises FormatError for an item that the history does not have,
    and for questions without a ranking.
    """
    by_id = {instance.question_id: instance for instance in instances}
    rankings = {}
    for where, line in read_jsonl(path):
        name = line["question_id"]
        if name not in by_id or name in rankings:
            why = "is there twice" if name in rankings else "is not in the data"
            raise FormatError(f"{where}: question {name} {why}")
        places: dict[str, list[Record]] = defaultdict(list)
        for record in build_records(by_id[name], granularity):
            places[bare_id(record.id)].append(record)
        records = []
        for item in line.get("retrieval_results", {}).get("ranked_items", ()):
            found = places.get(bare_id(item["corpus_id"]))
            if not found:
                raise FormatError(
                    f"{where}: {name}: no {granularity} {item['corpus_id']!r} in its "
                    "history, or too often"
                )
            records.append(found.pop(0))
        if not records:
            raise FormatError(f"{where}: {name}: retrieval_results.ranked_items: empty")
        scores = tuple(-float(rank) for rank in range(len(records)))
        rankings[name] = Ranking(name, tuple(records), scores)
    missing = [name for name in by_id if name not in rankings]
    if missing:
        raise FormatError(
            f"{path}: no ranking for {len(missing)} of {len(by_id)} questions, first "
            + ", ".join(missing[:3])
        )
    return rankings


def answer_line(answer: Answer) -> dict[str, Any]:
    """One line of an answers file; a failed answer keeps its line, and says why."""
    line = {"question_id": answer.question_id, "hypothesis": answer.hypothesis}
    if answer.status != "ok":
        line |= {"status": answer.status, "reason": answer.reason}
    return line


def read_answers(
    path: Path, instances: Mapping[str, Instance]
) -> tuple[list[dict[str, Any]], list[tuple[Instance, Answer]]]:
    """The lines of an answers file, and each as (instance, answer).

    instances  by question id; those without a line get one that says so, "not run"

    Raises FormatError for unknown questions, questions given twice, and hypotheses
    that are not text.
    """
    lines: dict[str, dict[str, Any]] = {}
    for where, line in read_jsonl(path):
        name = line["question_id"]
        if name not in instances or name in lines:
            why = "is there twice" if name in lines else "is not in the data"
            raise FormatError(f"{where}: question {name} {why}")
        if not isinstance(line.get("hypothesis"), str):
            raise FormatError(f"{where}: {name}: hypothesis: wanted a text")
        lines[name] = line
    missing = Answer("", "", status="not run", reason=f"no line in {path.name}")
    answered = []
    for name, instance in instances.items():
        if name not in lines:
            lines[name] = answer_line(missing) | {"question_id": name}
        line = lines[name]
        answered.append(
            (
                instance,
                Answer(
                    name,
                    line["hypothesis"],
                    status=line.get("status", "ok"),
                    reason=line.get("reason", ""),
                ),
            )
        )
    return [lines[name] for name in instances], answered


def verdict_fields(
    instance: Instance, verdict: Verdict, second: Verdict | None = None
) -> dict[str, Any]:
    """What a verdict adds to an answer's line, as the authors' scorer does.

    second  another judge's verdict; it goes beside, as `autoeval_label_2`, where the
            authors' scripts do not look
    """
    fields: dict[str, Any] = {"question_type": instance.question_type}
    for name, found in (("autoeval_label", verdict), ("autoeval_label_2", second)):
        if found:
            fields[name] = {
                "model": found.judge,
                "label": found.label,
                "reason": found.reason,
            }
    return fields


def read_verdicts(path: Path, instances: Sequence[Instance] | None) -> pd.DataFrame:
    """Verdicts as rows for `stats.summarise`: a row a question, and source if named.

    path       lines with `autoeval_label` (the authors') or `label`: true, false, null
    instances  the questions; gives the types where the lines do not, and rows for
               questions without a line, which count as wrong

    Raises FormatError for lines without label or type, and questions given twice.
    """
    import pandas as pd

    types = {i.question_id: i.question_type for i in instances or ()}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for where, line in read_jsonl(path):
        name, source = line["question_id"], line.get("source", "")
        label = line.get("autoeval_label", line.get("label", ""))
        if isinstance(label, dict):
            label = label.get("label", "")
        if label not in (True, False, None):
            raise FormatError(
                f"{where}: {name}: wanted autoeval_label or label to be true, false or "
                f"null, got {label!r}"
            )
        kind = types.get(name) or line.get("question_type")
        if kind not in QUESTION_TYPES or (types and name not in types):
            raise FormatError(
                f"{where}: {name}: question_type: got {kind!r}"
                + (", and the data does not have it" if types else "; give --data FILE")
            )
        if (source, name) in rows:
            raise FormatError(f"{where}: question {name} is there twice")
        status = line.get("status", "ok")
        rows[source, name] = _verdict_row(source, name, kind, status, label)
    for source in {source for source, _ in rows}:
        for name, kind in types.items():
            if (source, name) not in rows:
                row = _verdict_row(source, name, kind, "not run", None)
                rows[source, name] = row
    table = pd.DataFrame(rows.values())
    if table.empty:
        raise FormatError(f"{path}: no verdicts")
    return table.astype({"label": "boolean"})


def _verdict_row(
    source: str, name: str, kind: str, status: str, label: bool | None
) -> dict[str, Any]:
    return {
        "source": source,
        "question_id": name,
        "question_type": kind,
        "kind": ABSTENTION if "_abs" in name else kind,
        "status": status,
        "label": label,
    }
