"""What a reader gets: values, budgets in its own tokens, histories cut at one end."""

from types import SimpleNamespace

import pytest
from fault_server import FaultServer, Step
from test_study import make_profile
from toy import question, write

from lme_utils import data, extract, jobs, llm, read, study, tokens
from lme_utils.config import Endpoint
from lme_utils.finding import Memory
from lme_utils.index import build_records
from lme_utils.schema import Config


def words(text):
    return len(text.split())


@pytest.fixture
def item(tmp_path):
    (found,) = data.load_instances(write(tmp_path / "q"))
    return found


def profile_of(**fields):
    """A profile whose one reader, "small", has an endpoint with these fields."""
    endpoint = Endpoint(model="toy", **fields)
    nowhere = SimpleNamespace(base_url="")
    return make_profile(nowhere, endpoints={"small": endpoint})


@pytest.fixture
def profile():
    return profile_of(context=1000)


@pytest.fixture
def counted(monkeypatch):
    """Counts words instead of tokens; the texts that were counted."""
    texts = []

    def count(text):
        texts.append(text)
        return words(text)

    monkeypatch.setattr(tokens, "counter", lambda endpoint: count)
    return texts


def remembered(item, granularity, kind, *texts, **fields):
    """Notes on a history: for each of its records the texts noted; None: no note."""
    records = build_records(item, granularity)
    notes = {
        extract.shown_text(record, kind): extract.Note(kind, tuple(found), **fields)
        for record, found in zip(records, texts, strict=True)
        if found is not None
    }
    return Memory({(kind, granularity): notes})


def ids(job):
    return [record.id for record in job.records]


# Values


def test_facts_are_read_instead_of_turns(item, profile, counted):
    facts = ["The user bought two mugs."], [], ["A mug.", "One more mug."]
    memory = remembered(item, "session", "fact", *facts)
    config = Config("small", "bm25", value="fact", layout="nl")
    (job,) = jobs.make_jobs([config], [item], profile, memory)
    assert read.lay_out(job.records, "nl") == (
        "### Session 1\nDate: 2024/03/01 (Fri) 10:00\nThe user bought two mugs.\n\n"
        "### Session 2\nDate: 2024/03/03 (Sun) 12:00\nA mug.\nOne more mug."
    )
    # 7 words of number and date each, 5 and 5 of facts
    assert (job.n_empty, job.n_left_out, job.n_read) == (1, 0, 24)
    (message,) = read.answer_messages(item, job.records, "nl", "con")
    for leak in ("answer_aa", "has_answer", "Enamel"):
        assert leak not in message["content"]


def test_an_empty_record_counts_among_the_k_best(item, profile, counted):
    # BM25 finds f1 third: only with k = 3 is its empty note met
    facts = ["Two mugs."], [], ["One mug."]
    memory = remembered(item, "session", "fact", *facts)
    for k, n_read, n_empty in ((1, 1, 0), (2, 2, 0), (3, 2, 1), (None, 2, 1)):
        configs = [Config("small", "bm25", value=v, k=k) for v in ("V", "fact")]
        turns, notes = jobs.make_jobs(configs, [item], profile, memory)
        assert (len(notes.records), notes.n_empty) == (n_read, n_empty)
        assert len(turns.records) == n_read + n_empty and turns.n_empty == 0


def test_values_share_one_ranking(item, profile, counted, monkeypatch):
    calls = []

    def find(*arguments):
        calls.append(arguments)
        return real(*arguments)

    real = jobs.find
    monkeypatch.setattr(jobs, "find", find)
    memory = remembered(item, "turn", "summary", *(["Mugs."] for _ in range(6)))
    configs = [
        Config("small", "bm25", "turn", value=value, k=2) for value in ("V", "summary")
    ]
    turns, notes = jobs.make_jobs(configs, [item], profile, memory)
    assert len(calls) == 1 and ids(turns) == ids(notes) and len(ids(notes)) == 2
    assert {record.value for record in notes.records} == {("Mugs.",)}


