"""The places of an English text that name dates, by rules.

What is read: days with or without a year, months, years, weekdays, "yesterday", "last
week", "the past ten days", "three weeks ago", holidays with a fixed date, seasons of
the northern half of the world. What is not: titles (in quotes, or with capitals around
them), habits ("on Fridays"), days told by an event ("the Friday before the wedding").

Weeks begin on Monday. "last Friday" and "on Friday" are before today, "next Friday" and
"this Friday" are the first to come. A date without a year is the latest that has begun.
03/12/2023 is March 12, and December 3 only where that cannot be. "N units ago" is as
wide as its unit: the day itself, 3 days to either side for weeks, 15 for months, 182
for years, and one unit more for "a few", "a couple", "several", "or so".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date

from . import date_words as w
from .date_words import DAY, Make, Mention, Span, shift
from .wording import MONTH


def find_mentions(
    text: str,
    today: date,
    ahead: Callable[[int, int], bool | None] = lambda start, end: False,
) -> list[Mention]:
    """What a plain text names, in its order.

    ahead    whether the place from start to end speaks of the future; None: unknown.
             Then a date without a year is the next, or the nearest

    >>> [m.hull.start for m in find_mentions("the 3rd of May", date(2023, 6, 1))]
    [datetime.date(2023, 5, 3)]
    """
    titles = r'"[^"]{1,80}"|(?<!\w)\'(?=[A-Z0-9])[^\']{1,80}\'(?!\w)'
    text = re.sub(titles, lambda m: "\1" * len(m[0]), text)
    found = []
    for pattern, rule in _RULES:
        for m in re.finditer(pattern, text, re.IGNORECASE):
            with suppress(
                ValueError, OverflowError, IndexError
            ):  # such a day does not exist
                mention = rule(m, today, ahead(*m.span()))
                if isinstance(mention, Span):
                    mention = Mention(m.span(), (mention,))
                if mention:
                    found.append(mention)
            text = text[: m.start()] + "\0" * len(m[0]) + text[m.end() :]
    return sorted(found, key=lambda mention: mention.at)


def _before(m: re.Match[str]) -> str:
    """What stands before a match, as much as the rules look at."""
    return m.string[max(0, m.start() - 45) : m.start()]


def _goes_on(m: re.Match[str]) -> bool:
    return bool(w.GOES_ON.match(m.string, m.end()))


def _pick(
    m: re.Match[str], make: Make, today: date, ahead: bool | None
) -> Mention | None:
    """A date in the year that the text names, or else in the one it must mean."""
    named, rel = m.groupdict()["year"], (m["rel_year"] or "").lower()
    if named or rel:
        year = int(named or today.year + {"last": -1, "this": 0, "next": 1}[rel])
        return Mention(m.span(), (make(year),))
    which = (m.groupdict().get("rel") or "").lower().split(" ")[-1]
    which = {"past": "last", "coming": "next"}.get(which, which)
    span = w.pick(make, which, today, ahead)
    return Mention(m.span(), (span,), lambda year: (make(year),))


def _numeric(
    m: re.Match[str], today: date, ahead: bool | None
) -> Span | Mention | None:
    """2023/05/20, 5/20/2023, 20.05.2023, "on 5/20"."""
    a, b = int(m["a"]), int(m["b"])
    month, day = (b, a) if m["dot"] == "." or a > 12 else (a, b)
    if m["iso"]:
        return Span(*[date(int(m["iso"]), a, b)] * 2)
    return _pick(m, w.dated(month, day), today, ahead)


def _day(m: re.Match[str], today: date, ahead: bool | None) -> Mention | None:
    """A day, or days, of a month."""
    groups, name = m.groupdict(), m["month"]
    if not (name[0].isupper() or m["th"] or w.LEAD.search(_before(m))):
        return None  # "we march 3 miles"
    day = groups["day"].lower()
    first = int(day) if day.isdigit() else w.ORDINALS.index(day) + 1
    last = int(groups.get("last") or first)
    return _pick(m, w.dated(MONTH[name.lower()], first, last), today, ahead)


def _month(m: re.Match[str], today: date, ahead: bool | None) -> Mention | None:
    """A month alone, where it is one: "may" and "march" need a sign."""
    before, name = _before(m), m["name"]
    capital = name[0].isupper()
    if m["year"] or m["rel_year"]:
        sure = True
    elif w.NAME_AFTER.match(m.string, m.end()) or w.EACH.search(before):
        sure = False
    elif w.LEAD.search(before):
        sure = True
    elif not capital:
        sure = False
    elif m["rel"] or w.JOINED_BEFORE.search(before):
        sure = not m.string[m.end() :].startswith(" I ")
    elif w.JOINED_AFTER.match(m.string, m.end()):
        sure = True
    elif name in ("May", "March"):
        sure = False
    elif name in ("April", "June", "August"):  # also people
        sure = bool(w.OWNED.search(before))
    else:
        sure = not w.NAME_BEFORE.search(before)
    return _pick(m, w.months(MONTH[name.lower()]), today, ahead) if sure else None


def _season(m: re.Match[str], today: date, ahead: bool | None) -> Mention | None:
    """A season: spring and fall are also other things."""
    name, before, after = m["season"].lower(), _before(m), m.string[m.end() :]
    if not (m["year"] or m["rel_year"]) and (
        not _goes_on(m)
        or not (m["rel"] or w.LEAD.search(before))
        or (m["rel"] and w.OWNED.search(before))
        or (not m["rel"] and name in ("spring", "fall") and after[:1] == " ")
    ):
        return None
    return _pick(m, w.months(w.SEASONS[name], 3), today, ahead)


def _holiday(m: re.Match[str], today: date, ahead: bool | None) -> Mention | None:
    """A holiday as a time, not as a kind of thing ("a Christmas tree")."""
    joined = re.search(rf"\0{w.JOIN}$|\bof $", _before(m))
    if not (m["year"] or m["rel_year"]) and not (
        _goes_on(m) and (m["rel"] or joined or w.LEAD.search(_before(m)))
    ):
        return None
    name = m["holiday"].lower()
    month, day = next(d for n, d in w.HOLIDAYS.items() if re.fullmatch(n, name))
    return _pick(m, w.dated(month, day), today, ahead)


def _year(m: re.Match[str], today: date, ahead: bool | None) -> Span | None:
    joined = re.search(rf"\0{w.JOIN}$|\bthe year $", _before(m))
    if not _goes_on(m) or not (joined or w.LEAD.search(_before(m))):
        return None
    return w.months(1, 12)(int(m["year"]))


def _weekday(m: re.Match[str], today: date, ahead: bool | None) -> Span | None:
    before, rel = _before(m), (m["rel"] or "").lower().split(" ")[-1]
    if not rel and (
        w.HABIT.search(before)
        or w.NAME_BEFORE.search(before)
        or w.NAME_AFTER.match(m.string, m.end())
    ):
        return None
    if re.match(r" of | in \0", m.string[m.end() :]):
        return None  # "the last Friday of the month"
    weekday = w.WEEKDAYS.index(m["day"].lower())
    forward, back = (weekday - today.weekday()) % 7, (today.weekday() - weekday) % 7
    if m["week"]:
        day = today + (weekday - today.weekday()) * DAY
        day += {"last": -7, "this": 0, "next": 7}[m["week"].lower()] * DAY
    elif rel in ("this", "coming"):
        day = today + forward * DAY
    elif rel == "next" or (ahead and rel in ("", "on")):
        day = today + (forward or 7) * DAY
    else:
        day = today - (back or 7) * DAY
    return Span(day, day)


def _word(m: re.Match[str], today: date, ahead: bool | None) -> Span | None:
    """ "yesterday" and the like; not as a title, not as "until today"."""
    before, word = _before(m), m["word"].lower()
    if m["word"][0].isupper() and not w.SENTENCE_BEFORE.search(before):
        return None
    if re.search(r"(?<!\0)(?: as of| up to| until| till| so far) $", before):
        return None
    n = {"yesterday": -1, "last night": -1, "tomorrow": 1}.get(word, 0)
    n = {"the day before yesterday": -2, "the day after tomorrow": 2}.get(word, n)
    return Span(today + n * DAY, today + n * DAY)


def _ago(m: re.Match[str], today: date, ahead: bool | None) -> Span | None:
    way = (m["way"] or "in").lower()
    if m["more"] or (way == "in" and not (ahead or m["time"])):
        return None  # "more than a week ago" has no width
    if way == "in" and w.RATE.search(_before(m)):
        return None  # "how often in a week"
    high, vague = w.number(m["n"])
    low = w.number(m["low"])[0] if m["low"] else high
    high += (m["so"] or "").endswith("two")  # "a week or two ago"
    unit, by = m["unit"].lower(), 1 if way == "ago" else -1
    if unit == "fortnight":
        unit, high, low = "week", 2 * high, 2 * low
    if unit == "weekend":
        return w.of_calendar(unit, today, -by * high)
    wide = (
        w.LENGTH[unit] * (vague or (m["so"] or "").endswith("so")) + w.LENGTH[unit] // 2
    )
    ends = shift(today, -by * high, unit), shift(today, -by * low, unit)
    start, end = min(ends) - wide * DAY, max(ends) + wide * DAY
    return Span(start, min(end, today)) if by > 0 else Span(max(start, today), end)


def _unit(m: re.Match[str], today: date, ahead: bool | None) -> Span | None:
    """ "last week" is one of the calendar, "the past week" the seven days up to now."""
    unit, rel = m["unit"].lower(), m["rel"].lower()
    if m["own"] and m["own"].lower() not in ("the ", "this "):
        return None  # "my last week at school"
    sign = {"this": 0, "current": 0}.get(rel, 1 if rel in _NEXT else -1)
    scoped = m["in"] and (m["own"] or "").lower() == "the "
    rolls = m["n"] or m["many"] or rel == "past" or scoped
    if unit == "day" or (rolls and unit != "weekend") or m["n"] or m["many"]:
        if not rolls or not sign:
            return None
        n, vague = w.number(m["n"]) if m["n"] else (3, 1) if m["many"] else (1, 0)
        if unit in ("fortnight", "weekend"):
            unit, n = "week", n * (2 if unit == "fortnight" else 1)
        ends = today, shift(today, sign * (n + vague), unit)
        return Span(min(ends), max(ends))
    return w.of_calendar("week" if unit == "fortnight" else unit, today, sign)


def _weekend(m: re.Match[str], today: date, ahead: bool | None) -> Span:
    return w.of_calendar("weekend", today, 0 if ahead or today.weekday() > 4 else -1)


def _day_of_month(m: re.Match[str], today: date, ahead: bool | None) -> Span:
    """ "on the 15th": the latest, or of the month that is named."""
    n = {"last": -1, "this": 0, "next": 1}.get((m["of"] or "").lower())
    if n is None:
        n = (int(m["n"]) < today.day) if ahead else -(int(m["n"]) > today.day)
    day = shift(today.replace(day=1), n, "month").replace(day=int(m["n"]))
    return Span(day, day)


_NEXT = ("next", "coming", "upcoming")
_REL = r"(?:(?P<rel>this past|last|past|this|next|this coming|coming) )?"
_NO_YEAR = r"(?P<year>)(?P<rel_year>)"
_RULES = (
    (r"(?<![\d/.])(?P<iso>\d{4})(?P<dot>[/.-])(?P<a>\d\d?)(?P=dot)(?P<b>\d\d?)\b"
     rf"(?: \(\w{{3}}\))?{_NO_YEAR}", _numeric),
    (r"(?<![\d/.])(?P<iso>)(?P<a>\d\d?)(?P<dot>[/.])(?P<b>\d\d?)(?P=dot)"
     r"(?P<year>(?:19|20)\d\d)\b(?P<rel_year>)", _numeric),
    (r"(?:(?<=\bon )|(?<=since )|(?<=before )|(?<=until ))(?P<iso>)(?P<a>\d\d?)"
     rf"(?P<dot>/)(?P<b>\d\d?)\b(?!/){_NO_YEAR}", _numeric),
    (rf"{w.ON_WD}(?<![\d.,:$/])(?<!\d-)(?P<day>\d\d?){w.TH}"
     r"(?: ?(?:-|to|and|or|until) ?(?:the )?(?P<last>\d\d?)(?:st|nd|rd|th)?)?"
     rf"\b (?:of )?{w.MON}(?! \d\d?\b){w.YEAR}", _day),
    (rf"{w.ON_WD}\b(?P<day>{'|'.join(w.ORDINALS)})(?P<th> of ){w.MON}{w.YEAR}", _day),
    (rf"{w.ON_WD}\b{w.MON} (?:the )?(?P<day>\d\d?){w.TH}"
     r"(?:(?: ?- ?| (?:to|and|or|until) (?:the )?(?=\d+[snrt]))"
     r"(?P<last>\d\d?)(?:st|nd|rd|th)?)?"
     rf"{w.NOT_A_DAY}(?! (?:of )?(?:{w.FULL})\b){w.YEAR}", _day),
    (rf"\b{_REL}(?P<holiday>{'|'.join(w.HOLIDAYS)})(?!\w){w.YEAR}", _holiday),
    (rf"\b{_REL}(?P<name>{w.FULL})\b{w.YEAR}", _month),
    (rf"\b(?:{w.WD})(?: (?:to|through|thru) |-)(?:{w.WD})\b",
     lambda m, today, ahead: None),
    (rf"\b(?:(?P<rel>(?:the |this )?(?:last|past)|previous|next|(?:this )?coming|this|"
     rf"on) )?(?P<day>{w.WD})\b(?! (?:nights|mornings|evenings|afternoons)\b|-)"
     r"(?: (?:morning|afternoon|evening|night)\b)?"
     r"(?: (?:of )?(?P<week>last|this|next) week\b)?", _weekday),
    (r"\b(?P<word>the day (?:before yesterday|after tomorrow)|yesterday|today|tomorrow|"
     r"tonight|last night|this (?:morning|afternoon|evening))\b", _word),
    (r"(?<![\w.,-])(?P<more>(?:more than|less than|over|under|at least|half) )?"
     rf"(?:(?P<low>{w.NUM})(?: or | to |(?<=\d)-))?(?P<n>{w.NUM}) {w.UNIT}s?"
     r"(?P<so> or (?:so|two))?(?P<time>) (?P<way>ago|from (?:now|today))\b"
     r"(?: today)?", _ago),
    (rf"\bin (?P<more>)(?:about )?(?P<so>)(?P<low>)(?P<n>{w.NUM}) {w.UNIT}s?\b"
     r"(?P<time>'? time)?(?P<way>)", _ago),
    (r"\bthe (?P<unit>week|weekend|month|year) before last\b",
     lambda m, today, ahead: w.of_calendar(m["unit"].lower(), today, -2)),
    (r"\b(?P<in>(?:in|over|during|within|for|throughout) )?"
     r"(?P<own>(?:the|these|this|my|his|her|our|your|their|its) )?"
     r"(?P<rel>last|past|previous|next|coming|upcoming|this|current) "
     rf"(?:(?P<n>{w.NUM}) )?{w.UNIT}(?P<many>s)?\b(?! of (?!last|this|next))", _unit),
    (r"\b(?:over|at|on|during) the weekend\b", _weekend),
    (rf"\b{_REL}(?P<season>{'|'.join(w.SEASONS)})\b{w.YEAR}", _season),
    (r"\b(?P<year>(?:19|20)\d\d)\b(?!-)", _year),
    (r"\bon the (?P<n>\d\d?)(?:st|nd|rd|th)\b(?: of (?P<of>last|this|next) month)?"
     r"(?=[^\w '-]|$| (?:in|at|I|we|to|with) )", _day_of_month),
)  # fmt: skip
