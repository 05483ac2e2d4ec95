"""Index, retrievers and metrics: toy cases by hand, independent libraries, parity."""

import json
import math

import ir_measures
import numpy as np
import pytest
from ir_measures import Qrel, ScoredDoc
from rank_bm25 import BM25Okapi
from toy import question

from lme_utils import data, metrics
from lme_utils.formats import to_instance
from lme_utils.index import build_records, expand
from lme_utils.retrieve import _argsort_official, bm25_scores, fuse, rank
from lme_utils.schema import Ranking


def toy(**changes):
    return to_instance(question(**changes), "toy", {})


def ids(records):
    return [record.id for record in records]


def gold(records):
    return [record.gold for record in records]


# Index


def test_session_keys_are_the_users_side_and_values_are_whole():
    first = build_records(toy())[0]
    assert first.key == "I bought two mugs How do I wash them"
    assert len(first.value) == 4
    assert gold(build_records(toy())) == [True, False, True]


def test_rounds_fixed_hold_every_reply_and_what_came_before_the_first():
    records = build_records(toy(), "turn")
    assert ids(records) == [
        "answer_aa_1_1",
        "answer_aa_1_3",
        "f1_2",
        "f1_4",
        "answer_aa_2_1",
        "answer_aa_2_3",
    ]
    assert gold(records) == [True, False, False, False, False, True]
    assert [turn.content for turn in records[2].value] == [
        "Welcome",
        "Tell me about trains",
        "They run on rails",
    ]


def test_official_renames_what_the_user_did_not_say():
    assert ids(build_records(toy(), "turn", "official")) == [
        "answer_aa_1_1",
        "noans_aa_1_3",
        "f1_2",
        "f1_4",
        "noans_aa_2_1",
        "answer_aa_2_3",
    ]
    only_assistant = question()
    only_assistant["haystack_sessions"][0][0]["has_answer"] = False
    only_assistant["haystack_sessions"][0][1]["has_answer"] = True
    item = toy(haystack_sessions=only_assistant["haystack_sessions"])
    official = build_records(item, "session", "official")
    assert ids(official) == ["noans_aa_1", "f1", "answer_aa_2"]
    assert gold(official) == [False, False, True]  # the miss vanishes
    assert gold(build_records(item)) == [True, False, True]  # the miss counts
    assert gold(build_records(item, "turn"))[0]  # the round holds the reply


FACTS = {"aa_1_1": ["two mugs", "ceramic"], "aa_1_3": ["washing"], "f1_2": []}


@pytest.mark.parametrize(
    ("join", "official", "fixed"),
    [
        (
            "merge",
            [
                ("answer_aa_1_1", "two mugs ceramic I bought two mugs"),
                ("noans_aa_1_3", "How do I wash them"),  # never expanded
                # f1_2 has an empty list and leaves the index
                ("f1_4", " And trams"),  # missing: one empty text
                ("noans_aa_2_1", "Paint for a mug"),
                ("answer_aa_2_3", " I got one more mug"),
            ],
            [
                ("answer_aa_1_1", "two mugs ceramic I bought two mugs"),
                ("answer_aa_1_3", "washing How do I wash them"),
                ("f1_2", "Tell me about trains"),
                ("f1_4", "And trams"),
                ("answer_aa_2_1", "Paint for a mug"),
                ("answer_aa_2_3", "I got one more mug"),
            ],
        ),
        (
            "replace",
            [
                ("answer_aa_1_1", "two mugs ceramic"),
                ("noans_aa_1_3", "How do I wash them"),
                ("f1_4", ""),
                ("noans_aa_2_1", "Paint for a mug"),
                ("answer_aa_2_3", ""),
            ],
            [
                ("answer_aa_1_1", "two mugs ceramic"),
                ("answer_aa_1_3", "washing"),
                ("f1_2", "Tell me about trains"),
                ("f1_4", "And trams"),
                ("answer_aa_2_1", "Paint for a mug"),
                ("answer_aa_2_3", "I got one more mug"),
            ],
        ),
    ],
)
def test_expansions(join, official, fixed):
    for compat, wanted in (("official", official), ("fixed", fixed)):
        records = build_records(toy(), "turn", compat, FACTS, join)
        assert [(record.id, record.key) for record in records] == wanted


