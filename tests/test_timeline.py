"""Dates named in texts, ranges of questions, and what they do to a ranking."""

import json
from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import ValidationError, validate

from lme_utils import timeline
from lme_utils.date_words import shift
from lme_utils.request import Reply
from lme_utils.schema import Instance, Ranking, Record
from lme_utils.timeline import Span, dates_by_rules, official_span, prune

ASKED = datetime(2023, 6, 14, 9, 30)  # a Wednesday


def span(text):
    """ "2023-05-01 2023-05-31", one day twice if it is written once, or None."""
    if text is None:
        return None
    start, *end = map(date.fromisoformat, text.split())
    return Span(start, *(end or [start]))


# Spans


def test_a_span_holds_both_ends_and_does_not_run_backwards():
    week = span("2023-02-27 2023-03-05")
    assert week.n_days == 7 == len(list(week.days()))
    assert date(2023, 3, 5) in week and date(2023, 3, 6) not in week
    with pytest.raises(ValueError, match="start 2023-03-05 and end 2023-03-04"):
        Span(date(2023, 3, 5), date(2023, 3, 4))


@pytest.mark.parametrize(
    "day, n, unit, wanted",
    [
        (date(2024, 1, 31), 1, "month", date(2024, 2, 29)),
        (date(2023, 3, 15), -3, "month", date(2022, 12, 15)),
        (date(2024, 2, 29), -1, "year", date(2023, 2, 28)),
        (date(2023, 1, 2), -1, "week", date(2022, 12, 26)),
    ],
)
def test_months_and_years_are_those_of_the_calendar(day, n, unit, wanted):
    assert shift(day, n, unit) == wanted


# Ranges of questions, asked on Wednesday 2023-06-14


