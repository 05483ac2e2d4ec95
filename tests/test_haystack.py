"""Histories hold what they must, in order, for any pool and setting."""

import random
from collections import Counter
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lme_utils.construct.haystack import (
    MIX,
    Filler,
    Placed,
    Recipe,
    eligible,
    place,
)
from lme_utils.schema import QUESTION_TYPES

ASKED = datetime(2024, 6, 15, 12, 30)
SOURCES = tuple(MIX)


@st.composite
def pools(draw, at_least=0):
    n = draw(st.integers(at_least, at_least + 60))
    return [
        Filler(f"f{i}", SOURCES[i % 3], f"a{draw(st.integers(0, 5))}",
               draw(st.integers(1, 900)))
        for i in range(n)
    ]  # fmt: skip


@st.composite
def dated_evidence(draw):
    days = sorted(draw(st.sets(st.integers(1, 200), min_size=1, max_size=6)))[::-1]
    return [
        Placed(f"answer_{i}", ASKED - timedelta(days=d), draw(st.integers(1, 400)))
        for i, d in enumerate(days)
    ]


types = st.sampled_from(QUESTION_TYPES)
seeds = st.integers(0, 2**32)


def build(evidence, kind, pool, recipe, seed):
    return place(evidence, ASKED, kind, pool, recipe, random.Random(seed))


@settings(max_examples=200, deadline=None)
@given(dated_evidence(), types, pools(at_least=30), seeds, st.integers(0, 20))
def test_evidence_once_in_order_and_all_before_the_question(
    evidence, kind, pool, seed, n_more
):
    recipe = Recipe(n_sessions=len(evidence) + n_more)
    history = build(evidence, kind, pool, recipe, seed)
    names = [p.session_id for p in history]
    assert len(history) == recipe.n_sessions == len(set(names))
    assert [n for n in names if n.startswith("answer")] == [
        p.session_id for p in evidence
    ]
    dates = [p.date for p in history]
    assert all(a < b for a, b in zip(dates, [*dates[1:], ASKED], strict=True))
    kept = {p.session_id: p.date for p in history}
    assert all(kept[p.session_id] == p.date for p in evidence)


@settings(max_examples=100, deadline=None)
@given(pools(at_least=120), seeds, st.integers(1, 60))
def test_the_mix_holds_at_every_length(pool, seed, n):
    evidence = [Placed("answer_1", ASKED - timedelta(days=3), 5)]
    history = build(evidence, "multi-session", pool, Recipe(n_sessions=n + 1), seed)
    source = {f.session_id: f.source for f in pool}
    found = Counter(source[p.session_id] for p in history if p.session_id in source)
    for name, share in MIX.items():
        assert abs(found[name] - share * n) < 1.01


@settings(max_examples=100, deadline=None)
@given(dated_evidence(), types, pools(at_least=30), seeds, st.integers(0, 6000))
def test_the_budget_holds_and_is_used(evidence, kind, pool, seed, budget):
    needed = sum(p.n_tokens for p in evidence)
    recipe = Recipe(n_tokens=budget)
    if needed > budget:
        with pytest.raises(ValueError, match=f"{needed:,}"):
            build(evidence, kind, pool, recipe, seed)
        return
    try:
        history = build(evidence, kind, pool, recipe, seed)
    except ValueError as error:
        assert "is left" in str(error)  # the pool was smaller than the budget
        return
    used = sum(p.n_tokens for p in history)
    assert used <= budget < used + max(f.n_tokens for f in pool)


@settings(max_examples=100, deadline=None)
@given(pools(at_least=30), st.sets(st.sampled_from([f"a{i}" for i in range(6)])))
def test_no_clash(pool, attributes):
    texts = {f.session_id: f"about kites no {f.session_id}" for f in pool}
    left = eligible(pool, attributes, ["kite"] if not attributes else [], texts)
    assert not {f.attribute for f in left} & attributes
    assert bool(left) == bool(attributes and {f.attribute for f in pool} - attributes)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), types, pools(at_least=30), seeds)
def test_undated_evidence_is_dated_before_the_question(n, kind, pool, seed):
    evidence = [Placed(f"answer_{i}", None) for i in range(n)]
    history = build(evidence, kind, pool, Recipe(n_sessions=n + 5), seed)
    dates = {p.session_id: p.date for p in history}
    own = [dates[p.session_id] for p in evidence]
    assert all(ASKED - timedelta(days=11) < d < ASKED for d in own)
    if kind in ("knowledge-update", "temporal-reasoning"):
        assert own == sorted(own)
    again = build(evidence, kind, pool, Recipe(n_sessions=n + 5), seed)
    assert again == history


def test_late_evidence_moves_just_before_the_question():
    late = [
        Placed("answer_1", ASKED + timedelta(hours=2)),
        Placed("answer_2", ASKED + timedelta(hours=3)),
    ]
    fixed = build(late, "multi-session", [], Recipe(n_sessions=0), 1)
    assert [(p.session_id, ASKED - p.date) for p in fixed] == [
        ("answer_1", timedelta(minutes=2)),
        ("answer_2", timedelta(minutes=1)),
    ]
    kept = build(late, "multi-session", [], Recipe(0, compat="official"), 1)
    assert [p.date for p in kept] == [p.date for p in late]


def test_official_repeats_and_runs_past_the_question():
    pool = [Filler(f"f{i}", SOURCES[i % 3]) for i in range(6)]
    evidence = [Placed("answer_1", ASKED - timedelta(days=1))]
    recipe = Recipe(n_sessions=400, compat="official")
    with pytest.raises(ValueError, match=r"no .* session is left"):
        build(evidence, "multi-session", pool, Recipe(n_sessions=400), 1)
    history = build(evidence, "multi-session", pool, recipe, 1)
    assert len({p.session_id for p in history}) == 7 and len(history) == 400
    assert any(p.date > ASKED for p in history)
    assert all(p.date.date() <= ASKED.date() for p in history)
    assert history == sorted(history, key=lambda p: p.date)
    ordered = build(evidence, "knowledge-update", pool, recipe, 1)
    days = [p.date.date() for p in ordered]
    assert days == sorted(days)
    assert ordered != sorted(ordered, key=lambda p: p.date)


@pytest.mark.parametrize(
    ("settings_", "said"),
    [
        ({}, "either"),
        ({"n_sessions": 3, "n_tokens": 9}, "either"),
        ({"n_sessions": -1}, "got -1"),
        ({"n_tokens": -5}, "got -5"),
        ({"n_sessions": 3, "mix": {"simulated": -1.0}}, "mix"),
        ({"n_sessions": 3, "mix": {}}, "mix"),
    ],
)
def test_bad_recipes_are_refused(settings_, said):
    with pytest.raises(ValueError, match=said):
        Recipe(**settings_)


def test_what_cannot_be_made_is_refused_with_the_numbers():
    evidence = [Placed(f"answer_{i}", ASKED - timedelta(days=9 - i)) for i in range(3)]
    with pytest.raises(ValueError, match=r"history of 2 sessions.* has 3 evidence"):
        build(evidence, "multi-session", [], Recipe(n_sessions=2), 1)
    half = [evidence[0], Placed("answer_9", None)]
    with pytest.raises(ValueError, match="some sessions are dated"):
        build(half, "multi-session", [], Recipe(n_sessions=0), 1)
    pool = [Filler(f"f{i}", SOURCES[i % 3]) for i in range(9)]
    with pytest.raises(ValueError, match="9 fillers of all sources"):
        build(evidence, "multi-session", pool, Recipe(n_sessions=50), 1)