def test_nothing_is_read_of_notes_that_failed_or_are_missing(item, profile, counted):
    config = Config("small", "oracle", value="summary")
    failed = remembered(item, "session", "summary", [], [], [], status="failed")
    missing = remembered(item, "session", "summary", ["Mugs."], None, None)
    for memory, read_of, n_empty in (
        (failed, [], 2),
        (missing, ["answer_aa_1"], 1),
    ):
        (job,) = jobs.make_jobs([config], [item], profile, memory)
        assert ids(job) == read_of and job.n_empty == n_empty
    for memory in (None, Memory()):
        with pytest.raises(ValueError, match="got no notes of sessions"):
            jobs.make_jobs([config], [item], profile, memory)
    with pytest.raises(ValueError, match="value: got 'facts', wanted one of V, summ"):
        jobs.make_jobs([Config("small", value="facts")], [item], profile, failed)


def test_official_rounds_find_the_notes_of_their_user_turn(tmp_path, profile, counted):
    sessions = question()["haystack_sessions"]
    sessions[0][1]["role"] = "user"  # three turns of the user in a row
    path = write(tmp_path / "q", question(haystack_sessions=sessions))
    (item,) = data.load_instances(path)
    texts = [[f"note {i}"] for i in range(7)]
    memory = remembered(item, "turn", "fact", *texts)
    for compat in ("fixed", "official"):
        config = Config("small", "newest", "turn", value="fact", compat=compat)
        (job,) = jobs.make_jobs([config], [item], profile, memory)
        assert [list(record.value) for record in job.records] == texts


# Budgets


def test_a_budget_is_counted_by_the_reader_and_cuts_between_records(
    item, profile, counted
):
    # in words as natural language: aa_1 24, f1 22, aa_2 23
    for retriever, budget, wanted in (
        ("newest", 69, ["answer_aa_1", "f1", "answer_aa_2"]),
        ("newest", 68, ["f1", "answer_aa_2"]),
        ("newest", 45, ["f1", "answer_aa_2"]),
        ("newest", 44, ["answer_aa_2"]),
        ("newest", 22, []),  # f1 would fit, but behind a hole
        ("oldest", 46, ["answer_aa_1", "f1"]),
        ("oldest", 45, ["answer_aa_1"]),
        ("oracle", 46, ["answer_aa_1"]),
        ("bm25", 46, ["answer_aa_1", "f1"]),  # aa_2, the second best, does not fit
    ):
        config = Config("small", retriever, layout="nl", budget_tokens=budget)
        (job,) = jobs.make_jobs([config], [item], profile)
        assert ids(job) == wanted, (retriever, budget)
        n_words = {"answer_aa_1": 24, "f1": 22, "answer_aa_2": 23}
        assert job.n_read == sum(n_words[name] for name in wanted)
        n_found = 2 if retriever == "oracle" else 3
        assert len(job.records) + job.n_left_out == n_found


def test_an_empty_note_takes_nothing_of_the_budget(item, profile, counted):
    memory = remembered(item, "session", "fact", ["a b"], [], ["c d e"])
    config = Config("small", "newest", value="fact", layout="nl", budget_tokens=19)
    (job,) = jobs.make_jobs([config], [item], profile, memory)
    assert ids(job) == ["answer_aa_1", "answer_aa_2"]  # 7 + 3 and 7 + 2
    assert (job.n_read, job.n_left_out, job.n_empty) == (19, 0, 1)


def test_qwen_tokens_of_the_parts_are_those_of_the_whole(tmp_path):
    sessions = question()["haystack_sessions"] * 4
    path = write(
        tmp_path / "q",
        question(
            haystack_sessions=sessions,
            haystack_session_ids=[f"s{i}" for i in range(12)],
            haystack_dates=["2024/03/01 (Fri) 10:00"] * 12,
            answer_session_ids=["s1"],
        ),
    )
    (item,) = data.load_instances(path)
    profile = profile_of(tokenizer="qwen2.5")
    count = tokens.counter(profile.endpoints["small"])
    for layout in read.LAYOUTS:
        plain = Config("small", "newest", "turn", layout=layout)
        (job,) = jobs.make_jobs([plain], [item], profile)
        whole = job.n_read
        assert len(job.records) == 24
        assert whole == count(read.lay_out(job.records, layout))
        for budget, n_left_out in ((whole + 1, 0), (whole - 1, 1)):
            config = Config(
                "small", "newest", "turn", layout=layout, budget_tokens=budget
            )
            (job,) = jobs.make_jobs([config], [item], profile)
            assert job.n_left_out == n_left_out and job.n_read <= budget


