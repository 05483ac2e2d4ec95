"""Judges: five rubrics, verdicts from replies, and rules case by case."""

import math

import pandas as pd
import pytest

from lme_utils import judge, stats
from lme_utils.offline_judge import rule
from lme_utils.request import Reply
from lme_utils.schema import QUESTION_TYPES

NOT_SAID = "You did not mention a spa."


def test_abstention_goes_by_id_for_every_type():
    for kind in QUESTION_TYPES:
        assert judge.rubric("q1_abs", kind) == "abstention"
        assert judge.rubric("gpt4_1_abs_2", kind) == "abstention"
    assert [judge.rubric("q1", kind) for kind in QUESTION_TYPES] == [
        "default",
        "default",
        "preference",
        "default",
        "knowledge_update",
        "temporal",
    ]


@pytest.mark.parametrize("kind", QUESTION_TYPES)
@pytest.mark.parametrize("name", ["q1", "q1_abs"])
def test_a_judge_sees_question_answer_and_response_in_this_order(name, kind):
    (message,) = judge.judge_messages(name, kind, "QQ?", "AA", "HH")
    text = message["content"]
    assert text.index("QQ?") < text.index("AA") < text.index("HH")
    assert text.endswith("yes or no.") and name not in text


def reply(text="", status="ok", first=None, reason=""):
    return Reply("k", status, text, reason=reason, first_logprobs=first)


@pytest.mark.parametrize(
    ("text", "fixed", "official"),
    [
        ("Yes", True, True),
        ("**Yes**", True, True),
        ("no", False, False),
        ("No, it says yes later", False, True),
        ("yesterday", None, True),
        ("incorrect", None, False),
        ("correct", None, False),
        ("nobody knows", None, False),
    ],
)
def test_verdict_in_words(text, fixed, official):
    assert judge.read_verdict("q", reply(text), "j").label is fixed
    assert judge.read_verdict("q", reply(text), "j", compat="official").label is (
        official
    )


def test_verdict_from_probabilities():
    first = {"No": math.log(0.5), "Yes": math.log(0.2), " yes": math.log(0.2), "x": -9}
    verdict = judge.read_verdict("q", reply("No", first=first), "j")
    assert verdict.label is False and verdict.p_yes == pytest.approx(4 / 9)
    assert judge.read_verdict("q", reply("No", first=first), "j", 0.4).label is True
    words = judge.read_verdict("q", reply("Yes", first={"Hm": -0.1}), "j")
    assert words.label is True and words.p_yes is None


def test_a_failed_judge_gives_no_label_and_the_reason():
    verdict = judge.read_verdict("q", reply(status="failed", reason="500"), "j")
    assert verdict.label is None and verdict.reason == "500"


def test_agreement_by_hand():
    labels = [True] * 40 + [False] * 60
    reference = [True] * 30 + [False] * 10 + [True] * 20 + [False] * 40
    found = judge.agreement(labels, reference)
    assert (found.n, found.agree, found.false_yes, found.false_no) == (100, 0.7, 10, 20)
    assert found.kappa == pytest.approx((0.7 - 0.5) / 0.5)
    assert (found.true_yes, found.true_no, found.missing) == (30, 40, 0)
    with pytest.raises(ValueError, match="got no answers"):
        judge.agreement([], [])


def test_agreement_counts_an_unlabelled_answer_as_none():
    labels = [True, True, False, None, None]
    found = judge.agreement(labels, [True, False, True, True, False])
    # chance: (2 yes * 3 yes + 1 no * 2 no) / 25 = 0.32
    assert found == judge.Agreement(
        n=5,
        agree=0.2,
        kappa=pytest.approx((0.2 - 0.32) / 0.68),
        true_yes=1,
        true_no=0,
        false_yes=1,
        false_no=1,
        missing=2,
    )


