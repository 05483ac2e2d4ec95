"""Judging: is an answer right? By a language model with five rubrics, or by rules.

The rubric follows the question's type, except that questions with `_abs` in the id are
abstention questions whatever their type (paper §3.3, Figure 10). The model is asked for
yes or no, and where the server tells, the verdict is taken from the probability of
"yes" at the first token: small models know more than they say.

How far two judges agree is counted answer by answer. What a judge's errors do to a
share right, and how to allow for them, is in `stats.corrected_share`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .config import read_prompt
from .offline_judge import rule
from .request import Reply
from .schema import KINDS, Compat, Verdict

if TYPE_CHECKING:
    import pandas as pd

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
    true_yes   both say yes
    true_no    both say no
    false_yes  the first says yes, the reference no
    false_no   the first says no, the reference yes
    missing    the first says nothing

    The last five add up to n.
    """

    n: int
    agree: float
    kappa: float
    true_yes: int
    true_no: int
    false_yes: int
    false_no: int
    missing: int


_NOTHING = Agreement(0, math.nan, math.nan, 0, 0, 0, 0, 0)


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

    >>> found = agreement([True, False, None, True], [True, False, True, False])
    >>> found.n, found.agree, found.kappa
    (4, 0.5, 0.2)
    >>> found[3:]  # true yes, true no, false yes, false no, missing
    (1, 1, 1, 0, 1)

    Raises ValueError without answers, and for unequal lengths.
    """
    pairs = list(zip(labels, reference, strict=True))
    if not pairs:
        raise ValueError("agreement: got no answers, wanted at least one")
    n = len(pairs)
    count = Counter((None if a is None else bool(a), bool(b)) for a, b in pairs)
    true_yes, true_no = count[True, True], count[False, False]
    false_yes, false_no = count[True, False], count[False, True]
    missing = count[None, True] + count[None, False]
    agree = (true_yes + true_no) / n
    n_yes = true_yes + false_no + count[None, True]  # of the reference
    chance = (true_yes + false_yes) * n_yes + (true_no + false_no) * (n - n_yes)
    chance /= n**2
    kappa = round((agree - chance) / (1 - chance), 12) if chance < 1 else math.nan
    return Agreement(n, agree, kappa, true_yes, true_no, false_yes, false_no, missing)


def agreement_table(
    rows: pd.DataFrame, first: str = "label", second: str = "label_2", by: str = "kind"
) -> pd.DataFrame:
    """How far two judges agree: overall, then for each value of a column.

    rows           one a judged answer, as `study.run` gives them with two judges
    first, second  columns of labels (True, False or missing); the second is the
                   reference
    by             the kinds of question come in the paper's order, other values in
                   order of appearance
    returns        a row for "overall" and each value, with the columns by, n, agree,
                   low, high (95% Wilson interval of `agree`), kappa, true_yes,
                   true_no, false_yes, false_no, missing (as in `Agreement`), and
                   left_out: answers that the second judge gave no label

    Without a label of the second, agree and kappa are nan and the interval (0, 1).
    The interval takes answers as independent: it is too narrow where several of them
    are to the same question. Raises ValueError for a column that is not there.
    """
    import pandas as pd

    from .stats import OVERALL, wilson

    if lacking := [name for name in (by, first, second) if name not in rows]:
        raise ValueError(
            f"agreement_table: no column {', '.join(lacking)}; got "
            f"{', '.join(map(str, rows.columns))}"
        )
    present = list(rows[by].unique())
    names = [kind for kind in KINDS if kind in present]
    names += [name for name in present if name not in KINDS]
    groups = [(OVERALL, rows)] + [(name, rows[rows[by] == name]) for name in names]
    out = []
    for name, group in groups:
        labelled = group[group[second].notna()]
        found = _NOTHING
        if len(labelled):
            labels = [None if pd.isna(x) else bool(x) for x in labelled[first]]
            found = agreement(labels, [bool(x) for x in labelled[second]])
        low, high = wilson(found.true_yes + found.true_no, found.n)
        counts = found._asdict()
        row = {by: name, "n": counts.pop("n"), "agree": counts.pop("agree")}
        row |= {"low": low, "high": high} | counts
        out.append(row | {"left_out": len(group) - len(labelled)})
    return pd.DataFrame(out)


def _p_yes(first_logprobs: dict[str, float] | None) -> float | None:
    """Probability of yes among yes and no at the first token; None without either."""
    mass = {"yes": 0.0, "no": 0.0}
    for token, logprob in (first_logprobs or {}).items():
        word = token.strip().strip("*").lower()
        if word in mass:
            mass[word] += math.exp(logprob)
    total = sum(mass.values())
    return mass["yes"] / total if total else None
