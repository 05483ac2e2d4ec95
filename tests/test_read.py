"""Prompts: layout, order, budget, and no label in them."""

import json

import pytest
from toy import question

from lme_utils import read
from lme_utils.formats import to_instance
from lme_utils.index import build_records
from lme_utils.retrieve import rank
from lme_utils.schema import Ranking


def ranked(granularity="session"):
    item = to_instance(question(), "toy", {})
    return item, rank(item, build_records(item, granularity), "oracle")


def test_items_are_cut_in_rank_order_and_read_in_order_of_time():
    _item, ranking = ranked()
    backwards = Ranking("q1", ranking.records[::-1], ranking.scores)
    records, left_out = read.choose_records(backwards, k=2)
    assert [record.id for record in records] == ["f1", "answer_aa_2"]
    assert left_out == 0


def test_what_does_not_fit_is_left_out_whole():
    _item, ranking = ranked("turn")
    n_tokens = [len(read.lay_out([r], "json").split()) for r in ranking.records]
    budget = n_tokens[0] + n_tokens[1]
    records, left_out = read.choose_records(
        ranking, None, budget, lambda text: len(text.split())
    )
    assert {r.position for r in records} >= {r.position for r in ranking.records[:2]}
    assert len(records) + left_out == len(ranking.records)
    laid_out = read.lay_out(records, "json")
    assert all(turn.content in laid_out for r in records for turn in r.value)
    with pytest.raises(ValueError, match="needs count_tokens"):
        read.choose_records(ranking, None, 10)


def test_a_record_found_twice_is_read_once():
    item = to_instance(question(), "toy", {})
    records = build_records(item, "session", expansions={"f1": "x"}, join="separate")
    chosen, _ = read.choose_records(rank(item, records, "bm25"))
    assert [record.id for record in chosen] == ["answer_aa_1", "f1", "answer_aa_2"]


def test_json_layout_can_be_read_back():
    _item, ranking = ranked()
    block = read.lay_out(ranking.records[:1], "json").splitlines()
    assert block[:2] == ["### Session 1", "Date: 2024/03/01 (Fri) 10:00"]
    assert json.loads(block[2])[0] == {"role": "user", "content": "I bought two mugs"}


def test_nl_layout_has_a_paragraph_a_turn():
    _item, ranking = ranked()
    text = read.lay_out(ranking.records[:1], "nl")
    assert "\n\nassistant: Nice mugs\n\nuser: How do I wash them\n\n" in text


@pytest.mark.parametrize("layout", read.LAYOUTS)
@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_no_label_reaches_a_prompt(layout, granularity):
    item, ranking = ranked(granularity)
    for method in ("direct", "con"):
        ((message),) = read.answer_messages(item, ranking.records, layout, method)
        for leak in ("has_answer", "answer_aa", "noans", "True"):
            assert leak not in message["content"]


def test_methods_share_everything_before_the_question():
    item, ranking = ranked()
    texts = [
        read.answer_messages(item, ranking.records, "json", method)[0]["content"]
        for method in ("direct", "con")
    ]
    shared = texts[0].index("The conversations end here.")
    assert texts[0][:shared] == texts[1][:shared]
    for text in texts:
        assert text.index(item.question) > shared
        assert text.index("2024/03/10 (Sun) 09:00") > shared


def test_notes_replace_the_turns():
    item, ranking = ranked()
    notes = [f"note {i}" for i in range(3)]
    (message,) = read.answer_messages(
        item, ranking.records, "json", "con-separate", notes
    )
    assert (
        "note 2" in message["content"]
        and "mugs" not in message["content"].split("conversations end here")[0]
    )
    with pytest.raises(ValueError, match="notes are for con-separate"):
        read.answer_messages(item, ranking.records, "json", "con-separate")
    with pytest.raises(ValueError, match="notes are for con-separate"):
        read.answer_messages(item, ranking.records, "json", "con", notes)