def test_separate_expansions_become_gold_only_officially():
    official = build_records(toy(), "turn", "official", FACTS, "separate")
    extra = [(r.id, r.key, r.gold) for r in official[6:]]
    assert extra == [
        ("answer_aa_1_1", "two mugs ceramic", True),
        ("answer_aa_1_3", "washing", True),  # the turn holds no evidence
        ("f1_4", "", False),
        ("answer_aa_2_1", "", True),
        ("answer_aa_2_3", "", True),
    ]
    fixed = build_records(toy(), "turn", "fixed", FACTS, "separate")
    assert [(r.id, r.gold) for r in fixed[6:]] == [
        ("answer_aa_1_1", True),
        ("answer_aa_1_3", False),
    ]


SESSION_FACTS = {"aa_1": ["mugs", "dishes"], "f1": [], "aa_2": []}


@pytest.mark.parametrize(
    ("join", "official", "fixed"),
    [
        (
            "merge",
            # f1 leaves the index; aa_2 too, and is no evidence any more
            [("answer_aa_1", "mugs dishes I bought two mugs How do I wash them")],
            [
                ("answer_aa_1", "mugs dishes I bought two mugs How do I wash them"),
                ("f1", "Tell me about trains And trams"),
                ("answer_aa_2", "Paint for a mug I got one more mug"),
            ],
        ),
        (
            "replace",
            [("answer_aa_1", "mugs dishes")],
            [
                ("answer_aa_1", "mugs dishes"),
                ("f1", "Tell me about trains And trams"),
                ("answer_aa_2", "Paint for a mug I got one more mug"),
            ],
        ),
        (
            "separate",
            [
                ("answer_aa_1", "I bought two mugs How do I wash them"),
                ("f1", "Tell me about trains And trams"),
                ("answer_aa_2", "Paint for a mug I got one more mug"),
                ("answer_aa_1", "mugs dishes"),
            ],
            [
                ("answer_aa_1", "I bought two mugs How do I wash them"),
                ("f1", "Tell me about trains And trams"),
                ("answer_aa_2", "Paint for a mug I got one more mug"),
                ("answer_aa_1", "mugs dishes"),
            ],
        ),
    ],
)
def test_expansions_of_sessions(join, official, fixed):
    for compat, wanted in (("official", official), ("fixed", fixed)):
        records = build_records(toy(), "session", compat, SESSION_FACTS, join)
        assert [(record.id, record.key) for record in records] == wanted


def test_deleted_evidence_makes_recall_perfect():
    item = toy()
    facts = {"aa_1": ["mugs"], "f1": ["mugs mugs trains"], "aa_2": []}
    wanted = {"official": 1.0, "fixed": 0.0}  # of two evidence sessions one is left
    for compat, recall_all in wanted.items():
        records = build_records(item, "session", compat, facts, "replace")
        ranking = rank(item, records, "oracle", compat)
        scores = metrics.score_ranking(item, ranking, "session", compat)
        assert scores["session"]["recall_all@1"] == recall_all


def test_evidence_that_a_filter_dropped_is_a_miss():
    item = toy()
    for granularity in ("session", "turn"):
        ranking = rank(item, build_records(item, granularity), "oracle")
        kept = Ranking("q1", ranking.records[:1], ranking.scores[:1])
        scores = metrics.score_ranking(item, kept, granularity, "fixed")[granularity]
        assert scores["recall_share@5"] == 0.5 and scores["recall_all@5"] == 0.0


def test_a_renamed_session_is_never_expanded():
    sessions = question()["haystack_sessions"]
    sessions[0][0]["has_answer"] = False
    sessions[0][1]["has_answer"] = True  # the assistant said it
    item = toy(haystack_sessions=sessions)
    for join, key in (
        ("merge", "mugs I bought two mugs How do I wash them"),
        ("replace", "mugs"),
    ):
        official, fixed = (
            build_records(item, "session", compat, {"aa_1": ["mugs"]}, join)[0]
            for compat in ("official", "fixed")
        )
        assert (official.id, official.key) == (
            "noans_aa_1",
            "I bought two mugs How do I wash them",
        )
        assert (fixed.id, fixed.key, fixed.gold) == ("answer_aa_1", key, True)
    separate = build_records(item, "session", "official", {"aa_1": ["m"]}, "separate")
    assert [(r.id, r.gold) for r in separate if r.position[0] == 0] == [
        ("noans_aa_1", False),
        ("answer_aa_1", True),  # made evidence by being expanded
    ]


