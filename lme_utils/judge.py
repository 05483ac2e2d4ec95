"""Judging: is an answer right? By a language model with five rubrics, or by rules.

The rubric follows the question's type, except that questions with `_abs` in the id are
abstention questions whatever their type (paper §3.3, Figure 10). The model is asked for
yes or no, and where the server tells, the verdict is taken from the probability of
"yes" at the first token: small models know more than they say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from .config import read_prompt
from .offline_judge import rule
from .request import Reply
from .schema import Compat, Verdict

MAX_TOKENS = 4  # of the judge's reply
TOP_LOGPROBS = 10

_RUBRICS = {
    "temporal-reasoning": "temporal",
    "knowledge-update": "knowledge_update",
    "single-session-preference": "preference",
}
_EXPECTED = {
    "preference": "What this user would like",
    "abstention": "Why it can't be answered",
}


class Agreement(NamedTuple):
    """How two judges agree on the same answers; the second is the reference.

    n          answers that the reference labelled
    agree      share of equal labels; a missing label of the first is none
    kappa      Cohen's kappa, agreement beyond chance; nan where chance is all
    false_yes  the first says yes, the reference no
    false_no   the first says no, the reference yes
    missing    the first says nothing
    """

    n: int
    agree: float
    kappa: float
    false_yes: int
    false_no: int
    missing: int


def rubric(question_id: str, question_type: str) -> str:
    """The rubric of a question, also the name of its prompt file.

    >>> rubric("8077ef71", "temporal-reasoning"), rubric("1_abs", "multi-session")
    ('temporal', 'abstention')
    """
    if "_abs" in question_id:
        return "abstention"
    return _RUBRICS.get(question_type, "default")


def judge_offline(
    question_id: str, question_type: str, question: str, answer: str, hypothesis: str
) -> Verdict:
    """The verdict of the rules in `offline_judge`, with the rule that decided."""
    name = rubric(question_id, question_type)
    label, reason = rule(name, question, answer, hypothesis)
    return Verdict(question_id, label, "offline", reason)


def judge_messages(
    question_id: str, question_type: str, question: str, answer: str, hypothesis: str
) -> tuple[dict[str, str], ...]:
    """The message to a judge: rubric, question and expected answer, response.

    What several answers share comes first, so that a server reads it once.
    """
    name = rubric(question_id, question_type)
    content = (
        f"{read_prompt(f'judge_{name}')}\n\n"
        f"Question: {question}\n\n"
        f"{_EXPECTED.get(name, 'Expected answer')}: {answer}\n\n"
        f"Response: {hypothesis}\n\n"
        "Is the response right? Reply with one word, yes or no."
    )
    return ({"role": "user", "content": content},)


def read_verdict(
    question_id: str,
    reply: Reply,
    judge: str,
    threshold: float = 0.5,
    compat: Compat = "fixed",
) -> Verdict:
    """The verdict in a judge's reply.

    threshold  least probability of yes that counts as yes, where the reply has
               probabilities
    compat     official: "yes" anywhere in the reply, as the authors do ("yesterday"
               counts); fixed: probability, else the first word

    The label is None, with a reason, where the judge gave no usable reply.
    """
    if reply.status != "ok":
        return Verdict(question_id, None, judge, reply.reason)
    text = reply.text.strip()
    if compat == "official":
        return Verdict(question_id, "yes" in text.lower(), judge, text)
    p_yes = _p_yes(reply.first_logprobs)
    if p_yes is not None:
        return Verdict(question_id, p_yes >= threshold, judge, text, p_yes)
    word = re.match(r"\W*(yes|no)\b", text.lower())
    if not word:
        return Verdict(question_id, None, judge, f"neither yes nor no: {text[:40]!r}")
    return Verdict(question_id, word[1] == "yes", judge, text)


def agreement(labels: Sequence[bool | None], reference: Sequence[bool]) -> Agreement:
    """How far a judge's labels agree with reference labels, answer by answer.

    >>> agreement([True, False, None, True], [True, False, True, False])
    Agreement(n=4, agree=0.5, kappa=0.2, false_yes=1, false_no=0, missing=1)
    """
    pairs = list(zip(labels, reference, strict=True))
    if not pairs:
        raise ValueError("agreement: got no answers, wanted at least one")
    n = len(pairs)
    agree = sum(a is not None and bool(a) == b for a, b in pairs) / n
    chance = (
        sum(
            sum(a is not None and bool(a) == value for a, _ in pairs)
            * sum(b == value for _, b in pairs)
            for value in (True, False)
        )
        / n**2
    )
    return Agreement(
        n=n,
        agree=agree,
        kappa=round((agree - chance) / (1 - chance), 12) if chance < 1 else math.nan,
        false_yes=sum(a is not None and bool(a) and not b for a, b in pairs),
        false_no=sum(a is not None and not a and b for a, b in pairs),
        missing=sum(a is None for a, _ in pairs),
    )


def _p_yes(first_logprobs: dict[str, float] | None) -> float | None:
    """Probability of yes among yes and no at the first token; None without either."""
    mass = {"yes": 0.0, "no": 0.0}
    for token, logprob in (first_logprobs or {}).items():
        word = token.strip().strip("*").lower()
        if word in mass:
            mass[word] += math.exp(logprob)
    total = sum(mass.values())
    return mass["yes"] / total if total else None
