"""Days and spans of days, and the words and patterns for them in English.

`date_mentions` finds mentions in texts with these, `dates_in_text` reads them.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta

from .wording import MONTH, normalise

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Span:
    """Days from `start` to `end`, both included.

    Raises ValueError where `end` is before `start`.

    >>> date(2023, 5, 4) in Span(date(2023, 5, 3), date(2023, 5, 5))
    True
    """

    start: date
    end: date

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(
                f"span: got start {self.start} and end {self.end}, "
                "wanted an end not before the start: swap them"
            )

    def __contains__(self, day: date) -> bool:
        return self.start <= day <= self.end

    @property
    def n_days(self) -> int:
        """How many days it holds, at least 1."""
        return (self.end - self.start).days + 1

    def iou(self, other: Span) -> float:
        """The days that both hold over the days that either holds, in [0, 1].

        >>> week = Span(date(2023, 5, 1), date(2023, 5, 7))
        >>> week.iou(Span(date(2023, 5, 5), date(2023, 5, 14)))
        0.21428571428571427
        """
        common = (min(self.end, other.end) - max(self.start, other.start)).days + 1
        common = max(common, 0)
        return common / (self.n_days + other.n_days - common)

    def days(self) -> Iterator[date]:
        """Each of its days in turn."""
        return (self.start + i * DAY for i in range(self.n_days))


Make = Callable[[int], Span]  # from a year; ValueError where it lacks the day


@dataclass(frozen=True, slots=True)
class Mention:
    """A place in a plain text that names dates.

    at       where it begins and ends
    spans    what it names, in the order of the text, at least one
    in_year  the same in another year; None where the text fixes the year
    """

    at: tuple[int, int]
    spans: tuple[Span, ...]
    in_year: Callable[[int], tuple[Span, ...]] | None = None

    @property
    def hull(self) -> Span:
        """From the first of its days to the last."""
        return Span(min(s.start for s in self.spans), max(s.end for s in self.spans))


def shift(day: date, n: int, unit: str) -> date:
    """The day n days, weeks, months or years on; a month's last where it is short.

    Raises ValueError or OverflowError outside the years 1 to 9999.

    >>> shift(date(2023, 3, 31), -1, "month")
    datetime.date(2023, 2, 28)
    """
    if unit in ("day", "week"):
        return day + n * LENGTH[unit] * DAY
    months = day.year * 12 + day.month - 1 + n * {"month": 1, "year": 12}[unit]
    first = date(months // 12, months % 12 + 1, 1)
    return first.replace(
        day=min(day.day, calendar.monthrange(first.year, first.month)[1])
    )


def dated(month: int, day: int, last: int = 0) -> Make:
    """A day of a month, or the days up to the last.

    >>> dated(12, 24, 26)(2022).n_days
    3
    """
    return lambda year: Span(date(year, month, day), date(year, month, last or day))


def months(month: int, n: int = 1) -> Make:
    """So many whole months.

    >>> months(12, 3)(2022).end
    datetime.date(2023, 2, 28)
    """

    def make(year: int) -> Span:
        start = date(year, month, 1)
        return Span(start, shift(start, n, "month") - DAY)

    return make


def pick(make: Make, which: str, today: date, ahead: bool | None = False) -> Span:
    """The date that is meant where no year is named.

    which  "last" (is over), "this" (goes on, or lies in this year), "next" (is to
           begin), or "": the latest that has begun; if `ahead` the next that is not
           over; if that is None the nearest

    Raises ValueError where no year near has it.

    >>> pick(months(3), "", date(2023, 3, 10)).start
    datetime.date(2023, 3, 1)
    """
    spans = []
    for year in range(today.year - 8, today.year + 9):
        with suppress(ValueError):  # February 29
            spans.append(make(year))
    if not spans:
        raise ValueError("no year has such a day: check month and day")
    if which == "this":
        now = [s for s in spans if today in s]
        return (now or [s for s in spans if s.start.year == today.year])[0]
    if which == "next":
        return next(s for s in spans if s.start > today)
    if which == "last":
        return [s for s in spans if s.end < today][-1]
    if ahead is None:
        return min(spans, key=lambda s: max(s.start - today, today - s.end, 0 * DAY))
    if ahead:
        return next(s for s in spans if s.end >= today)
    return [s for s in spans if s.start <= today][-1]


def of_calendar(unit: str, today: date, n: int) -> Span:
    """The week, weekend, month or year that is n after the one of today.

    >>> of_calendar("week", date(2023, 6, 14), -1).start
    datetime.date(2023, 6, 5)
    """
    if unit in ("week", "weekend"):
        monday = today + (7 * n - today.weekday()) * DAY
        return Span(monday + 5 * DAY * (unit == "weekend"), monday + 6 * DAY)
    if unit == "year":
        return months(1, 12)(today.year + n)
    day = shift(today, n, "month")
    return months(day.month)(day.year)


def plain(text: str) -> str:
    """The text with plain quotes and dashes, single spaces, a stop after a paragraph.

    >>> plain("3\u20135  May")
    '3-5 May'
    """
    marks = {"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\0": " "}
    text = text.translate(str.maketrans(marks | {"\u2013": "-", "\u2014": "-"}))
    return re.sub(r"\s+", " ", re.sub(r"\s*\n\s*\n\s*", ". ", text)).strip()


def number(words: str) -> tuple[int, int]:
    """(number, units it may be off). Raises ValueError where it is none.

    >>> number("twenty-one"), number("a few")
    ((21, 0), (3, 1))
    """
    word = words.lower().removeprefix("a ").removesuffix(" of")
    vague = {"couple": (2, 1), "few": (3, 1), "several": (4, 1)}
    if word in vague:
        return vague[word]
    return int(normalise(word)) if word not in ("a", "an") else 1, 0


LENGTH = {"day": 1, "week": 7, "weekend": 7, "month": 31, "year": 365}
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
HOLIDAYS = {
    r"new year'?s day": (1, 1),
    r"valentine'?s(?: day)?": (2, 14),
    r"st\.? patrick'?s day": (3, 17),
    r"april fools'?(?: day)?": (4, 1),
    r"cinco de mayo": (5, 5),
    r"independence day": (7, 4),
    r"halloween": (10, 31),
    r"christmas eve": (12, 24),
    r"christmas(?! eve)(?: day)?": (12, 25),
    r"boxing day": (12, 26),
    r"new year'?s eve": (12, 31),
}
FULL = "|".join(max((n for n in MONTH if MONTH[n] == i), key=len) for i in range(1, 13))
MON = rf"(?P<month>{'|'.join(sorted(MONTH, key=len, reverse=True))})\b\.?"
WD = "|".join(WEEKDAYS)
ON_WD = rf"(?:\b(?:{WD}),? )?(?:\bthe )?"
TH = r"(?P<th>st|nd|rd|th)?"
NOT_A_DAY = r"\b(?!:|%|[.,]\d)"
YEAR = (
    r"(?:,? (?:of |in )?(?P<year>(?:19|20)\d\d)\b"
    r"|,? (?:of |in )?(?P<rel_year>last|this|next) year\b)?"
)
# Any word may be one: `number` says which are.
NUM = r"(?:(?:a )?(?:couple(?: of)?|few)|several|\d+|[a-z]+(?:-[a-z]+)?)"
UNIT = r"(?P<unit>day|weekend|week|fortnight|month|year)"
JOIN = r"(?:, (?:and |or )?| (?:and|or|to|through|thru|until|till) |-)"
PART = r"(?:(?:early|mid|late|the|beginning of|start of|end of|middle of)[ -])*"
LEAD = re.compile(
    r"\b(?:in|on|at|over|since|during|through|throughout|until|till|by|before|around|"
    r"(?<!named )after|from|between|early|mid|late|(?:start|beginning|middle|end|month|"
    rf"months|week|weekend|rest|half|part|days|year) of)[ -]{PART}$",
    re.IGNORECASE,
)
JOINED_BEFORE = re.compile(rf"(?:\b(?i:{FULL})|\0){JOIN}{PART}$")
JOINED_AFTER = re.compile(rf"{JOIN}{PART}(?=[A-Z])(?i:{FULL})\b")
NAME_BEFORE = re.compile(r"\b[A-Z][\w'.]* $")
NAME_AFTER = re.compile(r" (?!I\b)[A-Z]\w")
SENTENCE_BEFORE = re.compile(r"(?:^|[.?!:\"(\0\1] ?)$")
OWNED = re.compile(r"\b(?:my|our|your|his|her|their|its|an?|the) $", re.IGNORECASE)
HABIT = re.compile(
    r"\b(?:the|an?|one|some|any|my|our|your|his|her|their|most|per|of|following|same|"
    r"that|other|first|second|third|(?:every|each)\b[^.?!]{0,30}) $",
    re.IGNORECASE,
)
EACH = re.compile(r"\b(?:every|each|per) $", re.IGNORECASE)
RATE = re.compile(r"\b(?:often|times|once|twice|much|many)\b", re.IGNORECASE)
GOES_ON = re.compile(  # what follows a name that is not the first half of another
    r"$|[^\w '-]|'s\b| (?:[\d\W]|(?:with|and|or|in|at|on|last|this|to|by|for|from|did|"
    r"do|does|was|were|is|I|we|he|she|they|you|my|our|the|an?|when|that|which|because|"
    r"but|so|as|who|where|of|before|after|until|than|dinner|lunch|breakfast|morning|"
    r"afternoon|evening|night|time|we're|I'm)\b)",
    re.IGNORECASE,
)
