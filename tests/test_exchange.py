"""The authors' file formats, and the commands that speak them."""

import json
import lzma

import pytest
from fault_server import FaultServer, Step
from toy import question, write

from lme_utils import __main__ as cli
from lme_utils import data, exchange
from lme_utils.formats import FormatError
from lme_utils.index import build_records
from lme_utils.judge import judge_messages
from lme_utils.metrics import score_ranking
from lme_utils.retrieve import rank
from lme_utils.schema import Verdict


@pytest.fixture
def path(tmp_path):
    return write(
        tmp_path / "q.json",
        question(),
        question(question_id="q2", question_type="knowledge-update"),
        question(question_id="q3_abs", question_type="temporal-reasoning"),
    )


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write_lines(path, *objects):
    path.write_text("".join(json.dumps(o) + "\n" for o in objects), "utf-8")
    return path


@pytest.mark.parametrize("compat", ["official", "fixed"])
@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_a_retrieval_log_comes_back(path, tmp_path, compat, granularity):
    log = tmp_path / "log.jsonl"
    args = ["--granularity", granularity, "--compat", compat, "--out", str(log)]
    assert cli.main(["retrieve", "--data", str(path), *args]) == 0
    instances = list(data.load_instances(path))
    for line, item in zip(lines(log), instances, strict=True):
        ranking = rank(item, build_records(item, granularity, compat), compat=compat)
        found = line["retrieval_results"]
        assert [i["corpus_id"] for i in found["ranked_items"]] == [
            record.id for record in ranking.records
        ]
        assert found["ranked_items"][0]["timestamp"].startswith("2024/03/0")
        assert found["metrics"] == score_ranking(item, ranking, granularity, compat)
        assert line["haystack_sessions"] == question()["haystack_sessions"]
    read = exchange.read_log(log, instances, granularity)
    # positions are those of the file, whichever way the ids were written
    assert [r.position for r in read["q1"].records] == [
        r.position
        for r in rank(
            instances[0],
            build_records(instances[0], granularity, compat),
            compat=compat,
        ).records
    ]


def test_retrieve_prints_the_means_last(path, capsys):
    assert cli.main(["retrieve", "--data", str(path), "--compat", "official"]) == 0
    mean = json.loads(capsys.readouterr().out)
    assert mean["all_but_abstention"]["n"] == 2
    assert set(mean) == {"all_but_abstention", "with_user_side_target"}
    assert mean["all_but_abstention"]["session"]["recall_all@3"] == 1.0
    assert mean["all_but_abstention"]["turn"] == {}


def test_retrieve_takes_expansions(path, tmp_path, capsys):
    expansions = tmp_path / "facts.json"
    expansions.write_text(json.dumps({"aa_1": [], "aa_2": [], "f1": "How many mugs"}))
    args = ["--compat", "official", "--expansions", str(expansions)]
    cli.main(["retrieve", "--data", str(path), *args])
    session = json.loads(capsys.readouterr().out)["all_but_abstention"]["session"]
    assert (session["recall_any@5"], session["recall_all@5"]) == (0.0, 1.0)


@pytest.mark.parametrize("text", ["[", "[]", '{"a": 3}', '{"a": ["x", null]}'])
def test_bad_expansions_are_refused(path, tmp_path, capsys, text):
    expansions = tmp_path / "facts.json"
    expansions.write_text(text)
    words = ["retrieve", "--data", str(path), "--expansions", str(expansions)]
    assert cli.main(words) == 1
    assert str(expansions) in capsys.readouterr().err


def test_logs_that_do_not_fit_are_refused(path, tmp_path):
    instances = list(data.load_instances(path))

    def log(*items):
        ranked = {"ranked_items": [{"corpus_id": i} for i in items]}
        return {"question_id": "q1", "retrieval_results": ranked}

    file = write_lines(tmp_path / "log.jsonl", log("f1", "zz"))
    with pytest.raises(FormatError, match=r"line 1: q1: no session 'zz'"):
        exchange.read_log(file, instances, "session")
    file = write_lines(tmp_path / "log.jsonl", log("f1"))
    with pytest.raises(FormatError, match="no ranking for 2 of 3 questions, first q2"):
        exchange.read_log(file, instances, "session")


def test_judge_keeps_a_line_for_every_question(path, tmp_path):
    answers = write_lines(
        tmp_path / "a.jsonl",
        {"question_id": "q1", "hypothesis": "You bought 3 mugs.", "extra": 1},
        {"question_id": "q3_abs", "hypothesis": "You did not mention that."},
    )
    out = tmp_path / "v.jsonl"
    words = ["judge", str(answers), "--data", str(path), "--out", str(out)]
    assert cli.main(words) == 0
    first, second, third = lines(out)
    assert first["autoeval_label"]["label"] is True and first["extra"] == 1
    assert second["question_id"] == "q2" and second["status"] == "not run"
    assert second["autoeval_label"]["label"] is None
    assert third["autoeval_label"]["label"] is True


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: wanted an object"),
        ('{"question_id": "zz", "hypothesis": ""}', "line 2: question zz is not in"),
        ('{"question_id": "q1", "hypothesis": ""}', "line 2: question q1 is there"),
        ('{"question_id": "q2", "hypothesis": 3}', "line 2: q2: hypothesis"),
    ],
)
def test_bad_answer_lines_are_named(path, tmp_path, line, said):
    file = write_lines(tmp_path / "a", {"question_id": "q1", "hypothesis": "3"})
    with file.open("a") as stream:
        stream.write(line)
    by_id = {i.question_id: i for i in data.load_instances(path)}
    with pytest.raises(FormatError, match=said):
        exchange.read_answers(file, by_id)