@pytest.mark.parametrize(
    "question, wanted",
    [
        # days
        ("Which seeds did I sow on May 3rd?", "2023-05-03"),
        ("Which seeds did I sow on 3 May 2022?", "2022-05-03"),
        ("Which seeds did I sow on the 3rd of May?", "2023-05-03"),
        ("Which seeds did I sow on the third of May?", "2023-05-03"),
        ("Which seeds did I sow on Sunday, May 7th?", "2023-05-07"),
        ("Which seeds did I sow on November 30?", "2022-11-30"),
        ("Which seeds did I sow on march 3rd?", "2023-03-03"),
        ("Which seeds did I sow on Sept. 2, 2021?", "2021-09-02"),
        ("Which seeds did I sow on 03/12/2023?", "2023-03-12"),
        ("Which seeds did I sow on 25/12/2022?", "2022-12-25"),
        ("Which seeds did I sow on 20.05.2023?", "2023-05-20"),
        ("Which seeds did I sow on 2023/05/20?", "2023-05-20"),
        ("Which seeds did I sow on 2023-05-20?", "2023-05-20"),
        ("Which seeds did I sow on 5/20?", "2023-05-20"),
        ("Which seeds did I sow on February 29th?", "2020-02-29"),
        ("Which seeds did I sow on the 10th?", "2023-06-10"),
        ("Which seeds did I sow on the 20th?", "2023-05-20"),
        ("Which seeds did I sow from 3 to 5 May?", "2023-05-03 2023-05-05"),
        ("Which seeds did I sow May 3-5, 2022?", "2022-05-03 2022-05-05"),
        ("What broke between May 30 and June 2?", "2023-05-30 2023-06-02"),
        ("What broke on 3 May and 5 May 2021?", "2021-05-03 2021-05-05"),
        # months, years
        ("Which baker did I go to in March and April?", "2023-03-01 2023-04-30"),
        ("Who visited from March to May?", "2023-03-01 2023-05-31"),
        ("Who visited in December or January?", "2022-12-01 2023-01-31"),
        ("Who visited from November to February?", "2022-11-01 2023-02-28"),
        ("Who visited in March and April 2022?", "2022-03-01 2022-04-30"),
        ("Who visited in March, April and May?", "2023-03-01 2023-05-31"),
        ("who visited in may?", "2023-05-01 2023-05-31"),
        ("Who visited in early March?", "2023-03-01 2023-03-31"),
        ("Who visited in the first week of May?", "2023-05-01 2023-05-31"),
        ("Who visited in May last year?", "2022-05-01 2022-05-31"),
        ("Last year, who visited in May?", "2022-05-01 2022-05-31"),
        ("Who visited last June?", "2022-06-01 2022-06-30"),
        ("Who won the October race?", "2022-10-01 2022-10-31"),
        ("Who visited in 2021?", "2021-01-01 2021-12-31"),
        ("What has changed since May?", "2023-05-01 2023-06-14"),
        ("What has changed from March onwards?", "2023-03-01 2023-06-14"),
        ("What did I buy after May 3rd?", "2023-05-03 2023-06-14"),
        ("What did I read between March and today?", "2023-03-01 2023-06-14"),
        # weekdays
        ("Which film did I see last Tuesday?", "2023-06-13"),
        ("Which film did I see last Thursday?", "2023-06-08"),
        ("Which film did I see last Wednesday?", "2023-06-07"),
        ("Which film did I see on Friday?", "2023-06-09"),
        ("Which film did I see on Friday night?", "2023-06-09"),
        ("Which film did I see on Friday last week?", "2023-06-09"),
        ("Which films did I see on Monday and Friday?", "2023-06-09 2023-06-12"),
        ("Which film am I seeing next Friday?", "2023-06-16"),
        (
            "What came between Monday and Thursday last week?",
            "2023-06-05 2023-06-08",
        ),
        # relative to today
        ("What did I cook today?", "2023-06-14"),
        ("What did I cook last night?", "2023-06-13"),
        ("Yesterday, what did I cook?", "2023-06-13"),
        ("What did I cook the day before yesterday?", "2023-06-12"),
        ("What did I cook this week?", "2023-06-12 2023-06-18"),
        ("What did I cook last week?", "2023-06-05 2023-06-11"),
        ("What did I cook last weekend?", "2023-06-10 2023-06-11"),
        ("What did I cook over the weekend?", "2023-06-10 2023-06-11"),
        ("What did I cook the week before last?", "2023-05-29 2023-06-04"),
        ("What did I cook last month?", "2023-05-01 2023-05-31"),
        ("What did I cook this month?", "2023-06-01 2023-06-30"),
        ("What did I cook last year?", "2022-01-01 2022-12-31"),
        ("What did I cook in the past two weeks?", "2023-05-31 2023-06-14"),
        ("What did I cook in the last 10 days?", "2023-06-04 2023-06-14"),
        ("What did I cook in the last month?", "2023-05-14 2023-06-14"),
        ("What did I cook over the past few weeks?", "2023-05-17 2023-06-14"),
        ("What did I cook three days ago?", "2023-06-11"),
        ("What did I cook a couple of days ago?", "2023-06-11 2023-06-13"),
        ("What did I cook three weeks ago?", "2023-05-21 2023-05-27"),
        ("What did I cook two or three weeks ago?", "2023-05-21 2023-06-03"),
        ("What did I cook 2-3 weeks ago?", "2023-05-21 2023-06-03"),
        ("What did I cook twenty-one days ago?", "2023-05-24"),
        ("What did I cook two months ago?", "2023-03-30 2023-04-29"),
        ("What did I cook a year ago?", "2021-12-14 2022-12-13"),
        ("What did I cook two weekends ago?", "2023-06-03 2023-06-04"),
        # holidays, seasons
        ("Who sang on Christmas Eve?", "2022-12-24"),
        ("Who sang at Christmas?", "2022-12-25"),
        ("Who sang on New Year\u2019s Eve?", "2022-12-31"),
        ("Who sang on Valentine's Day?", "2023-02-14"),
        ("Who sang last Halloween?", "2022-10-31"),
        ("Who sang on the 4th of July, 2021?", "2021-07-04"),
        ("Where did I hike last summer?", "2022-06-01 2022-08-31"),
        ("Where did I hike in the fall of 2021?", "2021-09-01 2021-11-30"),
        ("Where did I hike this spring?", "2023-03-01 2023-05-31"),
        ("Where did I hike in winter?", "2022-12-01 2023-02-28"),
        # comparisons that name their time
        ("How many days are between May 3rd and May 20th?", "2023-05-03 2023-05-20"),
        ("How many weeks have passed since May 3rd?", "2023-05-03 2023-06-14"),
        (
            "Which was first, the fair in March or the test in May?",
            "2023-03-01 2023-05-31",
        ),
        (
            "In what order did I see the plays of the past month?",
            "2023-05-14 2023-06-14",
        ),
        ("Did I call Ann or Bob last Friday?", "2023-06-09"),
        ("What did I order last Friday?", "2023-06-09"),
    ],
)
def test_questions_that_name_their_time(question, wanted):
    assert timeline.range_by_rules(question, ASKED) == span(wanted)