def test_each_quirk_alone():
    records = build_records(toy(), "turn", "official")
    facts = {"aa_1_1": ["two"], "aa_1_3": ["wash"], "f1_2": [], "aa_2_1": []}

    def shown(*quirks, join="merge"):
        return [(r.id, r.key) for r in expand(records, facts, join, quirks=quirks)]

    plain = [
        ("answer_aa_1_1", "two I bought two mugs"),
        ("noans_aa_1_3", "wash How do I wash them"),
        ("f1_2", "Tell me about trains"),
        ("f1_4", "And trams"),
        ("noans_aa_2_1", "Paint for a mug"),
        ("answer_aa_2_3", "I got one more mug"),
    ]
    assert shown() == plain
    assert shown("skip") == [
        plain[0],
        ("noans_aa_1_3", "How do I wash them"),
        *plain[2:],
    ]
    assert [name for name, _ in shown("delete")] == [
        "answer_aa_1_1",
        "noans_aa_1_3",
        "f1_4",
        "answer_aa_2_3",
    ]
    assert [name for name, _ in shown("delete", "skip")] == [
        "answer_aa_1_1",
        "noans_aa_1_3",
        "f1_4",
        "noans_aa_2_1",  # skipped before its empty list is looked at
        "answer_aa_2_3",
    ]
    assert shown(join="separate")[6:] == [
        ("answer_aa_1_1", "two"),
        ("noans_aa_1_3", "wash"),
    ]
    assert shown("promote", join="separate")[6:] == [
        ("answer_aa_1_1", "two"),
        ("answer_aa_1_3", "wash"),
    ]


def test_split_notes_are_searched_apart_and_an_item_is_ranked_once():
    item = toy()
    facts = {"aa_1": ["red", "mugs I buy"], "f1": ["trains", " "]}
    records = build_records(
        item, "session", expansions=facts, join="replace", split=True
    )
    assert [record.key for record in records] == [
        "red",
        "mugs I buy",
        "trains",
        "Paint for a mug I got one more mug",
    ]
    ranking = rank(item, records, "bm25-words")
    assert sorted(ids(ranking.records)) == ["answer_aa_1", "answer_aa_2", "f1"]
    assert ranking.records[0].key == "mugs I buy"


def test_words_ignore_case_and_punctuation():
    keys = ["My MUGS, all of them", "mugs", "trains run"]
    spaces, words = (bm25_scores("Mugs?", keys, words=w) for w in (False, True))
    assert spaces.tolist() == [0, 0, 0]
    assert words[0] > 0 and words[1] > 0 and words[2] == 0
    np.testing.assert_allclose(
        words,
        BM25Okapi(
            [["my", "mugs", "all", "of", "them"], ["mugs"], ["trains", "run"]]
        ).get_scores(["mugs"]),
        atol=1e-12,
    )


def test_fusion_by_hand():
    a, b, c, d = build_records(toy(), "turn")[:4]
    one = Ranking("q1", (a, b, c), (3.0, 2.0, 1.0))
    two = Ranking("q1", (d, c, b), (0.9, 0.8, 0.7))
    best = fuse([one, two], "best")
    assert ids(best.records) == ids(
        (a, d, b, c)
    )  # equal ranks: the first ranking first
    assert best.scores == (1.0, 1.0, 1 / 2, 1 / 2)
    rrf = fuse([one, two], "rrf")
    assert ids(rrf.records) == ids((b, c, a, d))
    assert rrf.scores[0] == pytest.approx(1 / 62 + 1 / 63)
    assert rrf.scores[2] == pytest.approx(1 / 61)


def test_deleting_all_evidence_makes_recall_all_one_only_officially():
    empty = {"aa_1": [], "aa_2": [], "f1": ["trains"]}
    for compat, wanted in (("official", {0.0, 1.0}), ("fixed", {1.0})):
        records = build_records(toy(), "session", compat, empty)
        ranking = rank(toy(), records, "bm25", compat)
        scores = metrics.score_ranking(toy(), ranking, "session", compat)["session"]
        assert {scores["recall_any@3"], scores["recall_all@3"]} == wanted


