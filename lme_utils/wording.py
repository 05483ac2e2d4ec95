"""What a text says, for the rules of `offline_judge`: numbers, dates, times, durations,
content words, refusals, and where its conclusion begins."""

from __future__ import annotations

import re
from collections.abc import Iterator

DAYS = {"day": 1.0, "week": 7.0, "month": 30.4375, "year": 365.25}

MOST_WORDS = 90  # of a conclusion

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_NUMBERS = {word: i for i, word in enumerate(_ONES)}
_NUMBERS |= {word: 10 * i for i, word in enumerate(_TENS, 2)}
_MONTHS = (
    "january february march april may june july august september october november "
    "december"
).split()
MONTH = {name[:n]: i for i, name in enumerate(_MONTHS, 1) for n in (3, len(name))}
MONTH["sept"] = 9
_STOP = frozenset(
    "a an the of to in on at for with and or by from as is was were be been are am it "
    "its this that these those i you he she they we my your his her their our me us "
    "user users had has have did do does would will also about around approximately "
    "there which who whom what when where how than then so not no yes some any".split()
)
_WORD = r"[a-z0-9\u00e0-\u024f]+(?:\.\d+)?"
_LIST_MARK = re.compile(r"\s*(?:[-*\u2022+]|\d+[.)])\s")

_REFUSAL = re.compile(
    r"\b(?:(?:do|does|did|is|are|was|were|could|can|have|has|had|wo|would)(?:n't| not)"
    r"(?: \w+){0,3}? (?:mention|specif|provid|includ|contain|state|discuss|have|find|"
    r"enough|inform|know|indicat|say|said|told|tell|give|given|shar|determin|explicit|"
    r"talk|recall|possible|available|answer|record|any|see|disclos|detail|cover|refer)"
    r"|cannot (?:\w+ ){0,2}?(?:be determined|determin|answer|find|provid|tell|calculat|"
    r"confirm|say|know|recall|specif)"
    r"|no (?:\w+ ){0,3}?(?:mention|information|record|indication|evidence|detail|"
    r"reference|data|direct mention|explicit)"
    r"|not (?:\w+ )?(?:mentioned|specified|provided|stated|available|enough|sure|clear|"
    r"possible|given|explicitly|recorded|discussed|included|known|found|indicated)"
    r"|unknown|unable to|insufficient|unclear|never (?:\w+ )?(?:mentioned|said|told|"
    r"stated|specified|discussed)|i'm not aware|not aware of|lacks? (?:\w+ )?inform"
    r"|(?:difficult|impossible|hard) to (?:\w+ )?(?:determin|give|provid|say|tell|"
    r"answer)"
    r"|none of the (?:\w+ )?(?:sessions|conversations|chats))"
)
NOTHING = re.compile(r"\W*(?:empty|none|nothing|n/a|not applicable|unknown)\W*")
_ASIDE = re.compile(  # a reason or concession before the main clause
    r"\b(?:since|although|though|even though|while|as|because|given(?: that)?|"
    r"considering(?: that)?|despite|without|assuming|based on|if)\b[^.;:!?]*?, "
    r"(?=(?:\w+ ){0,3}?\w)"
)
_ANSWER = re.compile(
    r"\b(?:answer|response)(?: to (?:the|this|your) question)?\W*\n+"
    r"|\banswer the (?:\w+ )?question\W*\n+"
    r"|\b(?:final |short |my )?answer[^.:\n]{0,20}:"
    r"|\banswer to [^.\n]{0,220}?\bis:?"
    r"|\banswer (?:is|would be|will be)\b:?"
)
_THEREFORE = re.compile(
    r"(?:^|[.!?:,*\n]\s*)(?:therefore|thus|hence|so,|in total|in summary|in conclusion|"
    r"to summarize|overall|conclusion|based on (?:this|these|the)\b[^.\n]{0,80}?, )"
)


def normalise(text: str) -> str:
    """Lower case, plain quotes and dashes, number words as digits, no markup.

    >>> normalise("**Twenty-five** dollars \u2013 $1,500, 16GB")
    '25 dollars - $1500, 16 gb'
    """
    text = text.lower().translate(
        str.maketrans("\u2019\u2018\u201c\u201d\u2013\u2014", "''\"\"--")
    )
    text = re.sub(r"[*_`#]", "", text)
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    tens, ones = "|".join(_TENS), "|".join(_ONES[1:10])
    text = re.sub(
        rf"\b({tens})[- ]({ones})\b",
        lambda m: str(_NUMBERS[m[1]] + _NUMBERS[m[2]]),
        text,
    )
    text = re.sub(rf"\b({'|'.join(_NUMBERS)})\b", lambda m: str(_NUMBERS[m[1]]), text)
    text = re.sub(r"\b(a|an) (?=(?:hundred|dozen|day|week|month|year)\b)", "1 ", text)
    text = re.sub(r"\b(\d+) hundred\b", lambda m: str(int(m[1]) * 100), text)
    text = re.sub(
        r"\b(\d+(?:\.\d+)?) ?(?:thousand|k)\b",
        lambda m: f"{float(m[1]) * 1000:g}",
        text,
    )
    text = re.sub(
        r"\b(\d+)(gb|tb|mb|mbps|gbps|km|kg|lbs?|am|pm|ml|oz)\b", r"\1 \2", text
    )
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def conclusion(hypothesis: str) -> str:
    """What the answer comes to, as it is written: what follows the last "Answer:",
    or the last "therefore"; else a short answer whole, and the end of a long one.

    >>> conclusion("Notes: 3 and 4.\\nAnswer: 7")
    '7'
    """
    text = hypothesis.strip()
    for marks in (_ANSWER, _THEREFORE):
        for mark in reversed(list(marks.finditer(text.lower()))):
            rest = text[mark.end() :].strip(' \n*:,"#')
            if rest and len(rest.split()) <= MOST_WORDS:
                return rest
    return tail(text)