@pytest.mark.parametrize(
    "question",
    [
        # shapes of the paper's table 11
        "For how many months had I been weaving when I bought the loom?",
        "How many days did the kiln course begin before the village fair?",
        "Which did I put into the frame first, the leeks or the asters?",
        # times asked for, or told by events
        "How many weeks ago did I clean the gutter?",
        "How long ago did I clean the gutter?",
        "How many days passed between the flood and the repair?",
        "How many days passed between the race on May 3rd and my cold?",
        "How long had I been weaving when I bought the loom last week?",
        "Which came first, the fair on May 3rd or the flood?",
        "How many months have passed since I moved?",
        "How old will I be in two weeks?",
        "What did I plant the Friday before the wedding?",
        "Who won on the last Friday of the season?",
        "What did I cook two days before Christmas?",
        "What did I cook before May?",
        "What did I cook until last Friday?",
        "What did I cook more than a week ago?",
        "How many books have I read as of today?",
        "What is my cat called?",
        # words that are also something else
        "May I ask who fixed the roof?",
        "Who fixed the roof, may I ask?",
        "How far did we march for the cause?",
        "Did we march 5 miles?",
        "Did I join the March for Science?",
        "Did I see Theresa May speak?",
        "Which poem by May Sarton did I like?",
        "What did my friend April give me?",
        "How did my second fall happen?",
        "Where is the spring that I found?",
        "Which spring did I replace in the clock?",
        "Who saw my last fall?",
        "Where did we put the Christmas tree?",
        "What was on my last day at the mill?",
        "What was my last week at the mill like?",
        # titles, habits, quantities
        'Who lent me the novel "Last Friday in May"?',
        "Who lent me 'Yesterday in March'?",
        "When did I see The Hunt for Red October?",
        "Which song by Yesterday Boys did I like?",
        "What do I drink on Turbo Tuesdays?",
        "Where do I swim on Mondays?",
        "Which class is every Monday and Friday?",
        "Is my shift Monday to Friday?",
        "What did I buy on Black Friday?",
        "Which animal lived 3,000 years ago?",
        "Which animal lived 9999 years ago?",
        "What did I sow on February 30th?",
        "Is it 3/4 of a cup, 24/7?",
        "Whom did I meet on the 10th floor?",
    ],
)
def test_questions_that_fix_no_time(question):
    assert timeline.range_by_rules(question, ASKED) is None


def test_a_month_that_has_begun_is_meant_and_one_to_come_is_not():
    def in_march(asked):
        return timeline.range_by_rules("What broke in March?", asked).start

    assert in_march(datetime(2023, 3, 1)) == date(2023, 3, 1)
    assert in_march(datetime(2023, 2, 28)) == date(2022, 3, 1)


# Days that a text tells of, written on Wednesday 2023-06-14


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("I bought it last Tuesday.", "2023-06-13"),
        ("It broke on May 3rd, sadly.", "2023-05-03"),
        ("It broke on December 28.", "2022-12-28"),
        ("Seen 3 May\u20135 May 2021, by chance", "2021-05-03 2021-05-05"),
        ("I finished it yesterday and sold it today.", "2023-06-13 2023-06-14"),
        ("I was there from June 2 to June 4.", "2023-06-02 2023-06-04"),
        ("It was three weeks ago.", "2023-05-21 2023-05-27"),
        ("We ate there last month.", "2023-05-01 2023-05-31"),
        ("I have been ill since last Friday.", "2023-06-09"),
        ("On Friday I saw her.", "2023-06-09"),
        # plans
        ("On Friday I will see her.", "2023-06-16"),
        ("The exam is on Saturday.", "2023-06-17"),
        ("The wedding is on July 8th.", "2023-07-08"),
        ("It is to be lifted on July 8th.", "2023-07-08"),
        ("We plan to move on August 1st.", "2023-08-01"),
        ("The match against Rudby on July 1", "2023-07-01"),
        ("I start again next Friday.", "2023-06-16"),
        ("Tomorrow I fly.", "2023-06-15"),
        ("I need to be done by tomorrow.", "2023-06-15"),
        ("I'm flying to Oslo in two weeks.", "2023-06-25 2023-07-01"),
    ],
)
def test_days_that_a_text_tells_of(text, wanted):
    assert dates_by_rules(text, ASKED) == list(span(wanted).days())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "How do I wash wool?",
        "I was there last year, and in 2019.",
        "I read three books in two days.",
        "How often should I swim in a week?",
        "I always swim on Mondays.",
        'My son likes "Next Friday" best.',
    ],
)
def test_texts_that_tell_of_no_day(text):
    assert dates_by_rules(text, ASKED) == []


