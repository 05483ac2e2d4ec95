"""What a text says: numbers, times, durations, dates, refusals, conclusions."""

import pytest

from lme_utils import wording
from lme_utils.wording import normalise


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("Notes: a\n\n**Answer:** b", "b"),
        ("Answer: Answer: 2", "2"),
        ("**Step 2: Answer the question**\n\nIt is a pear.", "It is a pear."),
        ("The answer to the question is:\n\n**9**", "9"),
        ("There are 4 and 5. Therefore, you own 9 owls.", "you own 9 owls."),
        ("A pear.", "A pear."),
        (
            "word " * 100 + "\n" + "Made:\n- a\n- b\n- c\n- d",
            "Made:\n- a\n- b\n- c\n- d",
        ),
    ],
)
def test_conclusion(text, end):
    assert wording.conclusion(text) == end


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Two hundred and ONE cups", "200 and 1 cups"),
        ("ninety-nine", "99"),
        ("$2,500", "$2500"),
        ("3k steps", "3000 steps"),
        ("a dozen \u201ceggs\u201d", '1 dozen "eggs"'),
    ],
)
def test_normalise(text, plain):
    assert normalise(text) == plain


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("4 and 5.5", {4, 5.5}),
        ("not 5 but 6", {6}),
        ("step 2: on 2024/03/09 (Sat) 08:00 there were 7", {7}),
        ("v2 and x3", set()),
    ],
)
def test_numbers(text, numbers):
    assert wording.numbers(text) == numbers


def test_times_durations_and_dates():
    assert wording.times("noon, 12 am, 7:05 p.m. and 18:30") == {
        (12, 0),
        (0, 0),
        (19, 5),
        (18, 30),
    }
    assert wording.durations("3 long weeks, 2-day trip") == [(3, "week"), (2, "day")]
    assert wording.durations("2-3 weeks") == []
    found = set(wording.dates("may 9, 2024; the 9th of may; 2024/05/09; 5/9"))
    assert found == {(5, 9, 2024), (5, 9, None)}


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("i don't have that information.", True),
        ("the history does not mention it.", True),
        ("it is difficult to say.", True),
        ("you could not lift it, so you bought a smaller one.", False),
        ("you have no cats.", False),
    ],
)
def test_refusals(text, refuses):
    assert wording.refuses(text) is refuses