def test_agreement_table_by_hand():
    kinds = ["abstention", "abstention", "multi-session", "multi-session"]
    rows = pd.DataFrame(
        {
            "kind": [*kinds, "multi-session", "knowledge-update"],
            "label": pd.array([True, None, True, False, True, True], dtype="boolean"),
            "label_2": pd.array([True, True, False, True, True, None], dtype="boolean"),
        }
    )
    table = judge.agreement_table(rows)
    counts = ["n", "true_yes", "true_no", "false_yes", "false_no", "missing"]
    intervals = ["agree", "low", "high", "kappa"]
    columns = ["kind", "n", *intervals, *counts[1:], "left_out"]
    assert list(table.columns) == columns
    assert table.set_index("kind")[[*counts, "left_out"]].T.to_dict("list") == {
        "overall": [5, 2, 0, 1, 1, 1, 1],
        "multi-session": [3, 1, 0, 1, 1, 0, 0],  # the paper's order of kinds
        "knowledge-update": [0, 0, 0, 0, 0, 0, 1],
        "abstention": [2, 1, 0, 0, 0, 1, 0],
    }
    overall, multi, empty, _ = table.to_dict("records")
    assert overall["agree"] == 0.4 and multi["agree"] == pytest.approx(1 / 3)
    # overall, chance: (3 yes * 4 yes + 1 no * 1 no) / 25 = 0.52
    assert overall["kappa"] == pytest.approx((0.4 - 0.52) / 0.48)
    assert (overall["low"], overall["high"]) == stats.wilson(2, 5)
    assert math.isnan(empty["agree"]) and (empty["low"], empty["high"]) == (0, 1)
    swapped = judge.agreement_table(rows, "label_2", "label").iloc[0]
    # the answer that only the other judge labels is in, and the one it skips is out
    assert swapped[counts].tolist() == [5, 2, 0, 1, 1, 1] and swapped["left_out"] == 1


def test_agreement_table_by_another_column():
    rows = pd.DataFrame(
        {"reader": ["b", "a", "b"], "label": [True] * 3, "judged": [True, True, False]}
    )
    table = judge.agreement_table(rows, "judged", "label", by="reader")
    assert table["reader"].tolist() == ["overall", "b", "a"]
    assert table["false_no"].tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match="no column kind, label_2; got reader"):
        judge.agreement_table(rows)