def tail(hypothesis: str, n_lines: int = 3) -> str:
    """A short text whole; of a longer one the last lines, a list with its heading."""
    text = hypothesis.strip()
    if len(text.split()) <= MOST_WORDS:
        return text
    lines = [line for line in text.split("\n") if line.strip()]
    start = max(0, len(lines) - n_lines)
    while start > 0 and _LIST_MARK.match(lines[start]):
        start -= 1
    return "\n".join(lines[start:])


def last_step(text: str) -> str:
    """A normalised text from its last "answer" or "step 3" on, else whole."""
    marks = list(re.finditer(r"\banswer\b|\bstep \d", text))
    return text[marks[-1].start() :] if marks else text


def sentences(text: str) -> list[str]:
    """The sentences of a normalised text."""
    return [s for s in re.split(r"(?<=[.!?])\s+|\n", text) if s.strip(" .\"'")]


def main_clauses(text: str) -> str:
    """A normalised text without reasons and concessions before main clauses.

    >>> main_clauses("since no tram was mentioned, the bus was first.")
    'the bus was first.'
    """
    return _ASIDE.sub("", text)


def refuses(text: str) -> bool:
    """Whether a normalised text says that something is not known.

    >>> refuses("that was not mentioned."), refuses("you did not buy it; 3.")
    (True, False)
    """
    return bool(_REFUSAL.search(text))


def tokens(text: str) -> set[str]:
    """Content words of a normalised text, stemmed lightly."""
    words = re.findall(_WORD, text)
    return {stem(word) for word in words if word not in _STOP}


def stems(text: str) -> list[str]:
    """All words of a normalised text in order, stemmed lightly."""
    return [stem(word) for word in re.findall(_WORD, text)]


def stem(word: str) -> str:
    """
    >>> [stem(word) for word in ("trimming", "trimmed", "parties", "glass")]
    ['trim', 'trim', 'party', 'glass']
    """
    for end in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(end) and len(word) - len(end) >= 3 and not word.endswith("ss"):
            word = word[: -len(end)] + ("y" if end == "ies" else "")
            if end in ("ing", "ed") and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word.removesuffix("e") if len(word) > 4 else word


def numbers(text: str) -> set[float]:
    """The numbers a normalised text gives; dates, list and session numbers aside,
    and numbers it denies ("not 5 but 6")."""
    text = re.sub(
        r"\b\d{4}[/-]\d{1,2}[/-]\d{1,2}(?: \(\w+\))?(?: \d\d:\d\d)?", " ", text
    )
    text = re.sub(r"\b(?:sessions?|steps?) \d+(?:(?:,| and|, and) \d+)*", " ", text)
    text = re.sub(
        r"\b(?:not|instead of|rather than) (?:just |only )?\$?\d+(?:\.\d+)?\b(?!-)",
        " ",
        text,
    )
    return {float(n) for n in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}


def times(text: str) -> set[tuple[int, int]]:
    """(hour, minute) of each time of day in a normalised text."""
    found = set()
    for m in re.finditer(r"\b(\d{1,2})(?::(\d\d))?(?::\d\d)? ?(a\.?m|p\.?m)\b", text):
        found.add((int(m[1]) % 12 + 12 * (m[3][0] == "p"), int(m[2] or 0)))
    for m in re.finditer(r"\b(\d{1,2}):(\d\d)\b(?! ?[ap]\.?m)", text):
        found.add((int(m[1]), int(m[2])))
    if re.search(r"\bnoon\b", text):
        found.add((12, 0))
    if re.search(r"\bmidnight\b", text):
        found.add((0, 0))
    return found


def durations(text: str) -> list[tuple[float, str]]:
    """(number, unit) of each duration in days, weeks, months or years."""
    found = re.finditer(
        r"(?<![\w.-])(\d+(?:\.\d+)?)[- ](?:[a-z]+ )?(day|week|month|year)s?\b", text
    )
    return [(float(m[1]), m[2]) for m in found]


def dates(text: str) -> Iterator[tuple[int, int, int | None]]:
    """(month, day, year or None) of each date in a normalised text."""
    for m in re.finditer(r"\b(\d{4})[/-](\d{1,2})[/-](\d{1,2})\b", text):
        yield int(m[2]), int(m[3]), int(m[1])
    names = "|".join(sorted(MONTH, key=len, reverse=True))
    day, year = r"(\d{1,2})(?:st|nd|rd|th)?\b", r"(?:,? (\d{4}))?"
    for m in re.finditer(rf"\b({names})\.? {day}{year}", text):
        yield MONTH[m[1]], int(m[2]), int(m[3]) if m[3] else None
    for m in re.finditer(rf"\b{day} (?:of )?({names})\b{year}", text):
        yield MONTH[m[2]], int(m[1]), int(m[3]) if m[3] else None
    for m in re.finditer(r"(?<![\d/])(\d{1,2})/(\d{1,2})(?:/(\d{4}))?\b", text):
        yield int(m[1]), int(m[2]), int(m[3]) if m[3] else None
