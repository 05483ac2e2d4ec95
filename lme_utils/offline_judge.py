"""A judge without a model: rules on normalised answers.

For when no language model is at hand, and as a second opinion beside one. It follows
the intent of the five rubrics (paper §3.3, Figure 10) with rules on numbers, dates,
times, durations, choices, names, lists and refusals. Each verdict says which rule
decided it. It knows no synonyms: how far it agrees with a large judge is measured in
`benchmarks/`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from . import wording
from .wording import normalise, tokens

OFF_BY_ONE = ("day", "week", "month")  # what the paper's temporal rubric forgives
ENOUGH_TOKENS = 0.5  # of a name or phrase; chosen on the dev half, see benchmarks/
ENOUGH_RUBRIC = 0.22  # of a preference rubric's own words; chosen likewise

_FILLER = frozenset(
    "recommend suggest mention use using call name approximat averag specif receiv "
    "participat total".split()
)
_UNITS = frozenset(
    "day week month year hour minut second tim mil kilometr km pag point dollar "
    "percent episod piec subject gb mb mbps old ago cup ounc pound kg exact".split()
)
_RUBRIC_STOP = frozenset(
    wording.stem(word)
    for word in (
        "prefer preferred preference response suggest suggestion recommend may might "
        "recommendation generic general interest interested specific specifically "
        "tailored related other such like more new different enjoy likely information "
        "resource option use using include based previous mention focus build consider "
        "avoid rather current especially particularly those appreciate take account "
        "existing experience incorporate utilize acknowledge"
    ).split()
)
_STEP = r"\b(?:first|1st|second|then|next|finally|lastly|followed by|and then)\b"
_ASKS_BACK = re.compile(
    r"\b(?:please provide|(?:can|could) you (?:please )?(?:tell|provide|share|give)|"
    r"need (?:some |more )?information|let me know|"
    r"more (?:information|context|details))"
)
_GUESS = re.compile(
    r"\b(?:estimate|guess|approximately|infer|assum\w+|likely|would be|at least|about) "
)


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
    question = normalise(question)
    if rubric == "abstention":
        return _rule_abstention(question, hypothesis)
    if not hypothesis.strip():
        return Ruling(False, "empty")
    if rubric == "preference":
        return _rule_preference(question, answer, hypothesis)
    text = normalise(wording.conclusion(hypothesis))
    tail = normalise(wording.tail(hypothesis))
    for compare in (_rule_order, _rule_choice):
        ruling = compare(question, normalise(answer), text, tail)
        if ruling:
            return ruling
    golds = [normalise(part) for part in _alternatives(answer)]
    found = [_rule_one(gold, question, text, tail, rubric) for gold in golds]
    ruling = next((r for r in found if r.label), found[0])
    if _refuses(text) and not (
        ruling.label and _holds_after(golds, question, text, rubric)
    ):
        return Ruling(False, "refuses what the history holds")
    return ruling


def _refuses(text: str) -> bool:
    plain = wording.NOTHING.fullmatch(text)
    return bool(plain) or wording.refuses(wording.main_clauses(text))


def _holds_after(golds: list[str], question: str, text: str, rubric: str) -> bool:
    """Whether what a refusing text says beside its refusals is right."""
    said = wording.sentences(wording.main_clauses(text))
    rest = "\n".join(s for s in said if not wording.refuses(s))
    found = (_rule_one(gold, question, rest, rest, rubric) for gold in golds)
    return bool(rest) and any(ruling.label for ruling in found)


def _rule_abstention(question: str, hypothesis: str) -> Ruling:
    text = normalise(wording.conclusion(hypothesis))
    if not text:
        return Ruling(False, "empty")
    counted = wording.numbers(text) - wording.numbers(question)
    if wording.NOTHING.fullmatch(text) or counted == {0.0}:
        return Ruling(True, "says that there is none")
    parts = [text]
    if not tokens(text) - tokens(question):
        parts.append(normalise(wording.tail(hypothesis)))
    for part in parts:
        said = wording.sentences(wording.main_clauses(part))
        refusing = [i for i, s in enumerate(said) if wording.refuses(s)]
        if refusing:
            after = said[refusing[-1] + 1 :]
            if any(_GUESS.search(s) and wording.numbers(s) for s in after):
                return Ruling(False, "guesses after saying that it is not there")
            return Ruling(True, "says that it is not there")
    if _ASKS_BACK.search(normalise(hypothesis)):
        return Ruling(True, "asks for it")
    return Ruling(False, "answers what was never said")


def _alternatives(answer: str) -> list[str]:
    """The expected answer and what it says is acceptable too.

    >>> _alternatives("5 days. 6 days (with the last) is also acceptable.")
    ['5 days.', '6 days']
    """
    parts = re.split(r"(?<=[.!?])\s+|\n", answer.strip())
    also = [p for p in parts if re.search(r"\bacceptable\b", p.lower())]
    main = " ".join(p for p in parts if p not in also) or answer
    either = re.fullmatch(r"(.+?) \(or (.+?)\)\.?", main)
    mains = [either[1], either[2]] if either else [main]
    cleaned = [re.sub(r"\s*\(.*?\)|\s*(?:is|are) also.*", "", p) for p in also]
    return [*mains, *(p for p in cleaned if p.strip())]


def _rule_one(gold: str, question: str, text: str, tail: str, rubric: str) -> Ruling:
    polar = re.match(r"(yes|no)\b", gold)
    if polar:
        return _rule_yes_no(polar[1], text)
    n_words = len(tokens(gold))
    wanted_dates = list(wording.dates(gold))
    if wanted_dates and n_words <= 6:
        there = list(wording.dates(text)) or list(wording.dates(tail))
        right = all(any(_same_date(d, t) for t in there) for d in wanted_dates)
        return Ruling(right, "date")
    wanted_times = wording.times(gold)
    if wanted_times and ("am" in gold or "pm" in gold):
        there = wording.times(text) or wording.times(tail)
        return Ruling(wanted_times <= there, "time of day")
    unit = re.match(r"how many (day|week|month|year)s", question)
    if rubric == "temporal":
        bare = unit and re.fullmatch(r"\d+\.?", gold)
        spoken = re.sub(r"(\d)\. ", r"\1 ", f"{gold} {unit[1]}s" if bare else gold)
        if wording.durations(spoken):
            return _rule_duration(spoken, unit, text, tail)
    wanted = wording.numbers(gold)
    words = tokens(gold) - tokens(question) - _FILLER
    words -= {f"{n:g}" for n in wanted}
    if wanted and re.match(r"how (?:many|much|long|old)\b", question) and n_words > 8:
        whole = re.search(r"\btotal of \$?(\d+(?:\.\d+)?)", gold)
        first = re.search(r"(?<![\w.])\d+(?:\.\d+)?", gold)
        wanted, words = {float(whole[1] if whole else first[0])}, set()
    if wanted and len(words - _UNITS) <= question.startswith("how"):
        return _rule_numbers(wanted, text, tail)
    words = words | {f"{n:g}" for n in wanted} or tokens(gold)
    place = text if tokens(text) - tokens(question) else tail
    share = _share(words, place)
    items = [tokens(item) & words for item in re.split(r", and |, | and ", gold)]
    if any(item and _share(item, place) < ENOUGH_TOKENS for item in items):
        return Ruling(False, f"words: {share:.0%} of the expected, not every part")
    choices = [tokens(choice) & words for choice in gold.split(" or ")]
    if len(choices) > 1 and all(choices):  # either will do
        share = max(share, *(_share(choice, place) for choice in choices))
    enough = share >= ENOUGH_TOKENS and share * len(words) >= min(2, len(words))
    return Ruling(enough, f"words: {share:.0%} of the expected")


def _share(words: set[str], text: str) -> float:
    there = tokens(text)
    return len(words & there) / len(words) if words else 0.0


def _rule_numbers(wanted: set[float], text: str, tail: str) -> Ruling:
    there = wording.numbers(text) or wording.numbers(tail)
    listed = ", ".join(f"{n:g}" for n in sorted(wanted))
    return Ruling(wanted <= there, f"numbers: {listed}")


def _rule_yes_no(gold: str, text: str) -> Ruling:
    said = re.findall(
        r"(?:^|[.,:!?\"\n]\s*)(yes|no)(?=[,.!;:\"']|\s*$|\s-)", text, re.MULTILINE
    )
    if said:
        return Ruling(said[-1] == gold, f"yes or no: {said[-1]}")
    denied = re.search(r"\b(?:not|never|neither|no longer)\b|n't\b", text)
    meant = "no" if denied else "yes"
    return Ruling(meant == gold, f"yes or no: means {meant}")


def _rule_duration(gold: str, unit: re.Match | None, text: str, tail: str) -> Ruling:
    """A duration, one off forgiven, other units converted.

    Of several in the expected answer the last counts, or a span "from 7 to 10 days".
    """
    number, name = wording.durations(gold)[-1]
    span = re.search(r"from (\d+)[^0-9]*? to (\d+)", gold)
    low, high = (float(span[1]), float(span[2])) if span else (number, number)
    slack = 1.0 if name in OFF_BY_ONE else 0.0
    reason = f"duration: {number:g} {name}"
    there = wording.durations(text)
    if not there and not wording.numbers(text):
        there = wording.durations(tail)
    for other, other_name in there:
        if other_name == name:
            if low - slack <= other <= high + slack:
                return Ruling(True, reason)
        else:
            same = other * wording.DAYS[other_name] / wording.DAYS[name]
            room = 0.5 if wording.DAYS[other_name] < wording.DAYS[name] else slack
            if low - room <= same <= high + room:
                return Ruling(True, reason)
    if not there and unit:
        bare = wording.numbers(text)
        return Ruling(any(low - slack <= n <= high + slack for n in bare), reason)
    return Ruling(False, reason)


def _rule_choice(question: str, gold: str, text: str, tail: str) -> Ruling | None:
    """For "which was first, A or B?": the option that the answer names first.

    None where the question offers no two options, or the answer names neither.
    """
    offered = re.search(
        r"^(?:which|who|what)\b.*?[,:] ([^,:]+?),? or ([^,:?]+)\?", question
    )
    if not offered:
        return None
    a, b = tokens(offered[1]), tokens(offered[2])
    a, b = a - b, b - a
    in_a, in_b = len(a & tokens(gold)), len(b & tokens(gold))
    if in_a == in_b or not a or not b:
        return None
    right, wrong = (a, b) if in_a > in_b else (b, a)
    for part in (text,) if _refuses(text) else (text, tail):
        said = wording.sentences(wording.main_clauses(part))
        said = [s for s in reversed(said) if not wording.refuses(s)]
        clauses = [c for s in said for c in reversed(re.split(r", ", s))]
        compared = [c for c in clauses if re.search(r"before|earlier", c)]
        named = [c for c in clauses if re.search(r"\bfirst\b", c)]
        for clause in named + compared + said:
            words = wording.stems(clause)
            first = next((word for word in words if word in right | wrong), None)
            if first:
                return Ruling(first in right, f"choice: names {first!r} first")
    return None


def _rule_order(question: str, gold: str, text: str, tail: str) -> Ruling | None:
    """For "what is the order of ...?": each of three parts or more in its place.

    None where the expected answer is no such order, or the answer refuses.
    """
    parts = [tokens(part) for part in re.split(_STEP, gold)]
    parts = [part for part in parts if part]
    if len(parts) < 3 or _refuses(text):
        return None
    own = [part - set().union(*(q for q in parts if q is not part)) for part in parts]
    places = [_place(part, wording.stems(text)) for part in own]
    if all(place is None for place in places):
        places = [_place(part, wording.stems(tail)) for part in own]
    right = None not in places and places == sorted(places)
    return Ruling(right, f"order of {len(own)}")


def _place(part: set[str], words: list[str]) -> int | None:
    """Where a part is said: the middle of the first places of its words."""
    firsts = sorted(words.index(word) for word in part if word in words)
    return firsts[len(firsts) // 2] if firsts else None


def _rule_preference(question: str, answer: str, hypothesis: str) -> Ruling:
    wanted = re.split(
        r"(?:they|the user) (?:might|may|would|do|does|will) not|\bnot\b",
        normalise(answer),
    )[0]
    words = tokens(wanted) - _RUBRIC_STOP - tokens(question)
    share = _share(words, wording.last_step(normalise(hypothesis)))
    return Ruling(share >= ENOUGH_RUBRIC, f"rubric: {share:.0%} of its words")


def _same_date(a: tuple[int, int, int | None], b: tuple[int, int, int | None]) -> bool:
    return a[:2] == b[:2] and (None in (a[2], b[2]) or a[2] == b[2])
