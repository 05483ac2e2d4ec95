"""Prompts: layout, order, budget, and no label in them."""

import json
from dataclasses import replace

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


def by_content(text):
    """A toy tokeniser: the session about trains is long, the others are short."""
    return 50 if "trains" in text else 10


def test_a_history_cut_at_one_end_has_no_holes():
    item = to_instance(question(), "toy", {})
    for retriever, first in (("newest", "answer_aa_2"), ("oldest", "answer_aa_1")):
        ranking = rank(item, build_records(item), retriever)
        records, left_out = read.choose_records(ranking, None, 25, by_content)
        assert [record.id for record in records] == ["answer_aa_1", "answer_aa_2"]
        assert left_out == 1
        cut, left_out = read.choose_records(ranking, None, 25, by_content, holes=False)
        assert [record.id for record in cut] == [first] and left_out == 2
        # what is beyond k was not found: it does not count as left out
        assert read.choose_records(ranking, 2, 25, by_content, holes=False)[1] == 1


def test_a_budget_counts_numbers_dates_and_separators():
    item = to_instance(question(), "toy", {})
    ranking = rank(item, build_records(item, "turn"), "oracle")
    # in characters the sum is exact, but for a separator after the last record
    for n in range(1, 7):
        whole = len(read.lay_out(ranking.records[:n], "nl")) + 2
        for budget, n_kept in ((whole, n), (whole - 1, n - 1)):
            records, left_out = read.choose_records(
                ranking, n, budget, len, "nl", holes=False
            )
            assert (len(records), left_out) == (n_kept, n - n_kept)


def test_numbers_of_two_digits_count_as_such():
    one = rank(to_instance(question(), "toy", {}), ranked()[1].records).records[0]
    many = tuple(replace(one, position=(i, -1)) for i in range(12))
    ranking = Ranking("q1", many, (0.0,) * 12)
    whole = len(read.lay_out(many, "json")) + 2
    for budget, n in ((whole, 12), (whole - 1, 11)):
        assert len(read.choose_records(ranking, None, budget, len)[0]) == n


TEXTS = {(0, -1): ("Owns \u00e9mail.", "Two mugs."), (1, -1): (), (2, -1): ("One.",)}


def test_values_are_exchanged_for_the_texts_of_notes():
    _item, ranking = ranked()  # by evidence: aa_1, aa_2, f1
    found, n_empty = read.exchange_values(ranking, TEXTS)
    assert n_empty == 1 and found.question_id == "q1" and found.scores == (1.0, 1.0)
    assert [(r.id, r.value) for r in found.records] == [
        ("answer_aa_1", TEXTS[0, -1]),
        ("answer_aa_2", TEXTS[2, -1]),
    ]
    assert found.records[0] == replace(ranking.records[0], value=TEXTS[0, -1])
    # nothing comes in for an empty record among the k best
    backwards = Ranking("q1", ranking.records[::-1], ranking.scores[::-1])
    found, n_empty = read.exchange_values(backwards, TEXTS, k=2)
    assert [r.id for r in found.records] == ["answer_aa_2"] and n_empty == 1
    found, n_empty = read.exchange_values(backwards, TEXTS, k=1)
    assert (found, n_empty) == (Ranking("q1", (), ()), 1)


def test_a_record_found_twice_has_its_value_exchanged_once():
    item = to_instance(question(), "toy", {})
    records = build_records(
        item, "session", "official", {"aa_1": "mugs", "f1": "x"}, "separate"
    )
    ranking = rank(item, records, "oracle", "official")
    assert len(ranking.records) == 6
    found, n_empty = read.exchange_values(ranking, TEXTS)
    assert [r.position for r in found.records] == [(0, -1), (2, -1)] and n_empty == 1


def test_note_texts_are_a_list_in_json_and_lines_in_nl():
    found, _ = read.exchange_values(ranked()[1], TEXTS)
    assert read.lay_out(found.records, "json") == (
        '### Session 1\nDate: 2024/03/01 (Fri) 10:00\n["Owns \u00e9mail.", "Two mugs."]'
        '\n\n### Session 2\nDate: 2024/03/03 (Sun) 12:00\n["One."]'
    )
    assert read.lay_out(found.records, "nl") == (
        "### Session 1\nDate: 2024/03/01 (Fri) 10:00\nOwns \u00e9mail.\nTwo mugs."
        "\n\n### Session 2\nDate: 2024/03/03 (Sun) 12:00\nOne."
    )
    silent = replace(found.records[0], value=())
    assert read.lay_out([silent], "json").endswith("10:00\n[]")


def test_con_separate_takes_notes_on_note_texts():
    item, ranking = ranked()
    found, _ = read.exchange_values(ranking, TEXTS)
    (message,) = read.note_messages(item, found.records[1], "json")
    assert '12:00\n["One."]\n\nThe conversation ends here.' in message["content"]
    (message,) = read.answer_messages(
        item, found.records, "json", "con-separate", ["first", "second"]
    )
    assert "12:00\nsecond\n\nThe conversations end here." in message["content"]
    assert "Two mugs" not in message["content"]


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
