"""The structure of the notebooks, without running them.

Each check takes a notebook (its JSON) and its path, and returns what is wrong. The
second half shows on a made-up notebook that each check can fail.
"""

import ast
import copy
import itertools
import json
import re

import pytest

from lme_utils.config import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAX_LINES = 25  # of a code cell
MAX_COLUMNS = 88
MAX_BYTES = 300_000
FORBIDDEN = {
    r"\bpip3? +install|[%!]pip\b": "installs packages",
    r"filterwarnings|simplefilter|catch_warnings|%%capture": "silences warnings",
    r"import +\*": "imports with *",
    r"%store\b": "passes state by %store",
    r"\brcParams\b|\brc_context\b": "sets figure style",
    r"except *:": "catches everything",
}
HOME = re.compile(r"/home/\w|/Users/\w|/root\b|[A-Za-z]:\\+Users")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(<?([^)\s>]+)>?[^)]*\)")
IMG = re.compile(r"<img\b[^>]*>")


def source(cell):
    return "".join(cell["source"])


def cells(notebook, kind):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def prose(notebook):
    """Text of the markdown cells, without code blocks and `code`."""
    text = "\n\n".join(source(cell) for cell in cells(notebook, "markdown"))
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def outputs(notebook):
    return [o for cell in cells(notebook, "code") for o in cell["outputs"]]


def is_literal(node):
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def check_headings(notebook, path):
    levels = [len(m) for m in re.findall(r"^(#{1,6}) ", prose(notebook), re.MULTILINE)]
    if levels.count(1) != 1 or levels[0] != 1:
        return [f"{levels.count(1)} headings with one #, wanted one, the first"]
    pairs = itertools.pairwise(levels)
    return [f"a heading jumps from {a} to {b}" for a, b in pairs if b > a + 1]


def check_parameters(notebook, path):
    tagged = [
        cell
        for cell in cells(notebook, "code")
        if "parameters" in cell["metadata"].get("tags", [])
    ]
    if len(tagged) != 1:
        return [f"{len(tagged)} cells tagged `parameters`, wanted 1"]
    return [
        f"parameters: {ast.unparse(line)} is no plain literal"
        for line in ast.parse(source(tagged[0])).body
        if not (isinstance(line, ast.Assign) and is_literal(line.value))
    ]


def check_empty(notebook, path):
    return [
        f"cell {number} is empty"
        for number, cell in enumerate(notebook["cells"])
        if not source(cell).strip()
    ]


def check_length(notebook, path):
    wrong = []
    for cell in cells(notebook, "code"):
        lines = source(cell).splitlines()
        start = lines[0] if lines else ""
        if len(lines) > MAX_LINES:
            wrong.append(f"{len(lines)} lines in the cell that starts {start!r}")
        wrong += [f"line too long: {s!r}" for s in lines if len(s) > MAX_COLUMNS]
    return wrong


def check_forbidden(notebook, path):
    code = "\n".join(source(cell) for cell in cells(notebook, "code"))
    return [why for pattern, why in FORBIDDEN.items() if re.search(pattern, code)]


def check_counts(notebook, path):
    counts = [cell["execution_count"] for cell in cells(notebook, "code")]
    wanted = list(range(1, len(counts) + 1))
    return [] if counts == wanted else [f"counts {counts}: run and publish it again"]


def check_outputs(notebook, path):
    kinds = [o.get("name", o["output_type"]) for o in outputs(notebook)]
    return [f"{kind} output" for kind in kinds if kind in ("error", "stderr")]


def check_ids(notebook, path):
    ids = [cell.get("id") for cell in notebook["cells"]]
    return [] if None not in ids and len(set(ids)) == len(ids) else ["ids repeat"]


def check_places(notebook, path):
    texts = [source(cell) for cell in notebook["cells"]]
    for output in outputs(notebook):
        data = output.get("data", {"text": output.get("text", "")})
        texts += [json.dumps(v) for k, v in data.items() if k != "image/png"]
    return [f"home path {m[0]!r}" for text in texts for m in HOME.finditer(text)]


def check_size(notebook, path):
    n_bytes = len(json.dumps(notebook, indent=1, ensure_ascii=False).encode())
    return [f"{n_bytes:,} bytes"] if n_bytes >= MAX_BYTES else []


def check_links(notebook, path):
    targets = [(m[1], m[3]) for m in LINK.finditer(prose(notebook))]
    for tag in IMG.findall(prose(notebook)):
        targets += [("!", t) for t in re.findall(r'src="([^"]*)"', tag)]
    wrong = []
    for image, target in targets:
        if re.match(r"https?:|mailto:", target):
            wrong += [f"remote image {target}"] if image else []
        elif not target.startswith(("#", "attachment:")):
            place = path.parent / target.split("#")[0]
            wrong += [] if place.exists() else [f"no file {target}"]
    return wrong