# Retrievers


def test_bm25_is_rank_bm25():
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(30)]
    for _ in range(50):
        n = int(rng.integers(2, 20))
        keys = [" ".join(rng.choice(words, rng.integers(1, 40))) for _ in range(n)]
        query = " ".join(rng.choice([*words, "unseen"], 6))
        wanted = BM25Okapi([key.split(" ") for key in keys]).get_scores(
            query.split(" ")
        )
        np.testing.assert_allclose(bm25_scores(query, keys), wanted, rtol=1e-12)


def test_equal_scores_keep_the_history_order_when_fixed():
    item = toy(question="nothing in common")
    assert ids(rank(item, build_records(item)).records) == ids(build_records(item))


def test_official_order_is_a_reversed_sort_on_every_processor():
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 40, 300).astype(float) / 7
    order = _argsort_official(scores)
    assert sorted(order) == list(range(300))
    assert (np.diff(scores[order]) <= 0).all()
    # 16-bit keys are out of reach of the vector instructions that change ties
    assert (order == np.argsort(scores.astype(np.longdouble))[::-1]).all()


def test_oracle_puts_evidence_first():
    assert gold(rank(toy(), build_records(toy()), "oracle").records) == [
        True,
        True,
        False,
    ]


def test_newest_and_oldest_go_by_date_then_by_place():
    dates = ["2024/03/02 (Sat) 10:00", "2024/03/01 (Fri) 10:00"]
    item = toy(haystack_dates=[dates[0], dates[1], dates[0]])  # f1 is the oldest
    sessions, rounds = build_records(item), build_records(item, "turn")
    for compat in ("fixed", "official"):
        newest = rank(item, sessions, "newest", compat)
        assert ids(newest.records) == ["answer_aa_2", "answer_aa_1", "f1"]
        assert newest.scores == (2.0, 1.0, 0.0)
        oldest = rank(item, sessions, "oldest", compat)
        assert ids(oldest.records) == ["f1", "answer_aa_1", "answer_aa_2"]
        assert oldest.scores == (2.0, 1.0, 0.0)
        last = rank(item, rounds, "newest", compat).records
        assert [r.position for r in last] == [
            (2, 2), (2, 0), (0, 2), (0, 0), (1, 3), (1, 1),
        ]  # fmt: skip
        assert rank(item, rounds, "oldest", compat).records == last[::-1]


def test_dense_finds_by_meaning():
    pytest.importorskip("sentence_transformers")
    from lme_utils.weights import find_weights

    try:
        find_weights("all-MiniLM-L6-v2")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    item = toy(question="Which cups did I purchase?")
    best = rank(item, build_records(item, "turn"), "dense").records[0]
    assert best.key == "I bought two mugs"


def test_an_empty_index_and_an_unknown_retriever_are_refused():
    with pytest.raises(ValueError, match="q1: no records"):
        rank(toy(), [])
    with pytest.raises(ValueError, match="wanted one of bm25, bm25-words, dense"):
        rank(toy(), build_records(toy()), "other")


# Metrics


def test_fixed_metrics_are_those_of_ir_measures():
    rng = np.random.default_rng(3)
    for _ in range(100):
        n = int(rng.integers(1, 60))
        ranked = [f"d{i}" for i in rng.permutation(n)]
        relevant = set(rng.choice(ranked, rng.integers(1, min(n, 7) + 1), False))
        qrels = [Qrel("q", d, 1) for d in sorted(relevant)]
        run = [ScoredDoc("q", d, float(-i)) for i, d in enumerate(ranked)]
        for k in metrics.KS:
            found = metrics.recall(ranked, relevant, k)
            measured = ir_measures.calc_aggregate(
                [ir_measures.R @ k, ir_measures.nDCG @ k, ir_measures.Success @ k],
                qrels,
                run,
            )
            assert found.share == pytest.approx(measured[ir_measures.R @ k])
            assert found.any == measured[ir_measures.Success @ k]
            assert found.all == float(measured[ir_measures.R @ k] == 1.0)
            assert metrics.ndcg(ranked, relevant, k) == pytest.approx(
                measured[ir_measures.nDCG @ k]
            )


