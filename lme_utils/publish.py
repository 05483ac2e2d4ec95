"""Copy the outputs of the last mini run into `notebooks/` and `figures/`.

    python -m lme_utils.publish

What differs between two runs of the same thing stays behind: times, widgets, messages
on standard error, places on this machine. A second call changes no byte.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from lme_utils.config import ROOT
from lme_utils.files import written_aside

Notebook = dict[str, Any]

METADATA = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
WIDGET = "application/vnd.jupyter.widget-view+json"


def publish(root: Path = ROOT) -> list[Path]:
    """Bring `notebooks/` and `figures/` of `root` up to its `build/mini/`.

    returns   the files that changed

    Nothing is written unless every notebook has a run that is newer than it and of the
    same source; otherwise raises ValueError, naming each that has not.
    """
    build, contents, wrong = root / "build" / "mini", {}, []
    for source in sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        try:
            contents[source] = _publish_one(source, build / "nb" / source.name, root)
        except ValueError as error:
            wrong.append(str(error))
    if not contents and not wrong:
        raise ValueError(f"no notebooks in {root / 'notebooks'}")
    if wrong:
        raise ValueError("; ".join(wrong) + ": run `make figures` first")
    fresh = {p.relative_to(build): p for p in (build / "figures").rglob("*")}
    for name, path in fresh.items():
        if path.is_file():
            contents[root / name] = path.read_bytes()
    changed = [path for path, data in contents.items() if _write(path, data)]
    for path in sorted((root / "figures").glob("*/*")):
        if path.is_file() and path.relative_to(root) not in fresh:
            path.unlink()
            changed.append(path)
    return changed


def _publish_one(source: Path, run: Path, root: Path) -> bytes:
    """The bytes of `source` with the outputs of `run`; ValueError if they don't fit."""
    if not run.exists():
        raise ValueError(f"{source.name} was not run")
    if run.stat().st_mtime_ns < source.stat().st_mtime_ns:
        raise ValueError(f"{source.name} is newer than its run")
    notebook = json.loads(source.read_text(encoding="utf-8"))
    try:
        merged = merge_outputs(notebook, json.loads(run.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from None
    merged = _hide_places(merged, root)
    text = json.dumps(merged, indent=1, ensure_ascii=False, sort_keys=True)
    return (text + "\n").encode()


def merge_outputs(source: Notebook, run: Notebook) -> Notebook:
    """`source` with the normalised outputs of `run`, counted 1, 2, 3 …

    Cells, ids and tags are those of `source`; a cell without an id gets its number.
    Raises ValueError where the cells of the two differ.
    """
    ran = [cell for cell in run["cells"] if "injected-parameters" not in _tags(cell)]
    if [_text(c) for c in ran] != [_text(c) for c in source["cells"]]:
        raise ValueError("the run is of another version of the notebook")
    cells, count = [], 0
    for number, (cell, done) in enumerate(zip(source["cells"], ran, strict=True)):
        metadata = {
            key: value
            for key, value in cell["metadata"].items()
            if key not in ("papermill", "execution")
        }
        new = {
            "cell_type": cell["cell_type"],
            "id": cell.get("id") or f"cell-{number:02d}",
            "metadata": metadata,
            "source": _lines("".join(cell["source"])),
        }
        if "attachments" in cell:
            new["attachments"] = cell["attachments"]
        if cell["cell_type"] == "code":
            count += 1
            new["execution_count"] = count
            new["outputs"] = _normalise_outputs(done["outputs"], count)
        cells.append(new)
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def _tags(cell: Notebook) -> list[str]:
    return cell["metadata"].get("tags", [])


def _text(cell: Notebook) -> tuple[str, str]:
    return cell["cell_type"], "".join(cell["source"])


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _normalise_outputs(outputs: list[Notebook], count: int) -> list[Notebook]:
    """Outputs without widgets and standard error, neighbouring prints joined."""
    kept: list[Notebook] = []
    for output in outputs:
        if output.get("name") == "stderr" or WIDGET in output.get("data", {}):
            continue
        output = dict(output)
        if "execution_count" in output:
            output["execution_count"] = count
        if output["output_type"] == "stream":
            text = "".join(output["text"])
            if kept and kept[-1]["output_type"] == "stream":
                text = "".join(kept.pop()["text"]) + text
            output["text"] = _lines(text)
        kept.append(output)
    return kept


def _hide_places(notebook: Notebook, root: Path) -> Notebook:
    """Paths in outputs made relative to `root` or to `~`, addresses left out."""
    home = Path.home()

    def hide(value: Any) -> Any:
        if isinstance(value, str):
            value = value.replace(f"{root}{os.sep}", "").replace(str(root), ".")
            value = value.replace(f"{home}{os.sep}", f"~{os.sep}")
            return re.sub(r" at 0x[0-9a-fA-F]{6,}", "", value)
        if isinstance(value, list):
            return [hide(item) for item in value]
        if isinstance(value, dict):
            return {
                key: item if key.startswith("image/") else hide(item)
                for key, item in value.items()
            }
        return value

    for cell in notebook["cells"]:
        if "outputs" in cell:
            cell["outputs"] = hide(cell["outputs"])
    return notebook


def _write(path: Path, data: bytes) -> bool:
    """Write `data` if it is new; returns whether it was.

    A notebook keeps its time: its source did not change, so its run stays up to date.
    """
    old = path.read_bytes() if path.exists() else None
    if data == old:
        return False
    with written_aside(path) as aside:
        aside.write_bytes(data)
        if old is not None and path.suffix == ".ipynb":
            time = path.stat()
            os.utime(aside, ns=(time.st_atime_ns, time.st_mtime_ns))
    return True


def main() -> int:
    """Publish and say what changed; returns the exit code."""
    try:
        changed = publish()
    except ValueError as error:
        print(f"nothing published: {error}", file=sys.stderr)
        return 1
    for path in changed:
        print(f"published {path.relative_to(ROOT)}")
    print(f"{len(changed)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