CASES = [
    # numbers
    ("default", "How many mugs?", "3", "You bought three mugs.", True),
    ("default", "How many mugs?", "3", "You bought 30 mugs.", False),
    ("default", "How many mugs?", "3", "You bought 13 mugs.", False),
    ("default", "How many mugs?", "3", "You bought 3.5 mugs.", False),
    ("default", "How many mugs?", "25", "Twenty-five in all.", True),
    ("default", "How much did it cost?", "$1,500", "It was 1500 dollars.", True),
    ("default", "How much did it cost?", "$1,500", "You paid $150.", False),
    ("default", "How many?", "two", "Answer: 2", True),
    ("default", "How long is it?", "4.5 km", "It is 4.5 kilometres long.", True),
    ("default", "What share?", "20%", "Twenty percent.", True),
    ("default", "How many?", "12", "Notes: 5 and 7.\nAnswer: 12", True),
    ("default", "How many?", "12", "Notes: 12 and 7.\nAnswer: 19", False),
    ("default", "How many?", "6", "Not 5 but 6.", True),
    ("default", "How many miles?", "3 thousand", "3000 miles", True),
    ("default", "How many?", "5", "Not 5 but 6.", False),
    ("default", "How many?", "6", "Session 6 says: nine.", False),
    ("default", "How many?", "12", "5 there, 7 here. Therefore, you own 12.", True),
    ("default", "How many?", "7", "5 there, 7 here. Therefore, you own 12.", False),
    ("default", "How much is stored?", "64GB", "It holds 64 GB.", True),
    ("default", "What model?", "Marten T-40 tractor", "The Marten T-40", True),
    ("default", "What model?", "Marten T-40 tractor", "A Heron Z-40.", False),
    (
        "default",
        "How many pots did I glaze or sell?",
        "I glazed or sold five pots: the blue jug, two bowls, the vase and a cup.",
        "You glazed or sold 5 pots.",
        True,
    ),
    (
        "default",
        "How many hours did I row?",
        "9 hours one way (or 18 hours there and back)",
        "18 hours in all",
        True,
    ),
    # times of day
    ("default", "What time is yoga?", "9:00 AM", "At 9 am.", True),
    ("default", "What time is yoga?", "9:00 AM", "At 9 pm.", False),
    ("default", "What time is yoga?", "7 pm", "It starts at 7:00 p.m.", True),
    ("default", "What time is yoga?", "7:30 pm", "It starts at 19:30.", True),
    ("default", "What time is yoga?", "7:30 pm", "It starts at 7 pm.", False),
    # words
    ("default", "Which colour?", "Dark teal", "You painted it dark teal.", True),
    ("default", "Which colour?", "Dark teal", "You painted it red.", False),
    ("default", "Which title?", "Keepers of the Lamp", "'Keepers of the Lamp'", True),
    ("default", "Which title?", "Keepers of the Lamp", "Lamp", False),
    ("default", "What did I study?", "Law", "You studied LAW.", True),
    ("default", "What did I study?", "Law", "It was lawn care.", False),
    ("default", "Is it correct?", "incorrect", "It is correct.", False),
    ("default", "Who has it?", "The baker", "bakers", True),
    ("default", "Where?", "Zürich", "In Zürich, of course.", True),
    # lists
    ("default", "Which three?", "apples, pears and figs", "Figs, pears, apples.", True),
    ("default", "Which three?", "apples, pears and figs", "Only apples.", False),
    ("default", "Which three?", "apples, pears and figs", "Apples and figs.", False),
    # order
    (
        "temporal",
        "In which order did I plant them?",
        "First the beans, then the chard, and finally the leeks.",
        "1. beans\n2. chard\n3. leeks",
        True,
    ),
    (
        "temporal",
        "In which order did I plant them?",
        "First the beans, then the chard, and finally the leeks.",
        "1. chard\n2. beans\n3. leeks",
        False,
    ),
    # yes and no
    ("default", "Did I mend it?", "Yes", "You did mend the kite.", True),
    ("default", "Did I mend it?", "Yes", "You never mended it.", False),
    ("default", "Did I mend it?", "Yes", "There is no mention of that.", False),
    ("default", "Did I mend it?", "No, you did not.", "So far, no.", True),
    ("default", "Did I go?", "Yes", "Yes, you went.", True),
    ("default", "Did I go?", "Yes", "No, you did not go.", False),
    ("default", "Did I go?", "No", "No.", True),
    ("default", "Did I go?", "No", "Yes.", False),
    # dates
    ("default", "When?", "May 9", "On 9 May 2024.", True),
    ("default", "When?", "May 9, 2024", "On the 9th of May.", True),
    ("default", "When?", "May 9, 2024", "2024/05/09", True),
    ("default", "When?", "May 9, 2024", "May 9, 2023", False),
    ("default", "When?", "May 9", "May 19", False),
    ("default", "When?", "yesterday", "Yes.", False),
    # durations
    ("temporal", "How many days?", "14 days", "13 days", True),
    ("temporal", "How many days?", "14 days", "15 days ago", True),
    ("temporal", "How many days?", "14 days", "16 days", False),
    ("temporal", "How many days?", "14 days", "two weeks", True),
    ("temporal", "How many days?", "14 days", "three weeks", False),
    ("temporal", "How many weeks?", "2 weeks", "14 days", True),
    ("temporal", "How many months?", "2 months", "59 days", True),
    ("temporal", "How many months?", "2 months", "four months", False),
    ("temporal", "How many years?", "2 years", "3 years", False),
    ("temporal", "How many days?", "14 days", "14", True),
    ("temporal", "How many days?", "14 days", "15", True),
    ("temporal", "How many days?", "14", "13", True),
    ("temporal", "How many weeks ago?", "3", "It was 20 days ago.", True),
    ("temporal", "How many weeks ago?", "3", "It was 5 weeks ago.", False),
    ("temporal", "How many guests?", "14", "15 guests", False),
    (
        "temporal",
        "How many days?",
        "47 days. 48 days (counting the first) is also acceptable.",
        "It took 48 days.",
        True,
    ),
    (
        "temporal",
        "How long?",
        "One week. Answers from 7 days to 10 days are also acceptable.",
        "9 days",
        True,
    ),
    ("default", "How many days?", "14 days", "13 days", False),
    # choices
    ("temporal", "Which was first, the swim or the run?", "The run", "The run.", True),
    (
        "temporal",
        "Which was first, the swim or the run?",
        "The run",
        "The swim was first, then the run.",
        False,
    ),
    (
        "temporal",
        "Which was first, the swim or the run?",
        "The run",
        "Since the swim was on Sunday, the run was before the swim.",
        True,
    ),
    # updates
    (
        "knowledge_update",
        "Where is the loom?",
        "in the attic",
        "It stood in the cellar before; now it is in the attic.",
        True,
    ),
    (
        "knowledge_update",
        "Where is the loom?",
        "in the attic",
        "You spoke of the attic later.\nAnswer: in the cellar",
        False,
    ),
    ("knowledge_update", "How many?", "11 pieces", "It was 9, now 11 pieces.", True),
    ("knowledge_update", "How many?", "11 pieces", "9 pieces.", False),
    # refusals
    ("default", "How many mugs?", "3", "That was not mentioned.", False),
    ("default", "Which colour?", "teal", "I do not have that information.", False),
    ("default", "Which colour?", "teal", "", False),
    ("abstention", "Which spa?", NOT_SAID, "That was not mentioned.", True),
    ("abstention", "Which spa?", NOT_SAID, "You didn't tell me about a spa.", True),
    ("abstention", "Which spa?", NOT_SAID, "There is no information on it.", True),
    ("abstention", "Which spa?", NOT_SAID, "It cannot be determined.", True),
    ("abstention", "Which spa?", NOT_SAID, "I'm not sure about any spa.", True),
    ("abstention", "Which spa?", NOT_SAID, "You went to the Rose spa.", False),
    ("abstention", "How many spas?", NOT_SAID, "Answer: 2", False),
    ("abstention", "How many spas?", NOT_SAID, "Answer: 0", True),
    ("abstention", "Which spa?", NOT_SAID, "Answer: none", True),
    ("abstention", "Which spa?", NOT_SAID, "Could you tell me its name?", True),
    (
        "abstention",
        "How many spas?",
        NOT_SAID,
        "It was not mentioned. However, I guess 4 spas.",
        False,
    ),
    (
        "abstention",
        "Which spa was first?",
        NOT_SAID,
        "Since there is no mention of the other, the Rose spa was first.",
        False,
    ),
    ("default", "Which colour?", "teal", "Shades were not mentioned; teal.", False),
    ("default", "Which colour?", "teal", "No shade was recorded. It is teal.", True),
    (
        "default",
        "Which colour?",
        "teal",
        "Although the shade is not specified, you painted it teal.",
        True,
    ),
    # preferences
    (
        "preference",
        "What shall I knit?",
        "The user would prefer small colourwork in cotton or linen.",
        "Step 1: notes. You knit cotton and linen colourwork.\nStep 2: A wool blanket.",
        False,
    ),
    (
        "preference",
        "What shall I knit?",
        "The user would prefer small colourwork in cotton or linen. They would not "
        "prefer wool.",
        "A cotton hat with small colourwork bands.",
        True,
    ),
    (
        "preference",
        "What shall I knit?",
        "The user would prefer small colourwork in cotton or linen. They would not "
        "prefer wool.",
        "A large wool blanket.",
        False,
    ),
    # A zero beside a number of the question's own is still "none".
    (
        "abstention",
        "How many kites did I buy in the first two weeks?",
        "Kites were not mentioned.",
        "Answer: 0 kites were bought in the first two weeks.",
        True,
    ),
    # What is called first counts before what is called before it.
    (
        "temporal",
        "Which came first, the flood in the cellar or the new boiler?",
        "The flood in the cellar",
        "The flood came first, in April, before the boiler was put in.",
        True,
    ),
    # Of two that will do, one is enough.
    (
        "default",
        "Which wood did you suggest for the bench?",
        "I suggested larch or robinia.",
        "You suggested larch.",
        True,
    ),
    (
        "default",
        "Which wood did you suggest for the bench?",
        "I suggested larch or robinia.",
        "You suggested oak.",
        False,
    ),
]


@pytest.mark.parametrize(("rubric", "question", "answer", "hypothesis", "right"), CASES)
def test_rules(rubric, question, answer, hypothesis, right):
    label, reason = rule(rubric, question, answer, hypothesis)
    assert label is right, reason
    assert reason


def test_offline_verdicts_name_the_judge():
    verdict = judge.judge_offline("q", "multi-session", "How many?", "3", "Three.")
    assert (verdict.label, verdict.judge) == (True, "offline")
    assert verdict.reason == "numbers: 3"
