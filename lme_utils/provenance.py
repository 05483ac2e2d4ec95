"""Where a number comes from, and whether it says what the paper says.

A notebook starts a run, writes down what it expects before it measures, notes what it
saw, and finishes: `OUT_DIR/metrics/NN_name.json`. Figures and tables of the run carry a
stamp that does not change from run to run (no time, no seconds, no commit).

    python -m lme_utils.provenance check build/mini    compare with the expected values
    python -m lme_utils.provenance accept build/mini   make this run the expected one
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .config import ROOT
from .files import written_aside
from .verdicts import verdict, verdict_table

if TYPE_CHECKING:
    from IPython.display import HTML

EXPECTED = ROOT / "data" / "expected"
PACKAGES = ("matplotlib", "numpy", "openai", "pandas", "rank-bm25", "scipy")
PACKAGES += ("sentence-transformers", "statsmodels", "torch", "xllamacpp")


@dataclass
class Run:
    """One run of one notebook under one profile. Made by `start_run`."""

    notebook: str
    profile: str
    out_dir: Path
    data: list[dict[str, Any]]
    settings: dict[str, Any]
    answers: Counter[str] = field(default_factory=Counter)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    started_s: float = field(default_factory=time.monotonic)

    @property
    def figures_dir(self) -> Path:
        """Where the figures and tables of this run go."""
        return self.out_dir / "figures" / self.notebook

    @property
    def metrics_path(self) -> Path:
        return self.out_dir / "metrics" / f"{self.notebook}.json"

    @property
    def about(self) -> str:
        """What every figure and table says: the profile, and who answered."""
        parts = [f"profile {self.profile}"]
        if self.answers:
            recorded, live = self.answers["recorded"], self.answers["live"]
            parts.append(f"{recorded:,} answers recorded, {live:,} live")
        if self.answers["not run"]:
            parts.append(f"{self.answers['not run']:,} not run")
        return " · ".join(parts)

    def count_answers(self, sources: Iterable[str]) -> None:
        """Add the `source` of answers: "recorded", "stored", "live", "" (not run).

        Stored answers were live when they were stored, and count so: a second run of
        the same notebook says the same.
        """
        names = {
            "recorded": "recorded",
            "stored": "live",
            "live": "live",
            "": "not run",
        }
        self.answers.update(names[source] for source in sources)

    def of_recording(self, profile: str, path: Path, sources: Iterable[str]) -> Run:
        """A run to draw another profile's recorded results with, in this notebook.

        Its figures and tables name that profile, and `path` as their data.
        """
        other = replace(self, profile=profile, data=[_fingerprint(path)])
        other.answers = Counter()
        other.count_answers(sources)
        return other

    def note(self, name: str, value: float, tolerance: float = 1e-9) -> None:
        """Keep a number for the metrics file; `check` allows `tolerance` (absolute).

        Raises ValueError for what is not a finite number, and for a name used twice.
        """
        value = float(value)
        if not math.isfinite(value):
            raise ValueError(f"metric {name}: got {value}, wanted a finite number")
        if name in self.metrics:
            raise ValueError(f"metric {name}: noted twice, wanted a name of its own")
        self.metrics[name] = {"value": value, "tolerance": tolerance}

    def expect(
        self, claim: str, source: str, paper_value: float, band: float, sign: int
    ) -> None:
        """Write down a claim of the paper before measuring it.

        claim        in words; `saw` names it again
        source       table, figure or section
        paper_value  the paper's number; a difference for a claim with a direction
        band         on the profile `paper`, as far as ours may lie from it
        sign         +1 or -1, the direction of the difference; 0: a plain value
        """
        if sign not in (-1, 0, 1) or band < 0 or claim in self.claims:
            raise ValueError(
                f"claim {claim!r}: got sign {sign}, band {band}; wanted a new claim, "
                "a sign of -1, 0 or +1 and a band of at least 0"
            )
        self.claims[claim] = {
            "source": source, "paper": paper_value, "band": band, "sign": sign,
        }  # fmt: skip

    def saw(
        self,
        claim: str,
        value: float,
        low: float,
        high: float,
        n: int,
        p: float | None = None,
    ) -> None:
        """What we measured for a claim: value, interval, questions, paired test."""
        if claim not in self.claims:
            raise ValueError(
                f"claim {claim!r} was not expected; have: {'; '.join(self.claims)}"
            )
        ours = {"value": float(value), "low": float(low), "high": float(high)}
        if not all(map(math.isfinite, ours.values())):
            raise ValueError(f"claim {claim!r}: got {ours}, wanted finite numbers")
        p = None if p is None or math.isnan(p) else float(p)
        self.claims[claim]["ours"] = ours | {"n": int(n), "p": p}

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file into `figures_dir`: whole, or not at all."""
        write_aside(self.figures_dir / name, content)

    def write_stamp(self, name: str, **more: Any) -> None:
        """Write `name.json`, the provenance of a figure or table of this run."""
        self.write(f"{name}.json", _json(self.stamp(name=name, **more)))

    def stamp(self, **more: Any) -> dict[str, Any]:
        """The provenance of a figure or table; the same in every run."""
        return {
            "notebook": self.notebook,
            "profile": self.profile,
            **more,
            "data": self.data,
            "answers": dict(sorted(self.answers.items())),
            "settings": self.settings,
        }

    def finish(self) -> Path:
        """Write the metrics file, and say where it is."""
        record = self.stamp(
            metrics=self.metrics,
            claims=[
                {"claim": claim, **it, "verdict": verdict(it, self.profile)}
                for claim, it in self.claims.items()
            ],
            seconds=round(time.monotonic() - self.started_s, 1),
            python=sys.version.split()[0],
            versions=dict(
                sorted(
                    (d.name, d.version) for d in distributions() if d.name in PACKAGES
                )
            ),
            commit=_commit(),
        )
        write_aside(self.metrics_path, _json(record))
        print(f"{len(self.metrics)} metrics, {len(self.claims)} claims: "
              f"metrics/{self.metrics_path.name}")  # fmt: skip
        return self.metrics_path


