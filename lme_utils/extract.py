"""What is noted down about a conversation when it is written (paper §5.3, §5.4, D).

Four kinds of notes, made by a language model from the text of a session or of a round:
a summary, keyphrases, facts about the user, dated events. The question is not known at
this time, and no label is in the prompt. Equal texts are noted once, however many
histories hold them; what fails is an empty note with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

from .config import read_prompt
from .index import Expansions, bare_id, turns_text
from .request import Ask, Reply
from .schema import Record, Status
from .wording import sentences

Kind = Literal["summary", "keyphrase", "fact", "event"]
Sides = Literal["user", "both"]

MAX_TOKENS = {"summary": 120, "keyphrase": 60, "fact": 320, "event": 300}
PROMPTS = {
    "summary": "extract_summary",
    "keyphrase": "extract_keyphrases",
    "fact": "extract_facts",
    "event": "extract_events",
}
_TEXT = {"type": "string", "minLength": 1}


def _list_schema(name: str, item: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Of an object with one list."""
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": item, "maxItems": most}},
        "required": [name],
        "additionalProperties": False,
    }


SCHEMAS = {
    "fact": _list_schema("facts", _TEXT, 8),
    "event": _list_schema(
        "events",
        {
            "type": "object",
            "properties": {
                "when": _TEXT,
                "event": _TEXT,
                "date": {"type": "string", "pattern": "^[0-9]{4}/[0-9]{2}/[0-9]{2}$"},
            },
            "required": ["when", "event", "date"],
            "additionalProperties": False,
        },
        5,
    ),
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, or will, on a day."""

    date: date
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """What a model noted about one text.

    texts     the summary, the keyphrases one by one, the facts, or the events' texts;
              empty where there is nothing to note, and where the call failed
    events    of kind "event": the same with their dates
    n_undated  events left out because their date does not exist (such as 2023/02/30)
    """

    kind: Kind
    texts: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    n_undated: int = 0
    status: Status = "ok"
    reason: str = ""
    source: str = ""
    key: str = ""
    n_prompt: int = 0
    n_completion: int = 0


Notes = Mapping[str, Note]  # by the text that was shown


def shown_text(record: Record, kind: Kind, sides: Sides = "user") -> str:
    """What the model sees of a record: the turns, and for events the date.

    sides   "user": the user's turns alone (paper §5.3); "both": the replies too
    returns "" where there is nothing to show

    >>> from lme_utils.schema import Turn
    >>> turns = (Turn("user", "I have a cat."), Turn("assistant", "Nice."))
    >>> record = Record("a_1", "", turns, datetime(2023, 5, 20), (0, 0), False)
    >>> shown_text(record, "event")
    'Date: 2023/05/20 (Sat)\\nuser: I have a cat.'
    """
    turns = tuple(
        turn
        for turn in record.value
        if turn.content.strip() and (sides == "both" or turn.role == "user")
    )
    if not turns:
        return ""
    head = f"{record.date:Date: %Y/%m/%d (%a)}" if kind == "event" else "Messages:"
    return f"{head}\n{turns_text(turns)}"


def extract(
    records: Iterable[Record], kind: Kind, ask: Ask, sides: Sides = "user"
) -> dict[str, Note]:
    """Note down every record, each distinct text once.

    records  whole sessions or rounds, from `index.build_records`; their keys, ids and
             labels are not looked at
    ask      `Models.ask` with the extractor's name filled in
    returns  the notes by `shown_text`

    A reply that is no use is a note without texts whose status is "failed". Raises
    ValueError for an unknown kind. Paper: §5.3 (summary, keyphrases, facts), §5.4
    (events), appendix D.
    """
    if kind not in PROMPTS:
        raise ValueError(f"kind: got {kind!r}, wanted one of {', '.join(PROMPTS)}")
    shown = dict.fromkeys(shown_text(record, kind, sides) for record in records)
    shown.pop("", None)
    system = {"role": "system", "content": read_prompt(PROMPTS[kind])}
    prompts = [
        ((system, {"role": "user", "content": text}), MAX_TOKENS[kind])
        for text in shown
    ]
    schema = {"json_schema": SCHEMAS[kind]} if kind in SCHEMAS else {}
    replies = ask(prompts, **schema) if prompts else []
    return {
        text: _to_note(kind, reply) for text, reply in zip(shown, replies, strict=True)
    }


def expansions(
    records: Iterable[Record],
    notes: Notes,
    kind: Kind,
    split: bool = False,
    sides: Sides = "user",
) -> Expansions:
    """The notes in the form that `index.expand` takes: by id without label.

    split    a summary's sentences and the single keyphrases as a list, to be searched
             apart; else each is one text
    returns  one text for a summary or keyphrases, a list for facts and events. An item
             whose note failed, or that had nothing to show, is left out
    """
    found: dict[str, str | list[str]] = {}
    for record in records:
        note = notes.get(shown_text(record, kind, sides))
        if note is None or note.status != "ok":
            continue
        texts = list(note.texts)
        if kind == "summary" and split:
            texts = [s for text in texts for s in sentences(text)]
        listed = split or kind in SCHEMAS
        found[bare_id(record.id)] = texts if listed else "; ".join(texts)
    return found


def _to_note(kind: Kind, reply: Reply) -> Note:
    texts: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    n_undated = 0
    if reply.status == "ok" and kind == "event":
        dated = [_to_event(**event) for event in reply.parsed["events"]]
        events = tuple(event for event in dated if event)
        n_undated = len(dated) - len(events)
        texts = tuple(event.text for event in events)
    elif reply.status == "ok":
        parts = {
            "summary": lambda: [reply.text],
            "keyphrase": lambda: reply.text.replace("\n", ";").split(";"),
            "fact": lambda: reply.parsed["facts"],
        }[kind]()
        texts = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    return Note(
        kind, texts, events, n_undated, reply.status, reply.reason, reply.source,
        reply.key, reply.n_prompt, reply.n_completion,
    )  # fmt: skip


def _to_event(when: str, event: str, date: str) -> Event | None:
    try:
        return Event(datetime.strptime(date, "%Y/%m/%d").date(), event.strip())
    except ValueError:
        return None
