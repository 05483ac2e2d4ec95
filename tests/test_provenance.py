"""Runs, expected values and verdicts."""

import json
import math
import os
import subprocess
import sys

import pytest

from lme_utils import provenance, verdicts
from lme_utils.config import ROOT
from lme_utils.provenance import start_run


@pytest.fixture
def expected(tmp_path, monkeypatch):
    folder = tmp_path / "expected"
    monkeypatch.setattr(provenance, "EXPECTED", folder)
    return folder


def finished(out_dir, notebook="06_reading", profile="mini", **metrics):
    run = start_run(notebook, profile, out_dir)
    for name, value in metrics.items():
        run.note(name, value, tolerance=0.01)
    run.finish()


def test_start_says_what_it_works_on(tmp_path, capsys):
    data = tmp_path / "toy.json"
    data.write_bytes(b"abc")
    run = start_run("06_reading", "mini", tmp_path, [data], {"seed": 1})
    line = capsys.readouterr().out
    # sha256 of "abc" begins so
    assert line == "profile mini · toy.json (3 bytes, ba7816bf8f01)\n"
    assert run.figures_dir == tmp_path / "figures" / "06_reading"
    assert str(tmp_path) not in json.dumps(run.stamp())


def test_start_removes_what_an_earlier_run_left(tmp_path):
    finished(tmp_path, overall=0.5)
    run = start_run("06_reading", "mini", tmp_path)
    run.write("old.csv", "1")
    run = start_run("06_reading", "mini", tmp_path)
    assert not list(run.figures_dir.iterdir())
    assert not list((tmp_path / "metrics").iterdir())


@pytest.mark.parametrize("name", ["", "..", "06_a/b", "reading"])
def test_start_refuses_other_names(tmp_path, name):
    with pytest.raises(ValueError, match="wanted a name like"):
        start_run(name, "mini", tmp_path)


def test_finish_writes_everything(tmp_path):
    run = start_run("06_reading", "mini", tmp_path, settings={"seed": 1})
    run.note("overall", 0.5)
    run.expect("a beats b", "Table 2", 0.1, 0.02, +1)
    run.saw("a beats b", 0.05, -0.1, 0.2, n=14, p=math.nan)
    record = json.loads(run.finish().read_text())
    assert record["metrics"] == {"overall": {"value": 0.5, "tolerance": 1e-9}}
    assert record["claims"][0]["ours"]["p"] is None
    assert record["claims"][0]["verdict"] == "can't be told"
    assert record["seconds"] >= 0
    assert record["versions"]["numpy"]
    assert record["commit"] is None or len(record["commit"]) == 40
    assert not list(tmp_path.rglob("*.part"))


def test_stamp_is_the_same_in_every_run(tmp_path):
    stamps = []
    for _ in range(2):
        run = start_run("06_reading", "mini", tmp_path, settings={"seed": 1})
        run.count_answers(["recorded"])
        run.write_stamp("figure", alt="x")
        stamps.append((run.figures_dir / "figure.json").read_bytes())
    assert stamps[0] == stamps[1]
    assert not {"seconds", "commit", "versions"} & set(json.loads(stamps[0]))


def test_answers_are_counted(tmp_path):
    run = start_run("06_reading", "mini", tmp_path)
    assert run.about == "profile mini"
    run.count_answers(["recorded"] * 3 + ["stored", "live", ""])
    assert run.about == "profile mini · 3 answers recorded, 2 live · 1 not run"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_note_refuses_what_is_no_number(tmp_path, value):
    run = start_run("06_reading", "mini", tmp_path)
    with pytest.raises(ValueError, match="finite"):
        run.note("overall", value)


def test_a_name_is_noted_once_and_a_claim_made_first(tmp_path):
    run = start_run("06_reading", "mini", tmp_path)
    run.note("overall", 1)
    with pytest.raises(ValueError, match="twice"):
        run.note("overall", 1)
    with pytest.raises(ValueError, match="was not expected"):
        run.saw("a beats b", 0.1, 0, 0.2, 14)
    run.expect("a beats b", "Table 2", 0.1, 0.02, 1)
    with pytest.raises(ValueError, match="wanted a new claim"):
        run.expect("a beats b", "Table 2", 0.1, 0.02, 1)


@pytest.mark.parametrize(
    ("difference", "p", "sign", "wanted"),
    [
        (0.1, 0.05, 1, "same and significant"),
        (-0.1, 0.001, -1, "same and significant"),
        (0.1, 0.06, 1, "same, within the noise"),
        (-0.1, 0.001, 1, "opposite"),
        (0.1, 0.9, -1, "opposite"),
        (0.0, 1.0, 1, "can't be told"),
        (None, 0.5, 1, "can't be told"),
        (0.1, None, 1, "can't be told"),
        (math.nan, 0.5, 1, "can't be told"),
        (0.1, 0.01, 0, "can't be told"),
    ],
)
def test_direction(difference, p, sign, wanted):
    assert verdicts.direction_verdict(difference, p, sign) == wanted


