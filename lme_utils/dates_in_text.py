"""The time that a question is about, and the days that a text tells of, by rules.

Mentions of dates, which `date_mentions` finds, are joined ("from March to May"), given
the year they share, and read with the words before them ("since", "before"). Paper:
§5.4, where language models do both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime

from .date_mentions import find_mentions
from .date_words import Mention, Span, of_calendar, plain, shift

WIDEST_DAYS = 31  # of what a text tells

_I = re.IGNORECASE
_LINK = re.compile(
    r"(?:(?P<to>,? (?:to|through|thru|until|till|up to) | ?- ?)|,? (?:and|or) |, )"
    r"(?:(?:in|on|the|early|mid|late|from|end of|start of)[ -])*",
    _I,
)
_ROUTINE = r"(?! (?:work|school|class|bed|breakfast|lunch|dinner|noon|midnight)\b)"
_OPEN_START = re.compile(
    rf"\b(?:before|until|till|prior to){_ROUTINE}\b|\bby (?:the )?(?:end of )?$", _I
)
_OPEN_END = re.compile(
    rf"\bsince\b|(?<!look )(?<!looked )(?<!looking )\bafter\b{_ROUTINE}", _I
)
_ONWARDS = re.compile(r" (?:onwards?|or later|on(?=[,.?!]|$))", _I)
_RIGHT_BEFORE = re.compile(r"\b(?:since|after) (?:the )?(?:(?:start|end) of )?$", _I)
_HOW_LONG = re.compile(
    r"\bhow (?:many (?:more )?(?:days|weeks|months|years)|long|old|"
    r"much (?:time|later|earlier|sooner|longer))\b",
    _I,
)
_TWO_EVENTS = re.compile(
    rf"\b(?:how old|between|(?:before|after|until|till){_ROUTINE}|when|from .+ to|"
    r"passed|elapsed|later|earlier|had (?:I|we)(?: \w+)? been|by the time)\b",
    _I,
)
_WHICH_FIRST = re.compile(
    r"\b(?:first|earlier|sooner)\b.*\bor\b|\bor\b.*\b(?:first|earlier|sooner)\b|"
    r"\b(?:what|which) order\b|\border in which\b|\bchronological\b|"
    r"\bfrom (?:first|earliest|oldest) to (?:last|latest|newest)\b",
    _I,
)
_FUTURE = re.compile(
    r"\b(?:will|shall|should|gonna|due|(?-i:may|might)|upcoming|plan(?:s|ning)? on|"
    r"(?:plan|plans|planning|hope|hoping|going|want|need|have|has|ready|about|excited|"
    r"supposed|scheduled|booked|like|looking forward|am|are|is) to)\b|"
    r"(?:\bwould|'d) like\b|'ll\b|"
    r"(?:\b(?:am|are|is)|'m|'re|'s)(?: (?:I |we )?\w+ing\b| (?=(?:on |in |at )?$))",
    _I,
)
_PAST = re.compile(
    r"\b(?<!\bbe )(?:was|were|had|did|went|got|bought|came|saw|took|made|left|ran|met|"
    r"ate|found|flew|drove|gave|told|said|lost|won|wrote|began|broke|sent|spent|sold|"
    r"paid|felt|heard|kept|built|taught|brought|fell|slept|swam|wore|woke|rode|sang|"
    r"spoke|"
    r"\w+(?<!ne)(?<!fe)(?<!se)ed)\b",
    _I,
)


def range_by_rules(question: str, question_date: datetime) -> Span | None:
    """The dates that a question asks about, by rules of English.

    returns  from the first day named to the last; None where the text fixes no range

    What counts as a date, and how wide it is, says `date_mentions`: "three weeks ago"
    is 7 days wide, "two months ago" 31, "a year ago" 365. Of a period and a part of it
    the part counts. A date without a year is the latest that has begun, or the next one
    where the nearest verb speaks of the future ("am I flying in May"). "since May" and
    "after May 3rd" end on the day of the question. "before May" gives None: its start
    is open, and a first day would be a guess. So does a question for a time or an order
    of events of which only one has a date ("how many days between the race on May 3rd
    and my cold"). Paper: §5.4, table 11.

    >>> range_by_rules("What did I plant in March?", datetime(2023, 6, 14)).end
    datetime.date(2023, 3, 31)
    >>> range_by_rules("How long ago did I plant it?", datetime(2023, 6, 14))
    """
    text, today = plain(question), question_date.date()
    mentions = find_mentions(text, today, lambda *at: bool(_looks_ahead(text, *at)))
    if not mentions or (len(mentions) == 1 and _compares(text, mentions[0])):
        return None
    spans, end = [], 0
    for mention in _join(text, mentions):
        clause = re.split(r"[,;:.?!]", text[end : mention.at[0]])[-1]
        span, end = mention.hull, mention.at[1]
        if _OPEN_START.search(clause):
            return None
        if _OPEN_END.search(clause) or _ONWARDS.match(text, end):
            span = Span(span.start, max(span.end, today))
        if span.n_days == 1 and clause.endswith("week of "):
            span = of_calendar("week", span.start, 0)
        spans.append(span)
    spans = [s for s in spans if not any(_inside(other, s) for other in spans)]
    return Span(min(s.start for s in spans), max(s.end for s in spans))


def dates_by_rules(text: str, session_date: datetime) -> list[date]:
    """The days that a user's text tells of, by the rules of `range_by_rules`.

    text     what a user wrote in a session of that date
    returns  days, sorted, each once; all days of a span ("last week"), but none of one
             wider than 31 days

    Where no verb tells whether it is past or to come, a date without a year is the
    nearest. Paper: §5.4, where a model lists the events of a session.

    >>> dates_by_rules("I bought it last Tuesday.", datetime(2023, 6, 14))
    [datetime.date(2023, 6, 13)]
    """
    text, today = plain(text), session_date.date()
    mentions = find_mentions(text, today, lambda *at: _looks_ahead(text, *at))
    spans = [span for mention in _join(text, mentions) for span in mention.spans]
    told = [span for span in spans if span.n_days <= WIDEST_DAYS]
    return sorted({day for span in told for day in span.days()})


def _inside(a: Span, b: Span) -> bool:
    return a != b and b.start <= a.start and a.end <= b.end


def _compares(text: str, only: Mention) -> bool:
    """Whether the text compares events of which only one has a date."""
    if _HOW_LONG.search(text) and _TWO_EVENTS.search(text):
        return not _RIGHT_BEFORE.search(text[: only.at[0]])
    return only.hull.n_days < 7 and bool(_WHICH_FIRST.search(text))


def _join(text: str, mentions: Sequence[Mention]) -> list[Mention]:
    """Mentions, with those joined by "to", "and", "or", a comma or a dash as one."""
    years = [
        m.hull.start.year
        for m in mentions
        if _is_year(m.hull) and not text[: m.at[0]].endswith("from ")
    ]
    if len(years) == 1:  # "last year, in May"
        mentions = [_in_year(m, years[0]) for m in mentions]
    joined: list[Mention] = []
    for mention in mentions:
        link = joined and _LINK.fullmatch(text, joined[-1].at[1], mention.at[0])
        if link:
            between = text[: joined[-1].at[0]].endswith("between ")
            joined[-1] = _linked(joined[-1], mention, bool(link["to"]) or between)
        else:
            joined.append(mention)
    return joined


def _in_year(mention: Mention, year: int) -> Mention:
    with suppress(ValueError):  # February 29
        if mention.in_year:
            return replace(mention, spans=mention.in_year(year), in_year=None)
    return mention


def _linked(a: Mention, b: Mention, to: bool) -> Mention:
    """Two mentions as one, in years that fit: "from November to February"."""
    both = None
    if a.in_year and b.in_year:
        first, second = a.in_year, b.in_year
        earlier = _in_year(a, a.hull.start.year - 1)
        if a.hull.start <= b.hull.start:
            both = lambda year: first(year) + second(year)  # noqa: E731
        elif to or _hull(earlier, b).n_days < _hull(a, b).n_days:
            a = earlier
    elif a.in_year:  # "March 3 and 5 May 2022"
        year = b.hull.start.year
        fits = [_in_year(a, year), _in_year(a, year - 1)]
        a = next((m for m in fits if m.hull.start <= b.hull.start), a)
    elif b.in_year:  # "March 2022 and April"
        year = a.hull.start.year
        fits = [_in_year(b, year), _in_year(b, year + 1)]
        b = next((m for m in fits if a.hull.start <= m.hull.start <= b.hull.start), b)
    elif to and 0 < (a.hull.start - b.hull.start).days < 7:  # "Monday to Thursday"
        ends = (shift(day, -1, "week") for day in (a.hull.start, a.hull.end))
        a = replace(a, spans=(Span(*ends),))
    spans = (_hull(a, b),) if to else a.spans + b.spans
    return Mention((a.at[0], b.at[1]), spans, both)


def _hull(a: Mention, b: Mention) -> Span:
    return Mention(a.at, a.spans + b.spans).hull


def _is_year(span: Span) -> bool:
    return (span.start.month, span.start.day, span.n_days // 365) == (1, 1, 1)


def _looks_ahead(text: str, start: int, end: int) -> bool | None:
    """Whether the verb nearest to a place speaks of the future; those before first.
    None where no verb tells."""
    before = re.split(r"[.?!] ", text[max(0, start - 200) : start])[-1]
    after = re.split(r"[.?!](?: |$)", text[end : end + 200])[0]
    for side, nearest in ((before, -1), (after, 0)):
        future = [m.start() for m in _FUTURE.finditer(side)]
        past = [m.start() for m in _PAST.finditer(side)]
        if not future or not past:
            if future or past:
                return bool(future)
        elif nearest:
            return future[-1] >= past[-1]
        else:
            return future[0] <= past[0]
    return None
