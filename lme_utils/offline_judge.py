"""A judge without a model: rules on normalised answers.

For when no language model is at hand, and as a second opinion beside one. It follows
the intent of the five rubrics (paper §3.3, Figure 10) with rules on numbers, dates,
durations, names, lists and refusals. Each verdict says which rule decided it. It knows
no synonyms: how far it agrees with a large judge is measured in `benchmarks/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

UNITS = {"day": 1.0, "week": 7.0, "month": 30.4375, "year": 365.25}
OFF_BY_ONE = ("day", "week", "month")  # what the paper's temporal rubric forgives
ENOUGH_TOKENS = 0.6  # of a name or phrase; chosen on the dev half, see benchmarks/
ENOUGH_RUBRIC = 0.38  # of a preference rubric's own words; chosen likewise

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
_MONTH = {name[:n]: i for i, name in enumerate(_MONTHS, 1) for n in (3, len(name))}
_MONTH["sept"] = 9
_STOP = frozenset(
    "a an the of to in on at for with and or by from as is was were be been are am it "
    "its this that these those i you he she they we my your his her their our me us "
    "user users had has have did do does would will also about around approximately "
    "there which who whom what when where how than then so not no yes some any".split()
)
_RUBRIC_STOP = _STOP | frozenset(
    "prefer preferred preference prefers respons response suggest suggestion "
    "suggestions recommend recommendation recommendations might may generic general "
    "interest interested specific specifically tailored related other such like more "
    "new different enjoy likely information resource option use using include based "
    "previous mention focus build consider avoid rather current".split()
)
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
    r"stated|specified|discussed)|i'm not aware|not aware of|lacks? (?:\w+ )?inform)"
)
_ANSWER = re.compile(
    r"(?:\*\*|#+\s*)?(?:final |short )?answer(?:\*\*)?\s*:\s*(?:\*\*)?"
)


_WORD = r"[a-z0-9\u00e0-\u024f]+(?:\.\d+)?"


class Ruling(NamedTuple):
    """Whether an answer is right, and the rule that says so."""

    label: bool
    reason: str


def rule(rubric: str, question: str, answer: str, hypothesis: str) -> Ruling:
    """Judge one answer by rules.

    rubric      "default", "temporal", "knowledge_update", "preference", "abstention"
    question    its words alone prove nothing and are left out of names
    answer      the expected answer; a rubric for preferences

    >>> rule("default", "How many mugs?", "3", "You bought three mugs.")
    Ruling(label=True, reason='numbers: 3')
    >>> rule("abstention", "How many cups?", "You did not say.", "You have 4 cups.")
    Ruling(label=False, reason='answers what was never said')
    """
    text = normalise(hypothesis)
    refuses = is_refusal(hypothesis)
    if rubric == "abstention":
        if refuses or _REFUSAL.search(text):
            return Ruling(True, "says that it is not there")
        return Ruling(False, "answers what was never said")
    if not text:
        return Ruling(False, "empty")
    if rubric == "preference":
        return _rule_preference(answer, text)
    final = normalise(final_part(hypothesis))
    chosen = _rule_choice(normalise(question), normalise(answer), final)
    if chosen:
        return chosen
    found = [_rule_one(g, question, final, rubric) for g in _alternatives(answer)]
    right = [ruling for ruling in found if ruling.label]
    if right and not (refuses and right[0].reason.startswith("words")):
        return right[0]
    if refuses:
        return Ruling(False, "refuses what the history holds")
    return found[0]


def is_refusal(hypothesis: str) -> bool:
    """Whether the answer says that the history does not hold it.

    >>> is_refusal("That was not mentioned."), is_refusal("You did not buy it; 3.")
    (True, False)
    """
    return bool(_REFUSAL.search(normalise(final_part(hypothesis))))


def final_part(hypothesis: str) -> str:
    """What the answer comes to: after the last "Answer:", or the last paragraph.

    >>> final_part("Notes: 3 and 4.\\nAnswer: 7")
    '7'
    """
    text = hypothesis.strip()
    marks = list(_ANSWER.finditer(text.lower()))
    if marks and text[marks[-1].end() :].strip():
        return text[marks[-1].end() :].strip()
    if len(text.split()) <= 90:
        return text
    return "\n".join([p for p in text.split("\n") if p.strip()][-3:])


def normalise(text: str) -> str:
    """Lower case, plain quotes and dashes, number words as digits, no markup.

    >>> normalise("**Twenty-five** dollars \u2013 $1,500")
    '25 dollars - $1500'
    """
    text = text.lower().translate(str.maketrans("\u2019\u2018\u2013\u2014", "''--"))
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
    return " ".join(text.split())


def _alternatives(answer: str) -> list[str]:
    """The expected answer and what it says is acceptable too."""
    parts = re.split(r"(?<=[.!?])\s+|\n", answer.strip())
    also = [p for p in parts if re.search(r"\b(?:also )?acceptable\b", p.lower())]
    main = " ".join(p for p in parts if p not in also) or answer
    cleaned = [re.sub(r"\(.*?\)|is also.*|are also.*", "", p) for p in also]
    return [main, *(p for p in cleaned if p.strip())]


def _rule_one(gold: str, question: str, text: str, rubric: str) -> Ruling:
    gold = normalise(gold)
    first = re.match(r"(yes|no)\b", gold)
    if first:
        said = re.match(r"\W*(yes|no)\b", text)
        if said:
            return Ruling(said[1] == first[1], f"yes or no: {said[1]}")
    dates = list(_dates(gold))
    if dates and len(_tokens(gold)) <= 6:
        there = list(_dates(text))
        return Ruling(all(any(_same_date(d, t) for t in there) for d in dates), "date")
    durations = _durations(gold)
    if durations and rubric == "temporal":
        return Ruling(_has_duration(gold, text), f"duration: {gold[:40]}")
    wanted = _numbers(gold)
    words = _tokens(gold) - _tokens(question) - {f"{n:g}" for n in wanted}
    if wanted and len(words) <= 4:
        there = _numbers(text)
        missing = wanted - there
        return Ruling(
            not missing, "numbers: " + ", ".join(f"{n:g}" for n in sorted(wanted))
        )
    words = words or _tokens(gold)
    share = len(words & _tokens(text)) / len(words) if words else 0.0
    return Ruling(share >= ENOUGH_TOKENS, f"words: {share:.0%} of the expected")


def _rule_choice(question: str, gold: str, text: str) -> Ruling | None:
    """For "which was first, A or B?": the option that the answer names first.

    None where the question offers no two options, or the answer names neither.
    """
    offered = re.search(
        r"[,:] (?:the |my |was it )?([^,:]+?),? or ([^,:?]+)\?", question
    )
    if not offered:
        return None
    a, b = _tokens(offered[1]), _tokens(offered[2])
    a, b = a - b, b - a
    in_a, in_b = len(a & _tokens(gold)), len(b & _tokens(gold))
    if in_a == in_b or not a or not b:
        return None
    right, wrong = (a, b) if in_a > in_b else (b, a)
    for sentence in reversed(re.split(r"(?<=[.!?]) ", text)):
        words = [_stem(word) for word in re.findall(_WORD, sentence)]
        first = next((word for word in words if word in right | wrong), None)
        if first:
            return Ruling(first in right, f"choice: names {first!r} first")
    return None


def _rule_preference(answer: str, text: str) -> Ruling:
    wanted = re.split(r"(?:they|the user) (?:might|may|would|do|does|will) not|\bnot\b",
                      normalise(answer))[0]  # fmt: skip
    words = {w for w in _tokens(wanted) if w not in _RUBRIC_STOP}
    share = len(words & _tokens(text)) / len(words) if words else 0.0
    return Ruling(share >= ENOUGH_RUBRIC, f"rubric: {share:.0%} of its words")


def _tokens(text: str) -> set[str]:
    """Content words, stemmed lightly."""
    words = re.findall(_WORD, text)
    return {_stem(word) for word in words if word not in _STOP}


def _stem(word: str) -> str:
    for end in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(end) and len(word) - len(end) >= 3 and not word.endswith("ss"):
            return word[: -len(end)] + ("y" if end == "ies" else "")
    return word


def _numbers(text: str) -> set[float]:
    """The numbers in a text, dates of the form 2023/05/20 and list marks aside."""
    text = re.sub(r"\b\d{4}[/-]\d{1,2}[/-]\d{1,2}\b", " ", text)
    text = re.sub(r"(?:^|\n)\s*\d+[.)] ", " ", text)
    return {float(n) for n in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}


def _durations(text: str) -> list[tuple[float, str]]:
    """(number, unit) of each duration in days, weeks, months or years."""
    found = re.finditer(r"(\d+(?:\.\d+)?)[- ](?:\w+ )?(day|week|month|year)s?\b", text)
    return [(float(m[1]), m[2]) for m in found]


def _has_duration(gold: str, text: str) -> bool:
    """Whether a text gives a duration, one off forgiven, other units converted.

    Of several in the expected answer the last counts, or a span "from 7 to 10 days".
    """
    number, unit = _durations(gold)[-1]
    span = re.search(r"from (\d+)[^0-9]*? to (\d+)", gold)
    low, high = (float(span[1]), float(span[2])) if span else (number, number)
    slack = 1.0 if unit in OFF_BY_ONE else 0.0
    for other, other_unit in _durations(text):
        if other_unit == unit:
            if low - slack <= other <= high + slack:
                return True
        else:
            days = other * UNITS[other_unit]
            room = max(slack, 0.04 * high * UNITS[unit])
            if low * UNITS[unit] - room <= days <= high * UNITS[unit] + room:
                return True
    bare = _numbers(text) - {n for n, _ in _durations(text)}
    return not _durations(text) and number in bare


def _dates(text: str) -> Iterator[tuple[int, int, int | None]]:
    """(month, day, year or None) of each date in a text."""
    for m in re.finditer(r"\b(\d{4})[/-](\d{1,2})[/-](\d{1,2})\b", text):
        yield int(m[2]), int(m[3]), int(m[1])
    names = "|".join(sorted(_MONTH, key=len, reverse=True))
    day, year = r"(\d{1,2})(?:st|nd|rd|th)?", r"(?:,? (\d{4}))?"
    for m in re.finditer(rf"\b({names})\.? {day}\b{year}", text):
        yield _MONTH[m[1]], int(m[2]), int(m[3]) if m[3] else None
    for m in re.finditer(rf"\b{day} (?:of )?({names})\b{year}", text):
        yield _MONTH[m[2]], int(m[1]), int(m[3]) if m[3] else None
    for m in re.finditer(r"\b(\d{1,2})/(\d{1,2})(?:/(\d{4}))?\b", text):
        yield int(m[1]), int(m[2]), int(m[3]) if m[3] else None


def _same_date(a: tuple[int, int, int | None], b: tuple[int, int, int | None]) -> bool:
    return a[:2] == b[:2] and (None in (a[2], b[2]) or a[2] == b[2])