@pytest.mark.parametrize(
    ("ranked", "relevant", "k", "said"),
    [
        (["a"], {"a"}, 0, "k: got 0"),
        (["a"], set(), 1, "relevant: got nothing"),
        (["a", "a"], {"a"}, 1, "an item twice"),
    ],
)
def test_metrics_refuse_what_has_no_answer(ranked, relevant, k, said):
    for metric in (metrics.recall, metrics.ndcg):
        with pytest.raises(ValueError, match=said):
            metric(ranked, relevant, k)


def test_official_ranks_one_and_two_weigh_the_same():
    first = metrics.score_official(["answer_a", "b", "c"], 3)["ndcg_any"]
    second = metrics.score_official(["b", "answer_a", "c"], 3)["ndcg_any"]
    third = metrics.score_official(["b", "c", "answer_a"], 3)["ndcg_any"]
    assert (first, second) == (1.0, 1.0)
    assert third == pytest.approx(1 / math.log2(3))
    assert metrics.ndcg(["b", "a"], {"a"}, 2) == pytest.approx(1 / math.log2(3))


def test_official_without_evidence():
    assert metrics.score_official(["a", "b"], 1) == {
        "recall_any": 0.0,
        "recall_all": 1.0,
        "ndcg_any": 0.0,
    }


def test_turns_to_sessions():
    records = {r.id: r for r in build_records(toy(), "turn", "official")}
    order = ["f1_2", "f1_4", "noans_aa_1_3", "answer_aa_1_1", "answer_aa_2_3"]
    ranking = Ranking("q1", tuple(records[i] for i in order), (0.0,) * 5)
    official = metrics.score_ranking(toy(), ranking, "turn", "official")
    # the cut for one session is 1, for three it grows to 4: f1, noans_aa_1, answer_aa_1
    assert official["session"]["recall_any@1"] == 0.0
    assert official["session"]["recall_any@3"] == 1.0
    assert official["session"]["recall_all@3"] == 0.0
    assert official["turn"]["recall_any@3"] == 0.0
    fixed = metrics.score_ranking(toy(), ranking, "turn", "fixed")
    # sessions at their best turn: f1, aa_1, aa_2
    assert fixed["session"]["recall_share@1"] == 0.0
    assert fixed["session"]["recall_all@3"] == 1.0


def test_two_denominators():
    abstention = toy(question_id="q_abs")
    silent = question()
    for session in silent["haystack_sessions"]:
        for turn in session:
            turn.pop("has_answer", None)
    unlabelled = toy(question_id="q2", haystack_sessions=silent["haystack_sessions"])
    rows = []
    for item in (toy(), abstention, unlabelled):
        ranking = rank(item, build_records(item, "turn"), "oracle")
        rows.append((item, metrics.score_ranking(item, ranking, "turn", "fixed")))
    means = metrics.mean_scores(rows)
    assert means["all_but_abstention"]["n"] == 2
    assert means["with_user_side_target"]["n"] == 1
    # one of the two has no labelled round: the mean over rounds says so
    assert means["all_but_abstention"]["turn"]["n"] == 1
    assert means["all_but_abstention"]["session"]["recall_share@50"] == 1.0


@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_parity_with_the_reference_on_all_of_s(shared, granularity):
    path = shared / "data" / "longmemeval_s_cleaned_499.json.xz"
    wanted = json.loads(
        (shared / f"reference/official_bm25_s499_{granularity}.json").read_text()
    )
    rows = []
    for item in data.load_instances(path):
        records = build_records(item, granularity, "official")
        ranking = rank(item, records, "bm25", "official")
        scores = metrics.score_ranking(item, ranking, granularity, "official")
        assert ids(ranking.records[:10]) == wanted["top10"][item.question_id]
        for level, expected in wanted["per_question"][item.question_id].items():
            assert scores[level] == pytest.approx(expected, abs=1e-9)
        rows.append((item, scores))
    assert len(rows) == 499
    means = metrics.mean_scores(rows)
    for name, expected in wanted["mean"].items():
        assert means[name]["n"] == expected["n"]
        for level in ("session", "turn"):
            assert means[name][level] == pytest.approx(expected[level], abs=1e-9)
