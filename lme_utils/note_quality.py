"""What notes keep of a conversation, and ranges of a question: no judge needed.

Notes are compared by content words (stems without stop words), so a paraphrase counts
as lost; events and ranges by their days. The embedded data says for each question which
statement its evidence session was written around; real data does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from statistics import median
from typing import TYPE_CHECKING, Any

from .config import Profile
from .extract import Notes, shown_text
from .finding import Memory, find
from .index import build_records
from .schema import Config, Granularity, Instance
from .wording import dates, normalise, tokens

if TYPE_CHECKING:
    import pandas as pd


def word_share(wanted: str, text: str) -> float:
    """The share of the content words of `wanted` that `text` holds, in [0, 1].

    >>> word_share("The user owns three mugs.", "I bought a mug, and then two mugs.")
    0.3333333333333333
    """
    words = tokens(normalise(wanted))
    return len(words & tokens(normalise(text))) / len(words) if words else 1.0


def count_notes(notes: Mapping[tuple[str, Granularity], Notes]) -> pd.DataFrame:
    """What an extractor made, a row per kind and level.

    returns  columns note, level ("session" or "round"), distinct texts, failed (no
             usable reply), empty (nothing to note), words shown, words noted (medians),
             tokens written (in all)
    """
    import pandas as pd

    return pd.DataFrame(
        {
            "note": kind,
            "level": "round" if granularity == "turn" else granularity,
            "distinct texts": len(found),
            "failed": sum(note.status != "ok" for note in found.values()),
            "empty": sum(
                note.status == "ok" and not note.texts for note in found.values()
            ),
            "words shown": median(len(text.split()) for text in found),
            "words noted": median(
                len(" ".join(note.texts).split()) for note in found.values()
            ),
            "tokens written": sum(note.n_completion for note in found.values()),
        }
        for (kind, granularity), found in notes.items()
    )


def kept_words(
    instances: Sequence[Instance],
    notes: Mapping[tuple[str, Granularity], Notes],
    sidecar: Mapping[str, Mapping[str, Any]],
) -> pd.DataFrame:
    """How much of each evidence statement a session's own words and its notes hold.

    notes    by kind and granularity; those of sessions are looked at
    sidecar  by question id, from the embedded data's `sidecar.json`
    returns  a row per key ("V" and each kind), question and statement: key,
             question_id, session_id, statement, share (of its content words)
    """
    import pandas as pd

    rows = []
    for instance in instances:
        records = {record.id: record for record in build_records(instance)}
        for evidence in sidecar[instance.question_id]["evidence"]:
            record = records[evidence["session_id"]]
            texts = {"V": record.key}
            for (kind, granularity), found in notes.items():
                note = found.get(shown_text(record, kind))
                if granularity == "session" and note:
                    texts[kind] = " ".join(note.texts)
            rows += [
                {
                    "key": key,
                    "question_id": instance.question_id,
                    "session_id": record.id,
                    "statement": evidence["statement"],
                    "share": word_share(evidence["statement"], text),
                }
                for key, text in texts.items()
            ]
    return pd.DataFrame(rows)


def question_overlap(
    configs: Sequence[Config],
    instances: Sequence[Instance],
    profile: Profile,
    memory: Memory,
) -> pd.DataFrame:
    """What evidence's keys share with the question, and whether they are found.

    returns  a row per configuration, question and piece of evidence: key, question_id,
             n_words (of the key), share (of the question's content words in it), rank
             (from 1)
    """
    import pandas as pd

    rows = []
    for config in configs:
        for instance in instances:
            ranking = find(config, instance, profile, memory)
            rows += [
                {
                    "key": config.key,
                    "question_id": instance.question_id,
                    "n_words": len(record.key.split()),
                    "share": word_share(instance.question, record.key),
                    "rank": rank,
                }
                for rank, record in enumerate(ranking.records, 1)
                if record.gold
            ]
    return pd.DataFrame(rows)


def dated_statements(
    instances: Sequence[Instance],
    events: Notes,
    sidecar: Mapping[str, Mapping[str, Any]],
) -> pd.DataFrame:
    """How near the events of evidence sessions come to the days of their statements.

    events   notes of sessions, of kind "event"
    sidecar  as for `kept_words`; statements that name no date are left out
    returns  a row per question and statement: question_id, session_id, statement, day
             (the last that it names, in the session's year if it names none),
             session_day (when it was told), n_events, days_off (of the event with most
             of the statement's content words, of several such the nearest), nearest
             (days off of the nearest event of all); nan without events
    """
    import pandas as pd

    rows = []
    for instance in instances:
        records = {record.id: record for record in build_records(instance)}
        for evidence in sidecar[instance.question_id]["evidence"]:
            record, statement = records[evidence["session_id"]], evidence["statement"]
            note = events.get(shown_text(record, "event"))
            named = list(dates(normalise(statement)))
            if note is None or not named:
                continue
            month, day_of_month, year = named[-1]
            day = date(year or record.date.year, month, day_of_month)
            told = [
                (-word_share(statement, event.text), abs((event.date - day).days))
                for event in note.events
            ]
            rows.append(
                {
                    "question_id": instance.question_id,
                    "session_id": record.id,
                    "statement": statement,
                    "day": day,
                    "session_day": record.date.date(),
                    "n_events": len(told),
                    "days_off": min(told)[1] if told else None,
                    "nearest": min((off for _, off in told), default=None),
                }
            )
    return pd.DataFrame(rows)