def start_run(
    notebook: str,
    profile: str,
    out_dir: str | Path,
    data_files: Sequence[str | Path] = (),
    settings: Mapping[str, Any] | None = None,
) -> Run:
    """Start the run of a notebook and print one line that says on what it works.

    notebook    name of the file without its end, such as "06_reading_ablation"
    profile     name of the profile
    out_dir     the profile's build folder
    data_files  hashed, and named without their folder
    settings    what else moves the numbers; must fit into JSON

    The metrics file and the figures of an earlier run are removed, so that nothing old
    passes for new when this one stops half-way.
    Raises ValueError for another name, FileNotFoundError for a missing data file.
    """
    if not re.fullmatch(r"\d\d_\w+", notebook):
        raise ValueError(f"notebook: got {notebook!r}, wanted a name like 06_reading")
    data = [_fingerprint(Path(path)) for path in data_files]
    run = Run(notebook, profile, Path(out_dir), data, dict(settings or {}))
    run.metrics_path.unlink(missing_ok=True)
    for path in filter(Path.is_file, run.figures_dir.glob("*")):
        path.unlink()
    files = [f"{d['file']} ({d['bytes']:,} bytes, {d['sha256'][:12]})" for d in data]
    print(" · ".join([f"profile {profile}", *files]))
    return run


def show_verdicts(run: Run) -> HTML:
    """The verdicts as a table for the notebook."""
    from IPython.display import HTML

    left = [{"selector": "caption, td, th", "props": "text-align: left"}]
    shown = (
        verdict_table(run.claims, run.profile)
        .style.hide(axis="index")
        .set_table_styles(left)
    )
    shown = shown.format(escape="html").set_caption(f"What we saw ({run.about})")
    return HTML(shown.set_uuid("verdicts").to_html())


def check(out_dir: str | Path) -> list[str]:
    """How a run differs from `data/expected/<profile>.json`; empty if it does not.

    Each expected metric must be there and lie within its tolerance.
    Raises FileNotFoundError if there is no run, or nothing to compare it with.
    """
    profile, runs = _read_runs(Path(out_dir))
    path = EXPECTED / f"{profile}.json"
    if not path.exists():
        raise FileNotFoundError(
            f"no {path.name} in data/expected: look at the run, then `accept` it"
        )
    problems = []
    for notebook, metrics in json.loads(path.read_text(encoding="utf-8")).items():
        if notebook not in runs:
            problems.append(f"{notebook}: no metrics, wanted {len(metrics)}")
            continue
        for name, wanted in metrics.items():
            got = runs[notebook].get(name, {}).get("value")
            within = f"{wanted['value']:g} ± {wanted['tolerance']:g}"
            if got is None:
                problems.append(f"{notebook}: {name}: missing, wanted {within}")
            elif not abs(got - wanted["value"]) <= wanted["tolerance"]:
                problems.append(f"{notebook}: {name}: got {got:g}, wanted {within}")
    return problems


def accept(out_dir: str | Path) -> Path:
    """Write the metrics of a run as the expected ones; other notebooks stay."""
    profile, runs = _read_runs(Path(out_dir))
    path = EXPECTED / f"{profile}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    write_aside(path, _json(dict(sorted((kept | runs).items()))))
    return path


def write_aside(path: Path, content: str | bytes) -> None:
    """Write text or bytes to a file: whole, or not there."""
    with written_aside(path) as aside:
        aside.write_bytes(
            content.encode("utf-8") if isinstance(content, str) else content
        )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lme_utils.provenance")
    parser.add_argument("command", choices=("check", "accept"))
    parser.add_argument("dir", help="a profile's build folder, such as build/mini")
    args = parser.parse_args(argv)
    try:
        if args.command == "accept":
            print(f"wrote {accept(args.dir)}")
            return 0
        problems = check(args.dir)
    except (FileNotFoundError, ValueError) as error:
        problems = [str(error)]
    print("\n".join(problems) or "every expected metric is there and within tolerance")
    return 1 if problems else 0


def _read_runs(out_dir: Path) -> tuple[str, dict[str, dict[str, dict[str, float]]]]:
    """The profile and the metrics of every notebook of one build folder."""
    paths = sorted((out_dir / "metrics").glob("*.json"))
    if not paths:
        raise FileNotFoundError(f"no metrics in {out_dir}: run `make figures` first")
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    profiles = {record["profile"] for record in records}
    if len(profiles) > 1:
        raise ValueError(f"{out_dir}: profiles mixed: {', '.join(sorted(profiles))}")
    return profiles.pop(), {r["notebook"]: r["metrics"] for r in records}


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": digest}


def _commit() -> str | None:
    """The commit of this checkout, None where it is not one or git is not there."""
    if not (ROOT / ".git").exists():
        return None
    try:
        call = ["git", "-C", os.fspath(ROOT), "rev-parse", "HEAD"]
        return subprocess.run(
            call, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