WORDS = (
    "a the last next this in on of may March 31 30 Feb 2023 9999 0 first fall year "
    "month weeks day ago couple few before since until to and - , . ' Friday weekends "
    "Christmas Eve 12/31/2022 2023/13/45 every will was"
).split()


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_any_text_is_read_without_an_error(text):
    found = timeline.range_by_rules(text, ASKED)
    assert found is None or found.start <= found.end
    told = dates_by_rules(text, ASKED)
    assert told == sorted(set(told))


def test_days_apart_stay_apart_and_come_once_in_order():
    text = "On Monday and on Friday I swam.\n\nMonday was cold, on 12 June."
    assert dates_by_rules(text, ASKED) == [date(2023, 6, 9), date(2023, 6, 12)]


# Ranges by a model


def instance(question="Who sang in May?", name="q1"):
    return Instance(name, "temporal-reasoning", question, ASKED, "", (), ())


def ask_with(*replies):
    """An `ask` that gives these replies and keeps what it was asked."""

    def ask(prompts, json_schema):
        ask.prompts, ask.schema = prompts, json_schema
        return list(replies)

    return ask


@pytest.mark.parametrize(
    "start, end, status, wanted, reason",
    [
        ("2023/05/01", "2023/05/31", "ok", "2023-05-01 2023-05-31", ""),
        (None, None, "ok", None, ""),
        ("2023/02/30", "2023/05/31", "failed", None, "got '2023/02/30'"),
        ("2023/05/31", "2023/05/01", "failed", None, "end 2023-05-01"),
        ("2023/05/31", None, "failed", None, "wanted two dates or none"),
    ],
)
def test_what_a_model_replies(start, end, status, wanted, reason):
    parsed = {"start": start, "end": end}
    validate(parsed, timeline.SCHEMA)
    reply = Reply("k1", "ok", json.dumps(parsed), parsed=parsed, source="live")
    [found] = timeline.ask_ranges([instance()], ask_with(reply))
    assert (found.question_id, found.status, found.span) == ("q1", status, span(wanted))
    assert reason in found.reason and bool(reason) == bool(found.reason)
    assert (found.key, found.source) == ("k1", "live")


def test_a_failed_reply_is_no_range_and_keeps_its_reason():
    replies = Reply("k1", "failed", reason="time-out"), Reply("k2", "not run")
    found = timeline.ask_ranges([instance(), instance(name="q2")], ask_with(*replies))
    assert [(r.status, r.reason) for r in found] == [
        ("failed", "time-out"),
        ("not run", ""),
    ]
    assert all(r.span is None for r in found)
    assert timeline.ask_ranges([], ask_with()) == []


def test_a_model_sees_the_question_and_its_day():
    ask = ask_with(Reply("k", "ok", parsed={"start": None, "end": None}))
    timeline.ask_ranges([instance()], ask)
    [(messages, n_tokens)] = ask.prompts
    assert [m["role"] for m in messages] == ["system", "user"]
    assert (
        messages[1]["content"] == "Date: 2023/06/14 (Wed)\nQuestion: Who sang in May?"
    )
    assert n_tokens == timeline.MAX_TOKENS
    with pytest.raises(ValidationError):
        validate({"start": "in May", "end": None}, ask.schema)


def test_the_prompt_has_ten_examples_that_hold_and_five_without_a_range():
    examples = timeline.read_prompt("range").split("\n\nDate: ")[1:]
    found = []
    for example in examples:
        day, question, reply = example.split("\n")
        parsed = json.loads(reply)
        validate(parsed, timeline.SCHEMA)
        asked = datetime.strptime(day, "%Y/%m/%d (%a)")
        assert f"{asked:%Y/%m/%d (%a)}" == day
        found.append(timeline._parse(parsed))
        by_rules = timeline.range_by_rules(question.removeprefix("Question: "), asked)
        assert by_rules == found[-1], question
    assert len(found) == 10 and found.count(None) == 5


@pytest.mark.parametrize(
    "start, end, wanted",
    [
        ("2023/05/18", "2023/05/20", "2023-05-18 2023-05-20"),
        ("2023/05/20", "2023/05/20", None),  # the day of the question
        ("2023/05", "2023/05/20", None),
        ("", "2023/05/20", None),
        ("N/A", "N/A", None),
        ("2023/05/18", "N/A", None),
        ("2023/05/18", "2023/05/17", None),
    ],
)
def test_the_authors_lose_a_range_that_starts_on_the_questions_day(start, end, wanted):
    assert official_span(start, end, "2023/05/20 (Sat) 02:21") == span(wanted)


# Pruning: sessions 0 to 5, ranked in this order

MARCH = span("2023-03-01 2023-03-31")
TIMES = {
    0: [date(2023, 1, 1)],
    1: [date(2023, 3, 5), date(2022, 1, 1)],
    2: [],
    3: [date(2023, 2, 27)],  # two days before the range
    4: [date(2023, 4, 3)],  # three days behind it
}


