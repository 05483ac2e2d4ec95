"""Histories: where evidence and fillers stand in time (paper §3.2, appendix A.2).

A history is placed by ids alone, so that the same code serves a few sessions in memory
and millions on disk. What a filler may be is decided before (`eligible`).

The default way gives what the paper describes: no session twice, none after the
question, all in order of the clock. `compat="official"` does what the authors' script
does: fillers are drawn with replacement, their times run to the end of the question's
day, and temporal and knowledge-update histories are in order of the day only.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..schema import Compat

MIX = {"simulated": 0.5, "assistant-chat": 0.25, "open-chat": 0.25}  # paper, A.2
ORDERED = ("knowledge-update", "temporal-reasoning")
DAYS_BEFORE = 30  # fillers may be this much older than the first evidence
WINDOW_DAYS = (
    10  # undated evidence lies in the days before the question, as in the paper
)
WAKING = range(7 * 60, 23 * 60)  # minutes of the day at which people chat


@dataclass(frozen=True, slots=True)
class Filler:
    """A session that may stand in a history as a distraction.

    attribute  what its user talks about; "" where nothing is known
    n_tokens   its length, in the tokens that a budget counts
    """

    session_id: str
    source: str
    attribute: str = ""
    n_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """A session at its time; `date` is None until it has one."""

    session_id: str
    date: datetime | None
    n_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """How long a history is and what it is mixed from.

    n_sessions  length with the evidence; 0: the evidence alone (oracle)
    n_tokens    or: as many sessions as fit; exactly one of the two is given
    mix         share of each source among the fillers; need not add up to one

    Raises ValueError naming what is wrong.
    """

    n_sessions: int | None = None
    n_tokens: int | None = None
    mix: Mapping[str, float] = field(default_factory=lambda: dict(MIX))
    compat: Compat = "fixed"

    def __post_init__(self) -> None:
        if (self.n_sessions is None) == (self.n_tokens is None):
            raise ValueError("wanted either a number of sessions or one of tokens")
        if min(self.n_sessions or 0, self.n_tokens or 0) < 0:
            raise ValueError(
                f"got {self.n_sessions or self.n_tokens}, wanted at least 0"
            )
        if min(self.mix.values(), default=0) < 0 or not sum(self.mix.values()) > 0:
            raise ValueError(f"mix: got {dict(self.mix)}, wanted shares, one above 0")


def eligible(
    fillers: Iterable[Filler],
    attributes: Collection[str],
    keywords: Collection[str] = (),
    texts: Mapping[str, str] | None = None,
) -> list[Filler]:
    """The fillers that share neither attribute nor keyword with a question.

    keywords  words; a filler whose text (`texts`, by session id, in lower case) holds
              one, at the start of a word, is left out
    """
    mentions = (
        re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(keywords))) + ")")
        if keywords
        else None
    )
    return [
        filler
        for filler in fillers
        if not (filler.attribute and filler.attribute in attributes)
        and not (mentions and mentions.search(texts[filler.session_id]))
    ]


def place(
    evidence: Sequence[Placed],
    question_date: datetime,
    question_type: str,
    fillers: Sequence[Filler],
    recipe: Recipe,
    rng: random.Random,
) -> list[Placed]:
    """One history: evidence and fillers, each with its time, in the history's order.

    evidence  in its true order, dated, or all undated: then it is dated here, in the
              `WINDOW_DAYS` before the question, and keeps its order only where the type
              asks for one (`ORDERED`)
    fillers   those that may stand in this history, no id twice
    rng       decides all that is left to chance

    Dated evidence that a file has after its question, later on the same day, is put
    just before it (default way only).
    Raises ValueError, with the numbers, where the evidence does not fit the budget or
    a source has too few fillers.
    """
    official = recipe.compat == "official"
    evidence = _dated(evidence, question_date, question_type in ORDERED, rng)
    if not official:
        evidence = _before(evidence, question_date)
    chosen = list(_draw(evidence, fillers, recipe, rng))
    dates = _dates(len(chosen), evidence, question_date, official, rng)
    placed = evidence + [
        Placed(filler.session_id, date, filler.n_tokens)
        for filler, date in zip(chosen, dates, strict=True)
    ]
    if official and question_type in ORDERED:
        rng.shuffle(placed)  # within a day the order is left to chance
        evidence_at = iter(evidence)
        own = {p.session_id for p in evidence}
        placed = [next(evidence_at) if p.session_id in own else p for p in placed]
        return sorted(placed, key=lambda p: p.date.date())
    return sorted(placed, key=lambda p: p.date)


def _draw(
    evidence: Sequence[Placed],
    fillers: Sequence[Filler],
    recipe: Recipe,
    rng: random.Random,
) -> Iterator[Filler]:
    groups: dict[str, list[Filler]] = defaultdict(list)
    for filler in fillers:
        groups[filler.source].append(filler)
    for group in groups.values():
        rng.shuffle(group)
    mix = {source: share for source, share in recipe.mix.items() if share > 0}
    used, n_used = Counter(), len(evidence)
    n_tokens = sum(p.n_tokens for p in evidence)
    if recipe.n_tokens is not None and n_tokens > recipe.n_tokens:
        raise ValueError(
            f"a budget of {recipe.n_tokens:,} tokens: the {len(evidence)} evidence "
            f"sessions alone have {n_tokens:,}"
        )
    if recipe.n_sessions and n_used > recipe.n_sessions:
        raise ValueError(
            f"a history of {recipe.n_sessions:,} sessions: the question has {n_used:,} "
            "evidence sessions"
        )
    while recipe.n_sessions is None or n_used < recipe.n_sessions:
        if recipe.compat == "official":
            (source,) = rng.choices(list(mix), list(mix.values()))
            filler = rng.choice(groups[source]) if groups[source] else None
        else:
            source = _most_due(mix, used, rng)
            filler = groups[source].pop() if groups[source] else None
        if filler is None:
            wanted = (
                f"{recipe.n_sessions:,} sessions"
                if recipe.n_sessions is not None
                else f"{recipe.n_tokens:,} tokens"
            )
            raise ValueError(
                f"a history of {wanted}: after {n_used:,} sessions no {source} session "
                f"is left; {used[source]:,} were used, {len(fillers):,} fillers of all "
                "sources may stand here"
            )
        n_tokens += filler.n_tokens
        if recipe.n_tokens is not None and n_tokens > recipe.n_tokens:
            return
        used[source] += 1
        n_used += 1
        yield filler


def _most_due(mix: Mapping[str, float], used: Counter, rng: random.Random) -> str:
    """The source that is furthest behind its share; chance decides between equals."""
    total = sum(mix.values())
    due = {
        source: share / total * (used.total() + 1) - used[source]
        for source, share in mix.items()
    }
    most = max(due.values())
    return rng.choice([source for source, value in due.items() if value > most - 1e-9])


def _dated(
    evidence: Sequence[Placed],
    question_date: datetime,
    in_order: bool,
    rng: random.Random,
) -> list[Placed]:
    undated = [p.date is None for p in evidence]
    if not any(undated):
        return list(evidence)
    if not all(undated):
        raise ValueError("evidence: some sessions are dated, wanted all or none")
    start = question_date - timedelta(days=WINDOW_DAYS)
    dates = _sample_minutes(len(evidence), start, question_date, set(), rng)
    if in_order:
        dates.sort()
    return [
        Placed(p.session_id, date, p.n_tokens)
        for p, date in zip(evidence, dates, strict=True)
    ]


def _before(evidence: Sequence[Placed], question_date: datetime) -> list[Placed]:
    """The evidence, what is late or at one time moved just enough; order is kept."""
    moved, limit = [], question_date
    for p in sorted(evidence, key=lambda p: p.date, reverse=True):
        date = p.date if p.date < limit else limit - timedelta(minutes=1)
        moved.append(Placed(p.session_id, date, p.n_tokens))
        limit = date
    return moved[::-1]


def _dates(
    n: int,
    evidence: Sequence[Placed],
    question_date: datetime,
    official: bool,
    rng: random.Random,
) -> list[datetime]:
    first = min((p.date for p in evidence), default=question_date)
    start = first - timedelta(days=DAYS_BEFORE)
    if not official:
        taken = {p.date for p in evidence}
        return _sample_minutes(n, start, question_date, taken, rng)
    midnight = question_date.replace(hour=0, minute=0)
    n_minutes = ((midnight.date() - start.date()).days + 1) * 24 * 60
    zero = start.replace(hour=0, minute=0)
    return [zero + timedelta(minutes=rng.randrange(n_minutes)) for _ in range(n)]


def _sample_minutes(
    n: int,
    start: datetime,
    end: datetime,
    taken: Collection[datetime],
    rng: random.Random,
) -> list[datetime]:
    """n distinct waking minutes from the day of `start` to the day before `end`."""
    zero = start.replace(hour=0, minute=0)
    n_days = (end.date() - start.date()).days
    n_slots = n_days * len(WAKING)
    if n + len(taken) > n_slots:
        raise ValueError(
            f"{n:,} sessions between {start.date()} and {end.date()}: there are only "
            f"{n_slots:,} minutes for them"
        )
    dates: list[datetime] = []
    for slot in rng.sample(range(n_slots), n + len(taken)):
        day, minute = divmod(slot, len(WAKING))
        date = zero + timedelta(days=day, minutes=WAKING[minute])
        if date not in taken and len(dates) < n:
            dates.append(date)
    return dates