def check_alt(notebook, path):
    text = prose(notebook)
    wrong = [m[3] for m in LINK.finditer(text) if m[1] and not m[2].strip()]
    wrong += [t for t in IMG.findall(text) if not re.search(r'alt="[^"]+"', t)]
    return [f"no alt text: {image}" for image in wrong]


CHECKS = [value for name, value in globals().items() if name.startswith("check_")]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_structure(check, path):
    assert check(json.loads(path.read_text(encoding="utf-8")), path) == []


def code(text, count, tags=(), outputs=()):
    return {
        "cell_type": "code",
        "execution_count": count,
        "id": f"code-{count}",
        "metadata": {"tags": list(tags)},
        "outputs": list(outputs),
        "source": text.splitlines(keepends=True),
    }


def markdown(text, name="text"):
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": [text]}


GOOD = {
    "cells": [
        markdown("# 00 · Why?\n\n[next](next.ipynb#part) ![a curve](curve.png)"),
        code('PROFILE = "mini"\nK = [5, 10]', 1, tags=["parameters"]),
        markdown("## A part\n\n```\n# no heading [x](nowhere)\n```", "part"),
        code(
            "print(PROFILE)",
            2,
            outputs=[{"output_type": "stream", "name": "stdout", "text": ["mini\n"]}],
        ),
    ]
}


def printed(name, text):
    return {"output_type": "stream", "name": name, "text": [text]}


BAD = [
    (check_headings, lambda c: c.append(markdown("# Two"))),
    (check_headings, lambda c: c.append(markdown("#### Deep"))),
    (check_headings, lambda c: c.insert(0, markdown("## Before"))),
    (check_parameters, lambda c: c.pop(1)),
    (check_parameters, lambda c: c.append(copy.deepcopy(c[1]))),
    (check_parameters, lambda c: c[1].update(source=["A = 1\n", "B = A + 1"])),
    (check_empty, lambda c: c.append(markdown(" \n"))),
    (check_length, lambda c: c.append(code("x = 1\n" * 26, 3))),
    (check_length, lambda c: c.append(code("x = " + "1" * 88, 3))),
    (check_forbidden, lambda c: c.append(code("!pip install that", 3))),
    (check_forbidden, lambda c: c.append(code("%pip install that", 3))),
    (check_forbidden, lambda c: c.append(code("filterwarnings('ignore')", 3))),
    (check_forbidden, lambda c: c.append(code("from x import *", 3))),
    (check_forbidden, lambda c: c.append(code("%store x", 3))),
    (check_forbidden, lambda c: c.append(code("plt.rcParams['x'] = 1", 3))),
    (check_forbidden, lambda c: c.append(code("try:\n    f()\nexcept: pass", 3))),
    (check_counts, lambda c: c[3].update(execution_count=4)),
    (check_counts, lambda c: c[3].update(execution_count=None)),
    (check_outputs, lambda c: c[3]["outputs"].append(printed("stderr", "oh"))),
    (check_outputs, lambda c: c[3]["outputs"].append({"output_type": "error"})),
    (check_ids, lambda c: c[3].update(id="code-1")),
    (check_ids, lambda c: c[3].pop("id")),
    (check_places, lambda c: c[3]["outputs"].append(printed("stdout", "/home/me/a"))),
    (check_places, lambda c: c[3].update(source=["open('/Users/me/a')"])),
    (check_size, lambda c: c[3]["outputs"].append(printed("stdout", "x" * MAX_BYTES))),
    (check_links, lambda c: c.append(markdown("[a](../gone.md)"))),
    (check_links, lambda c: c.append(markdown("![a](https://example.org/a.png)"))),
    (check_links, lambda c: c.append(markdown('<img alt="a" src="gone.png">'))),
    (check_alt, lambda c: c.append(markdown("![](curve.png)"))),
    (check_alt, lambda c: c.append(markdown('<img src="curve.png" alt="">'))),
]


@pytest.fixture
def place(tmp_path):
    for name in ("next.ipynb", "curve.png"):
        (tmp_path / name).touch()
    return tmp_path / "00_why.ipynb"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_good_notebook_passes(check, place):
    assert check(GOOD, place) == []


@pytest.mark.parametrize(("check", "spoil"), BAD)
def test_bad_notebook_fails(check, spoil, place):
    notebook = copy.deepcopy(GOOD)
    spoil(notebook["cells"])
    assert len(check(notebook, place)) == 1


def test_every_check_is_shown_to_fail():
    assert {check for check, _ in BAD} == set(CHECKS)