def test_a_text_is_counted_once(item, profile, counted):
    configs = [
        Config("small", "bm25", layout="nl", method=method, budget_tokens=budget)
        for method in ("direct", "con")
        for budget in (30, 60)
    ]
    jobs.make_jobs(configs, [item, item], profile)
    assert len(counted) == len(set(counted)) > 0


def test_a_budget_needs_a_reader_of_the_profile(item, profile):
    for config in (
        Config("", "bm25", budget_tokens=100),
        Config("large", "bm25", budget_tokens=100),
        Config("large", "bm25"),
    ):
        with pytest.raises(ValueError, match=f"no reader {config.reader!r}.*has small"):
            jobs.make_jobs([config], [item], profile)
    (job,) = jobs.make_jobs([Config("", "bm25")], [item], profile)
    assert len(job.records) == 3 and job.n_read == 0


# Room


def test_room_is_what_is_left_of_the_context(profile, monkeypatch):
    monkeypatch.setattr(tokens, "counter", lambda endpoint: lambda text: 100)
    # two fixed parts of 100 tokens, 256 in reserve; direct writes 20, con 40
    assert study.room(profile, "small", "direct") == 1000 - 20 - 200 - 256
    assert study.room(profile, "small", "con") == 1000 - 40 - 200 - 256
    assert study.room(profile, "small", "con-separate") == 1000 - 30 - 200 - 256
    with pytest.raises(ValueError, match="no reader 'large'"):
        study.room(profile, "large", "con")
    with pytest.raises(ValueError, match="method: got 'cot', profile toy has direct"):
        study.room(profile, "small", "cot")
    assert study.room(profile_of(context=497), "small", "con") == 1
    with pytest.raises(ValueError, match="context of 496 tokens, wanted more than 496"):
        study.room(profile_of(context=496), "small", "con")


def test_a_history_that_fills_the_room_fits_the_context(tmp_path):
    long_question = "Which mug? " * 32  # 352 characters
    sessions = question()["haystack_sessions"][:1] * 40
    path = write(
        tmp_path / "q",
        question(
            question=long_question,
            haystack_sessions=sessions,
            haystack_session_ids=[f"s{i}" for i in range(40)],
            haystack_dates=["2024/03/01 (Fri) 10:00"] * 40,
            answer_session_ids=["s1"],
        ),
    )
    (item,) = data.load_instances(path)
    profile = profile_of(tokenizer="qwen2.5", context=1500)
    count = tokens.counter(profile.endpoints["small"])
    for method, n_written in (("direct", 20), ("con", 40)):
        budget = study.room(profile, "small", method)
        config = Config("small", "newest", method=method, budget_tokens=budget)
        (job,) = jobs.make_jobs([config], [item], profile)
        assert job.n_left_out > 0 and budget - job.n_read < 100
        (message,) = read.answer_messages(item, job.records, "json", method)
        left = 1500 - count(message["content"]) - n_written
        assert left >= 40  # for a chat template


# The table


def test_the_table_says_what_was_empty_and_how_much_was_read(item, tmp_path, counted):
    store = llm.Store(tmp_path / "store.sqlite")
    shown = [extract.shown_text(record, "summary") for record in build_records(item)]
    configs = [
        Config("small", "oracle", value=value, layout="nl", method="direct")
        for value in ("V", "summary")
    ]
    with FaultServer() as server:
        profile = make_profile(server, extractor="small")
        server.script = {
            shown[0]: [Step(text="Two mugs were bought.")],
            shown[1]: [Step(text="Trains.")],
            shown[2]: [Step(text="")],  # a summary that failed
        }
        table = study.run(configs, [item], profile, store)
        prompts = server.prompts[3:]
    assert table["value"].tolist() == ["V", "summary"]
    assert table["n_records"].tolist() == [2, 1]
    assert table["n_empty"].tolist() == [0, 1]
    assert table["n_left_out"].tolist() == [0, 0]
    assert table["n_read"].tolist() == [24 + 23, 7 + 4]
    assert (table["status"] == "ok").all()
    assert "Enamel" in prompts[0] and "Enamel" not in prompts[1]
    assert "10:00\nTwo mugs were bought.\n\nThe conversations end" in prompts[1]
