"""Histories on an axis of time: what is in a range, and that the figure says so."""

from datetime import date, datetime

from lme_utils import plots_time
from lme_utils.date_words import Span
from lme_utils.schema import Entry, Instance, Session

SPAN = Span(date(2024, 3, 1), date(2024, 3, 10))


def history(*days, evidence=0):
    session = Session("digest", ())
    entries = tuple(
        Entry(f"s{n}", datetime(2024, *day), session, ()) for n, day in enumerate(days)
    )
    answer_ids = (f"s{evidence}",)
    return Instance("q", "", "?", datetime(2024, 4, 1), "", answer_ids, entries)


def panel(instance, days, span=SPAN):
    found = plots_time.in_range(instance, span, days)
    return plots_time.TimeAxis("a title", found, span, instance.question_date.date())


def texts(fig):
    fig.draw_without_rendering()
    return [t.get_text() for t in fig.findobj(lambda o: hasattr(o, "get_text"))]


def test_a_session_is_in_range_by_its_own_day_or_by_one_that_it_tells_of():
    instance = history((2, 28), (2, 27), (3, 20), (2, 20), evidence=2)
    told = {2: [date(2024, 3, 12), date(2024, 3, 20), date(2024, 3, 4)]}
    days = {n: [e.date.date()] for n, e in enumerate(instance.history)} | told
    found = plots_time.in_range(instance, SPAN, days | {3: []})
    assert list(found["inside"]) == [True, False, True, False]
    assert list(found["told"]) == [None, None, date(2024, 3, 12), None]
    assert list(found["evidence"]) == [False, False, True, False]


def test_the_slack_may_be_none():
    instance = history((2, 29))
    for slack_days, inside in ((0, False), (1, True)):
        days = {0: [date(2024, 2, 29)]}
        found = plots_time.in_range(instance, SPAN, days, slack_days)
        assert list(found["inside"]) == [inside]


def test_a_panel_counts_what_is_in_and_fills_its_marks():
    instance = history((3, 5), (3, 20), (3, 8), evidence=1)
    days = {n: [e.date.date()] for n, e in enumerate(instance.history)}
    fig = plots_time.history_and_range([panel(instance, days)] * 2)
    for ax in fig.axes:
        labels = [t.get_text() for t in ax.get_yticklabels()]
        assert labels == ["evidence (0 of 1 in)", "other (2 of 2 in)"]
    marks = [line for line in fig.axes[0].lines if line.get_marker() in "Do"]
    assert [m.get_markerfacecolor() == "white" for m in marks] == [True, False, False]


def test_a_range_far_away_is_named():
    instance = history((3, 5), (3, 20))
    days = {n: [e.date.date()] for n, e in enumerate(instance.history)}
    for year, side in ((2022, "left"), (2026, "right")):
        far = Span(date(year, 1, 1), date(year, 1, 31))
        fig = plots_time.history_and_range([panel(instance, days, far)])
        assert f"the range lies outside, on the {side}" in texts(fig)
        first, last = fig.axes[0].get_xlim()
        assert last - first < 60
