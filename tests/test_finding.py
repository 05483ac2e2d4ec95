"""Configurations to rankings: notes, merging, time, a table of scores."""

from types import SimpleNamespace

import pytest
from test_study import make_profile
from toy import question, write

from lme_utils import data, finding
from lme_utils.llm import StopRun
from lme_utils.request import Reply
from lme_utils.schema import Config

FACTS = {
    "I bought two mugs": ["The user bought two mugs."],
    "Tell me about trains": [],
    "Paint for a mug": ["The user owns a mug.", "How many mugs did the user buy?"],
}
EVENTS = {
    "I bought two mugs": ["2024/03/01"],
    "Tell me about trains": [],
    "Paint for a mug": ["2023/12/24"],
}


def reply(messages):
    """What the toy extractor says: facts, events or a range, from the lists above."""
    system, shown = messages[0]["content"], messages[-1]["content"]
    if "Question:" in shown:
        known = "March" in shown
        day = {"start": "2024/03/01", "end": "2024/03/31"}
        return day if known else {"start": None, "end": None}
    first = next((text for text in FACTS if text in shown), "Tell me about trains")
    if '"events"' in system:
        return {
            "events": [
                {"when": "then", "event": first, "date": date} for date in EVENTS[first]
            ]
        }
    return {"facts": FACTS[first]}


@pytest.fixture
def items(tmp_path):
    dated = question(question_id="q2", question="What did I buy in March?")
    return list(data.load_instances(write(tmp_path / "q", question(), dated)))


class Stub:
    """Stands for `Models`: answers as `reply` says, and keeps what it was asked."""

    def __init__(self, stopped=None):
        self.profile = make_profile(SimpleNamespace(base_url=""), extractor="small")
        self.stopped = stopped
        self.asked = []

    def ask(self, name, prompts, what, **settings):
        self.asked += [(what, messages[-1]["content"]) for messages, _ in prompts]
        if self.stopped:
            return [Reply("k", "not run", reason="no key") for _ in prompts]
        return [
            Reply("k", "ok", parsed=reply(messages), source="live")
            for messages, _ in prompts
        ]


def ids(ranking):
    return [record.id for record in ranking.records]


def keys(config, item, memory):
    return [[r.key for r in found] for found in finding._indexes(config, item, memory)]


def test_keys_of_each_kind(items):
    models = Stub()
    config = Config(retriever="bm25", key="V+fact")
    memory = finding.remember([config], items, models)
    assert len(models.asked) == 3  # two questions, the same three sessions
    assert keys(config, items[0], memory) == [
        [
            "The user bought two mugs. I bought two mugs How do I wash them",
            "Tell me about trains And trams",
            "The user owns a mug. How many mugs did the user buy? Paint for a mug "
            "I got one more mug",
        ]
    ]
    only = Config(retriever="bm25", key="fact")
    assert keys(only, items[0], memory)[0][:2] == [
        "The user bought two mugs.",
        "Tell me about trains And trams",  # nothing noted: found by its own text
    ]
    apart = Config(retriever="bm25", key="V+fact", merging="best", split=True)
    v, facts = keys(apart, items[0], memory)
    assert len(v) == 3
    assert facts == [
        "The user bought two mugs.",
        "The user owns a mug.",
        "How many mugs did the user buy?",
    ]
    assert keys(Config(retriever="bm25"), items[0], None)[0][1] == (
        "Tell me about trains And trams"
    )


def test_rank_merging_lets_a_fact_bring_its_session_up(items):
    memory = finding.remember([Config(key="V+fact")], items, Stub())
    profile = Stub().profile
    for merging in ("best", "rrf"):
        config = Config(retriever="bm25", key="V+fact", merging=merging, split=True)
        ranking = finding.find(config, items[0], profile, memory)
        assert sorted(ids(ranking)) == ["answer_aa_1", "answer_aa_2", "f1"]
        assert ids(ranking)[2] == "f1"


def test_unknown_keys_are_refused():
    for key in ("v", "facts", "V+V", "fact+V", "V+"):
        with pytest.raises(ValueError, match="key: got"):
            finding.kind_of(key)