def test_verdict_depends_on_the_profile():
    claim = {"paper": 0.10, "band": 0.02, "sign": 1, "source": "Table 2"}
    assert verdicts.verdict(claim, "mini") == "not run"
    claim["ours"] = {"value": 0.12, "low": 0.0, "high": 0.2, "n": 500, "p": 0.4}
    assert verdicts.verdict(claim, "paper") == "inside the band"
    assert verdicts.verdict(claim, "real-cpu") == "same, within the noise"
    claim["ours"]["value"] = 0.1201
    assert verdicts.verdict(claim, "paper") == "outside the band"


def test_verdicts_are_shown(tmp_path):
    run = start_run("06_reading", "mini", tmp_path)
    long = "CoN with JSON beats the plain direct reading of the same evidence, a < b"
    run.expect(long, "Figure 6", 0.102, 0.03, 1)
    run.expect("never run", "Figure 6", 0.5, 0.03, 0)
    run.saw(long, 0.0714, -0.02, 0.3, n=14, p=0.0001)
    table = verdicts.verdict_table(run.claims, "mini").set_index("claim")
    assert table.loc[long].to_dict() == {
        "source": "Figure 6",
        "paper": "+0.102",
        "ours": "+0.071",
        "95% interval": "-0.020 to +0.300",
        "n": "14",
        "p": "< 0.001",
        "verdict": "same and significant",
    }
    assert table.loc["never run", ["ours", "verdict"]].tolist() == ["–", "not run"]
    shown = provenance.show_verdicts(run).data
    assert long.replace("<", "&lt;") in shown
    assert shown == provenance.show_verdicts(run).data


def test_accept_then_check(tmp_path, expected):
    finished(tmp_path / "build", overall=0.5, recall=0.9)
    provenance.accept(tmp_path / "build")
    assert provenance.check(tmp_path / "build") == []
    written = json.loads((expected / "mini.json").read_text())
    assert written["06_reading"]["recall"] == {"value": 0.9, "tolerance": 0.01}

    finished(tmp_path / "build", overall=0.509, recall=0.889)
    assert provenance.check(tmp_path / "build") == [
        "06_reading: recall: got 0.889, wanted 0.9 ± 0.01"
    ]
    finished(tmp_path / "build", overall=0.5)
    assert provenance.check(tmp_path / "build") == [
        "06_reading: recall: missing, wanted 0.9 ± 0.01"
    ]


def test_accept_keeps_other_notebooks_and_check_misses_them(tmp_path, expected):
    finished(tmp_path / "one", "00_start", overall=0.1)
    finished(tmp_path / "two", "06_reading", overall=0.2)
    provenance.accept(tmp_path / "one")
    provenance.accept(tmp_path / "two")
    assert list(json.loads((expected / "mini.json").read_text())) == [
        "00_start",
        "06_reading",
    ]
    assert provenance.check(tmp_path / "two") == ["00_start: no metrics, wanted 1"]


def test_exit_status(tmp_path, expected, capsys):
    build = str(tmp_path / "build")
    assert provenance.main(["check", build]) == 1
    assert "no metrics in" in capsys.readouterr().out
    finished(build, overall=0.5)
    assert provenance.main(["check", build]) == 1
    assert "no mini.json" in capsys.readouterr().out
    assert provenance.main(["accept", build]) == 0
    assert provenance.main(["check", build]) == 0
    finished(build, "00_start", profile="paper", overall=0.5)
    assert provenance.main(["check", build]) == 1
    assert "profiles mixed" in capsys.readouterr().out


def test_command(tmp_path):
    finished(tmp_path, profile="no-such-profile", overall=0.5)
    command = [sys.executable, "-m", "lme_utils.provenance", "check", str(tmp_path)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert "no no-such-profile.json" in done.stdout
    assert done.stderr == ""


def test_a_broken_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    provenance.write_aside(path, "old")
    monkeypatch.setattr(
        type(path), "replace", lambda *_: (_ for _ in ()).throw(OSError)
    )
    with pytest.raises(OSError):
        provenance.write_aside(path, "new")
    assert path.read_text() == "old"


def test_recorded_results_are_drawn_under_their_own_profile(tmp_path):
    run = start_run("06_reading", "mini", tmp_path / "out")
    recorded = tmp_path / "recorded.csv"
    recorded.write_text("a\n1\n")
    run.count_answers(["recorded"] * 3)
    other = run.of_recording("real-cpu", recorded, ["live", "stored", ""])
    assert other.about == "profile real-cpu · 0 answers recorded, 2 live · 1 not run"
    assert [d["file"] for d in other.stamp()["data"]] == ["recorded.csv"]
    assert other.figures_dir == run.figures_dir
    assert run.answers["recorded"] == 3 and run.profile != "real-cpu"