def record(place, name="", turn=-1):
    return Record(name or f"s{place}", "", (), ASKED, (place, turn), False)


def ranking(*records):
    return Ranking("q1", records, tuple(float(9 - i) for i in range(len(records))))


SIX = ranking(*(record(i) for i in range(6)))


def ids(found):
    return " ".join(r.id for r in found.records)


@pytest.mark.parametrize(
    "settings, wanted",
    [
        ({}, "s1 s3 s0 s2 s4 s5"),
        ({"slack_days": 0}, "s1 s0 s2 s3 s4 s5"),
        ({"slack_days": 3}, "s1 s3 s4 s0 s2 s5"),
        ({"out": "drop"}, "s1 s3"),
        ({"out": "soft", "places": 1}, "s1 s0 s3 s2 s4 s5"),
        ({"out": "soft", "places": 2}, "s1 s0 s3 s2 s4 s5"),
        ({"out": "soft", "places": 3}, "s1 s3 s0 s2 s4 s5"),
        ({"out": "soft", "places": 0}, "s0 s1 s2 s3 s4 s5"),
        ({"out": "soft"}, "s1 s3 s0 s2 s4 s5"),
        ({"out": "fall back", "least": 2}, "s1 s3 s0 s2 s4 s5"),
        ({"out": "fall back", "least": 3}, "s0 s1 s2 s3 s4 s5"),
        ({"out": "fall back"}, "s0 s1 s2 s3 s4 s5"),
    ],
)
def test_what_becomes_of_items_out_of_range(settings, wanted):
    found = prune(SIX, MARCH, TIMES, **settings)
    assert ids(found) == wanted
    before = dict(zip(SIX.records, SIX.scores, strict=True))
    assert dict(zip(found.records, found.scores, strict=True)).items() <= before.items()


def test_no_range_and_nothing_left_change_nothing():
    for out in ("end", "drop", "soft", "fall back"):
        assert prune(SIX, None, TIMES, out) == SIX
    assert prune(SIX, span("2020-01-01"), TIMES, "drop") == SIX
    assert prune(SIX, span("2020-01-01"), TIMES) == SIX


def test_rounds_of_one_session_count_once_for_falling_back():
    rounds = ranking(record(0), *(record(1, f"s1_{i}", i) for i in (1, 3, 5)))
    assert ids(prune(rounds, MARCH, TIMES, "fall back", least=1)) == "s1_1 s1_3 s1_5 s0"
    assert prune(rounds, MARCH, TIMES, "fall back", least=2) == rounds


def test_official_sinks_rounds_that_are_marked_as_no_evidence():
    rounds = ranking(
        record(1, "noans_ab_1", 0), record(1, "answer_ab_3", 2), record(3, "sharegpt_1")
    )
    assert ids(prune(rounds, MARCH, TIMES)) == ids(rounds)
    assert (
        ids(prune(rounds, MARCH, TIMES, compat="official"))
        == "answer_ab_3 sharegpt_1 noans_ab_1"
    )


def test_pruning_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="got 'hide', wanted one of end, drop, soft"):
        prune(SIX, MARCH, TIMES, "hide")
    for name in ("slack_days", "places", "least"):
        with pytest.raises(ValueError, match=f"{name}: got -1, wanted 0 or more"):
            prune(SIX, MARCH, TIMES, **{name: -1})


days = st.dates(date(2022, 1, 1), date(2023, 12, 31))
times = st.dictionaries(st.integers(0, 7), st.lists(days, max_size=3))
rankings = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 9)), min_size=1, unique=True
).map(lambda at: ranking(*(record(p, f"s{p}_{t}", t) for p, t in at)))
spans = st.tuples(days, days).map(lambda ends: Span(*sorted(ends)))


@given(rankings, spans, times, st.integers(0, 60), st.integers(0, 9))
def test_pruning_loses_nothing_and_slack_takes_nothing_out(
    found, asked, times, slack, places
):
    for out in ("end", "soft"):
        moved = prune(found, asked, times, out, slack_days=slack, places=places)
        assert sorted(map(ids_of, moved.records)) == sorted(map(ids_of, found.records))
        assert prune(found, None, times, out) == found

    def n_kept(slack_days):
        kept = prune(found, asked, times, "drop", slack_days=slack_days)
        return set() if kept == found else {r.id for r in kept.records}

    narrow, wide = n_kept(slack), n_kept(slack + 1)
    assert narrow <= wide or not wide  # everything in range: the ranking is unchanged


def ids_of(one):
    return one.id