def test_report_counts_what_is_missing(path, tmp_path, capsys):
    verdicts = write_lines(
        tmp_path / "v.jsonl",
        {"question_id": "q1", "autoeval_label": {"model": "m", "label": True}},
        {"question_id": "q3_abs", "label": False},
    )
    assert cli.main(["report", str(verdicts), "--data", str(path)]) == 0
    table = capsys.readouterr().out
    overall = [line for line in table.splitlines() if "overall" in line]
    assert "0.3333" in overall[0] and "strict" in overall[0]
    assert "0.5000" in overall[1] and "lenient" in overall[1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"question_id": "q"}, "wanted autoeval_label or label"),
        ({"question_id": "q", "label": "yes"}, "got 'yes'"),
        ({"question_id": "q", "label": True}, "question_type: got None; give --data"),
    ],
)
def test_bad_verdict_lines_are_named(tmp_path, line, said):
    file = write_lines(tmp_path / "v.jsonl", line)
    with pytest.raises(FormatError, match=said):
        exchange.read_verdicts(file, None)


def test_report_on_real_verdicts(shared, tmp_path, capsys):
    path = shared / "data" / "judged_hypotheses.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        chosen = [row for row in file if '"source": "mentedb"' in row]
    (tmp_path / "m.jsonl").write_text("".join(chosen), "utf-8")
    assert cli.main(["report", str(tmp_path / "m.jsonl")]) == 0
    out = capsys.readouterr().out
    (strict, _) = [line for line in out.splitlines() if "overall" in line]
    assert "0.9200" in strict and "500" in strict and "460" in strict


def test_verdicts_are_written_as_the_authors_do(path):
    item = next(data.load_instances(path))
    fields = exchange.verdict_fields(item, Verdict("q1", True, "offline", "number 3"))
    assert fields["autoeval_label"]["label"] is True
    assert fields["question_type"] == "multi-session"
    assert set(fields) == {"autoeval_label", "question_type"}
    second = Verdict("q1", None, "gpt", "failed")
    both = exchange.verdict_fields(item, Verdict("q1", True, "offline", "3"), second)
    assert both["autoeval_label"]["model"] == "offline"
    assert both["autoeval_label_2"] == {
        "model": "gpt",
        "label": None,
        "reason": "failed",
    }


def test_two_judges_and_where_they_part(path, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LME_CACHE", str(tmp_path / "cache"))
    said = {"q1": "You bought 3 mugs.", "q3_abs": "You did not mention that."}
    answers = write_lines(
        tmp_path / "a.jsonl",
        *({"question_id": name, "hypothesis": said[name]} for name in said),
    )
    out, profile = tmp_path / "v.jsonl", tmp_path / "mine.toml"
    with FaultServer() as server:
        profile.write_text(
            'name = "mine"\nabout = ""\njudge = "offline"\n'
            '[data]\noracle = "o"\ns = "s"\n[reading]\nmax_tokens = { direct = 20 }\n'
            f'[endpoints.small]\nmodel = "toy"\nbase_url = "{server.base_url}"\n'
            "n_parallel = 1\nmax_retries = 0\n"
        )
        for item in data.load_instances(path):
            if item.question_id in said:
                prompt = judge_messages(
                    item.question_id,
                    item.question_type,
                    item.question,
                    item.answer,
                    said[item.question_id],
                )[0]["content"]
                text = "No." if item.question_id == "q1" else "Yes"
                server.script[prompt] = [Step(text=text)]
        words = ["judge", str(answers), "--data", str(path), "--out", str(out)]
        words += ["--profile", str(profile), "--second", "small"]
        assert cli.main(words) == 0
    labels = [
        [line[name]["label"] for name in ("autoeval_label", "autoeval_label_2")]
        for line in lines(out)
    ]
    # no line for q2: neither judge has anything to say
    assert labels == [[True, False], [None, None], [True, True]]
    assert lines(out)[0]["autoeval_label_2"]["model"] == "small"
    printed = capsys.readouterr()
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in printed.out.splitlines()
        if line.startswith("|")
    ]
    table = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert list(table) == [
        "overall",
        "multi-session",
        "knowledge-update",
        "abstention",
    ]
    overall = table["overall"]
    assert overall["n"] == "2" and overall["left_out"] == "1"
    # chance: (2 yes * 1 yes + 0 no * 1 no) / 4, as much as they agree
    assert (overall["agree"], overall["kappa"]) == ("0.500", "0.000")
    assert (overall["yes to no"], overall["no to yes"]) == ("1", "0")
    assert table["multi-session"]["yes to no"] == "1"
    assert table["abstention"]["agree"] == "1.000"
    assert "small: 3 answers judged, 1 without a verdict" in printed.err