def test_unknown_values_are_refused(items):
    for value in ("v", "facts", "keyphrase", "V+fact"):
        with pytest.raises(ValueError, match="wanted one of V, summary, fact"):
            finding.remember([Config(value=value)], items, Stub())


def test_a_value_needs_its_notes_and_leaves_the_ranking_alone(items):
    models = Stub()
    config = Config(retriever="bm25", granularity="turn", value="fact")
    memory = finding.remember([config], items, models)
    assert list(memory.notes) == [("fact", "turn")]
    assert len(models.asked) == 6  # the rounds of both histories are the same
    assert "value" not in finding.FIELDS
    plain = Config(retriever="bm25", granularity="turn")
    for item in items:
        ranking = finding.find(config, item, models.profile, memory)
        assert ranking == finding.find(plain, item, models.profile)
    both = Config(retriever="bm25", key="V+fact", value="fact")
    again = Stub()
    assert list(finding.remember([both], items, again).notes) == [("fact", "session")]
    assert len(again.asked) == 3  # one note for key and value


def test_rankings_by_date_need_no_key(items):
    for merging in ("key", "best"):
        config = Config(retriever="newest", key="V+fact", merging=merging)
        models = Stub()
        memory = finding.remember([config], items, models)
        assert models.asked == [] and memory.notes == {}
        for retriever, wanted in (
            ("newest", ["answer_aa_2", "f1", "answer_aa_1"]),
            ("oldest", ["answer_aa_1", "f1", "answer_aa_2"]),
        ):
            config = Config(retriever=retriever, key="V+fact", merging=merging)
            ranking = finding.find(config, items[0], models.profile, memory)
            assert ids(ranking) == wanted
        table, _ = finding.score([config], items, models.profile, models)
        # oldest first: one of the two evidence sessions is the first of the ranking
        assert table["recall_share@1"].tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="key: got 'x'"):
        finding.remember([Config(retriever="newest", key="x")], items, Stub())


def test_time_by_rules_and_by_model(items):
    plain, dated = items
    models = Stub()
    profile = models.profile
    by_model = Config(retriever="oracle", query="model", times="events")
    memory = finding.remember([by_model], items, models)
    # One question names March: only its history needs events.
    assert [what for what, _ in models.asked].count("ranges") == 2
    assert sum(what.startswith("event") for what, _ in models.asked) == 3
    # aa_2 tells of Christmas, f1 of nothing: both go behind aa_1.
    assert ids(finding.find(by_model, dated, profile, memory)) == [
        "answer_aa_1",
        "answer_aa_2",
        "f1",
    ]
    dropped = Config(retriever="oracle", query="model", out="drop")
    assert ids(finding.find(dropped, dated, profile, memory)) == ["answer_aa_1"]
    assert len(finding.find(dropped, plain, profile, memory).records) == 3
    by_rules = Config(retriever="oracle", query="rules", times="session", out="drop")
    assert len(finding.find(by_rules, dated, profile).records) == 3  # all in March
    assert finding.remember([by_rules], items, Stub()).notes == {}


def test_the_table_has_a_row_per_configuration_question_and_level(items):
    models = Stub()
    configs = [
        Config(retriever="bm25", granularity=level, key=key, compat=compat)
        for level in ("session", "turn")
        for key in ("V", "V+fact")
        for compat in ("fixed", "official")
    ]
    table, memory = finding.score(configs, items, models.profile, models)
    assert len(table) == 4 * 2 + 4 * 2 * 2
    assert set(table["level"]) == {"session", "turn"}
    assert table["recall_all@5"].notna().all()
    assert table["user_side"].all()
    calls = finding.calls_table(memory)
    assert len(calls) == 3 + 6
    assert (calls["status"] == "ok").all() and (calls["source"] == "live").all()
    assert set(calls["what"]) == {"fact of sessions", "fact of turns"}


def test_a_model_that_cannot_go_on_stops_the_scores(items):
    models = Stub(stopped=StopRun("no key"))
    config = Config(retriever="bm25", key="fact")
    with pytest.raises(StopRun, match="no key"):
        finding.score([config], items, models.profile, models)
