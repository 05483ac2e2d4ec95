"""The Makefile, the runner of notebooks and the publisher, on a made-up project."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import nbformat
import pytest
from nbformat import v4

from lme_utils import publish, run_notebook
from lme_utils.config import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# The surroundings of the make that runs these tests must not reach the one they start.
ENV = {
    key: value
    for key, value in os.environ.items()
    if key not in ("PROFILE", "LIVE", "LME_DATA", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
}


def make(folder, *words):
    return subprocess.run(
        ["make", *words], cwd=folder, env=ENV, capture_output=True, text=True
    )


def write_notebook(path, *cells):
    """A notebook with a title, a parameters cell and `cells`; Markdown starts with #"""
    notebook = v4.new_notebook()
    parameters = v4.new_code_cell('PROFILE = "none"\nOUT_DIR = "none"')
    parameters.metadata["tags"] = ["parameters"]
    notebook.cells = [v4.new_markdown_cell("# Title"), parameters]
    notebook.cells += [v4.new_code_cell(text) for text in cells]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


@pytest.fixture
def project(tmp_path):
    """A project with the real Makefile whose Python only writes what it is asked for.

    Its stand-in for Python lists its calls in `calls.txt` and, asked to run a notebook,
    copies it.
    """
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements.txt", "constraints.txt", "data/sources.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for name in ("notebooks/00_a.ipynb", "notebooks/01_b.ipynb", "lme_utils/x.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    stand_in = tmp_path / ".venv" / "bin" / "python"
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text(
        '#!/bin/sh\necho "$@" >> calls.txt\n'
        'if [ "$2" = lme_utils.run_notebook ]; then\n'
        '  mkdir -p "$(dirname "$4")"; cp "$3" "$4"; echo done\nfi\n'
    )
    stand_in.chmod(0o755)
    time.sleep(0.01)
    (tmp_path / ".venv" / ".installed").touch()
    (tmp_path / ".venv" / ".embedder").write_text("Makefile\n")
    return tmp_path


def runs(project, *words):
    """Which notebooks `make figures` runs, by the first word of their names."""
    calls = project / "calls.txt"
    calls.unlink(missing_ok=True)
    done = make(project, "figures", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    text = calls.read_text() if calls.exists() else ""
    return sorted(re.findall(r"run_notebook notebooks/(\d\d)", text))


def test_help_lists_every_target():
    lines = make(ROOT, "help").stdout
    phony = re.search(r"^\.PHONY:((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)[1]
    targets = set(phony.replace("\\", "").split()) - {"FORCE"}
    assert "figures" in targets
    assert set(re.findall(r"^  make (\S+)", lines, re.MULTILINE)) == targets


def test_fresh_project_installs_then_fetches_then_runs(project):
    shutil.rmtree(project / ".venv")
    plan = make(project, "-n", "figures").stdout
    steps = ["-m venv", "pip install", "lme_utils.weights all-MiniLM", "run_notebook"]
    places = [plan.index(step) for step in steps]
    assert places == sorted(places)
    assert plan.count("pip install") == 1
    assert plan.count(" -m lme_utils.run_notebook notebooks/") == 2
    assert "pip install" in make(project, "-n", "test").stdout


def test_second_run_does_nothing_and_says_so(project):
    assert runs(project, "-j2") == ["00", "01"]
    start = time.monotonic()
    assert runs(project) == []
    assert time.monotonic() - start < 3
    assert not (project / "calls.txt").exists()  # Python was not started
    assert "up to date" in make(project, "figures").stdout


@pytest.mark.parametrize(
    ("touched", "expected"),
    [
        ("notebooks/01_b.ipynb", ["01"]),
        ("lme_utils/x.py", ["00", "01"]),
        ("lme_utils/prompts/p.txt", ["00", "01"]),
        ("lme_utils/profiles/mini.toml", ["00", "01"]),
        ("lme_utils/profiles/real-cpu.toml", []),
        ("data/mini/a.json", ["00", "01"]),
        ("data/paper/a.csv", ["00", "01"]),
        ("data/recordings/mini.jsonl.xz", ["00", "01"]),
        ("data/recordings/real-cpu.jsonl.xz", []),
        ("data/recordings/judges/a.csv", ["00", "01"]),
        ("README.md", []),
    ],
)
def test_what_makes_a_notebook_run_again(project, touched, expected):
    runs(project)
    (project / touched).parent.mkdir(parents=True, exist_ok=True)
    time.sleep(0.02)  # file times move in steps
    (project / touched).touch()
    assert runs(project) == expected


def test_live_and_other_data_do_not_reuse_results(project):
    runs(project)
    assert runs(project, "LIVE=1") == ["00", "01"]
    assert runs(project, "LIVE=1") == []
    assert runs(project, "LIVE=1", "LME_DATA=elsewhere") == ["00", "01"]
    assert runs(project) == ["00", "01"]


def test_profiles_have_folders_of_their_own(project):
    runs(project)
    assert runs(project, "PROFILE=real-cpu") == ["00", "01"]
    assert runs(project) == []
    assert (project / "build" / "real-cpu" / "nb" / "00_a.ipynb").exists()


def test_embedder_is_fetched_again_when_it_is_gone(project):
    runs(project)
    (project / ".venv" / ".embedder").write_text("cache/gone\n")
    make(project, "setup")
    assert "lme_utils.weights all-MiniLM-L6-v2" in (project / "calls.txt").read_text()


def test_failing_notebook_fails_the_build_and_shows_its_log(project):
    python = project / ".venv" / "bin" / "python"
    python.write_text("#!/bin/sh\necho ZeroDivisionError in the cell\nexit 1\n")
    done = make(project, "figures")
    assert done.returncode != 0
    assert "ZeroDivisionError in the cell" in done.stdout
    assert "up to date" not in done.stdout


def test_record_asks_in_the_background_then_keeps_the_answers(project):
    slow = project / ".venv" / "bin" / "python"
    slow.write_text(slow.read_text().replace("#!/bin/sh\n", "#!/bin/sh\nsleep 0.5\n"))
    (project / ".venv" / ".installed").touch()
    (project / ".venv" / ".embedder").write_text("Makefile\n")
    done = make(project, "record")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "build/mini/record.log" in done.stdout
    log = project / "build" / "mini" / "record.log"
    assert "recorded" not in log.read_text()  # make did not wait
    deadline = time.monotonic() + 30
    while "recorded" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    calls = (project / "calls.txt").read_text().splitlines()
    assert [call.split()[1] for call in calls] == [
        "lme_utils.run_notebook", "lme_utils.run_notebook", "lme_utils"
    ]  # fmt: skip
    assert calls[-1] == "-m lme_utils record --profile mini"
    settings = (project / "build" / "mini" / ".settings").read_text()
    assert settings.startswith("LIVE=1 ")


def test_clean_keeps_data_and_recordings(project):
    runs(project)
    (project / "data" / "recordings").mkdir()
    make(project, "clean")
    left = {path.name for path in project.iterdir()}
    assert "build" not in left
    assert {"data", ".venv", "notebooks"} <= left
    assert (project / "data" / "recordings").exists()


def test_wrong_python_is_refused_with_what_to_do(project):
    shutil.rmtree(project / ".venv")
    old = project / "old-python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.1\nexit 1\n')
    old.chmod(0o755)
    done = make(project, "setup", "PYTHON=./old-python")
    assert done.returncode != 0
    assert "Python 3.9.1" in done.stdout
    assert "3.11, 3.12 or 3.13" in done.stdout
    assert not (project / ".venv").exists()


def test_only_mini_is_published(project):
    done = make(project, "publish", "PROFILE=paper")
    assert done.returncode != 0
    assert "lme_utils.publish" not in (project / "calls.txt").read_text()


def test_parity_asks_for_a_file(project):
    assert "DATA=FILE" in make(project, "parity").stdout
    make(project, "parity", "DATA=some.json")
    calls = (project / "calls.txt").read_text()
    assert re.findall(r"--data some.json .*--granularity (\w+)", calls) == [
        "session",
        "turn",
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A project with one notebook, run by the real runner, and one figure."""
    root = tmp_path_factory.mktemp("built")
    source = root / "notebooks" / "00_a.ipynb"
    write_notebook(
        source,
        "import os, sys, time\nprint(PROFILE, OUT_DIR, os.getcwd(), sys.executable)",
        "import lme_utils\nprint('one', flush=True)\nprint('no', file=sys.stderr)\n"
        "time.sleep(0.3)\nprint('two', OUT_DIR)\nobject()",
    )
    out = root / "build" / "mini" / "nb" / "00_a.ipynb"
    words = [str(source), str(out), "PROFILE=mini", f"OUT_DIR={out.parents[1]}"]
    done = subprocess.run(
        [sys.executable, "-m", "lme_utils.run_notebook", *words],
        cwd=ROOT,
        env=ENV | {"JUPYTER_PATH": str(strange_kernel(root))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figure = root / "build" / "mini" / "figures" / "00_a" / "curve.svg"
    figure.parent.mkdir(parents=True)
    figure.write_text("<svg/>")
    return root, out, done.stdout


def strange_kernel(root):
    """Another Jupyter's `python3` kernel, first in line, which cannot start."""
    folder = root / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": ["false"], "display_name": "other", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    return root / "jupyter"


def test_runner_uses_this_python_in_the_root_with_parameters(built):
    _, out, log = built
    assert f"mini {out.parents[1]} {ROOT} {sys.executable}\n" in log
    assert re.search(r"00_a.ipynb: 4 code cells in \d+\.\d s\n$", log)
    assert not out.with_suffix(".part.ipynb").exists()
    assert not re.search(r"Executing|%\|", log)


def test_runner_keeps_the_part_of_a_failed_notebook(tmp_path, capsys):
    write_notebook(tmp_path / "bad.ipynb", "print('so far')", "1 / 0", "print('after')")
    out = tmp_path / "out.ipynb"
    out.write_text("an old result")
    code = run_notebook.main([str(tmp_path / "bad.ipynb"), str(out), "PROFILE=mini"])
    log = capsys.readouterr().out
    assert code == 1
    assert not out.exists()
    assert "so far" in (tmp_path / "out.part.ipynb").read_text()
    assert "ZeroDivisionError: division by zero" in log
    assert "In [4]" in log
    assert "after\n" not in log
    assert re.search(r"failed after \d+\.\d s\n$", log)


def test_runner_refuses_a_cell_that_exits_early(tmp_path, capsys):
    write_notebook(tmp_path / "bad.ipynb", "import sys; sys.exit(0)", "print('after')")
    words = [str(tmp_path / "bad.ipynb"), str(tmp_path / "out.ipynb")]
    assert run_notebook.main(words) == 1
    assert "ended the run early" in capsys.readouterr().out
    assert not (tmp_path / "out.ipynb").exists()


def test_runner_refuses_a_parameter_without_a_name():
    with pytest.raises(ValueError, match="NAME=VALUE"):
        run_notebook.parse_parameters(["mini"])


@pytest.fixture
def copied(built, tmp_path):
    root, _, _ = built
    shutil.copytree(root, tmp_path / "copy")
    # paths that the run printed belong to the first place: make them the copy's
    run = tmp_path / "copy" / "build" / "mini" / "nb" / "00_a.ipynb"
    run.write_text(run.read_text().replace(str(root), str(tmp_path / "copy")))
    return tmp_path / "copy"


def test_publish_twice_changes_nothing_the_second_time(copied):
    source = copied / "notebooks" / "00_a.ipynb"
    before, time_ns = json.loads(source.read_text()), source.stat().st_mtime_ns
    changed = publish.publish(copied)
    assert changed == [source, copied / "figures" / "00_a" / "curve.svg"]
    assert publish.publish(copied) == []

    text = source.read_text(encoding="utf-8")
    after = json.loads(text)
    assert text.endswith("}\n")
    assert source.stat().st_mtime_ns == time_ns  # so that make has nothing to do
    nbformat.validate(after)
    for key in ("id", "source", "cell_type", "metadata"):
        assert [c[key] for c in after["cells"]] == [c[key] for c in before["cells"]]
    counts = [c.get("execution_count") for c in after["cells"]]
    assert counts == [None, 1, 2, 3]
    streams = after["cells"][3]["outputs"]
    assert streams[0]["text"] == ["one\n", "two build/mini\n"]
    assert streams[1]["data"]["text/plain"] == ["<object>"]
    left = r'papermill|injected|"stderr"|\b0x|\d\d:\d\d:\d\d'
    assert not re.search(left, text)
    assert str(copied) not in text


def test_publish_removes_figures_that_are_gone(copied):
    stale = copied / "figures" / "00_a" / "old.svg"
    stale.parent.mkdir(parents=True)
    stale.touch()
    assert stale in publish.publish(copied)
    assert not stale.exists()


def test_publish_refuses_an_older_run(copied):
    source = copied / "notebooks" / "00_a.ipynb"
    later = time.time() + 10
    os.utime(source, (later, later))
    with pytest.raises(ValueError, match="newer than its run"):
        publish.publish(copied)
    assert not (copied / "figures").exists()


def test_publish_refuses_another_source(copied):
    source = copied / "notebooks" / "00_a.ipynb"
    old = source.stat()
    text = source.read_text()
    source.write_text(text.replace("import lme_utils", "import lme_utils  # new"))
    os.utime(source, ns=(old.st_atime_ns, old.st_mtime_ns))
    with pytest.raises(ValueError, match="another version"):
        publish.publish(copied)


def test_publish_refuses_a_notebook_that_was_not_run(copied):
    write_notebook(copied / "notebooks" / "01_b.ipynb", "1")
    with pytest.raises(ValueError, match=r"01_b.ipynb was not run"):
        publish.publish(copied)
