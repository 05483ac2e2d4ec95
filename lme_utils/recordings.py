"""What a profile's run leaves in `data/recordings`, and whether it still holds.

Profiles on embedded data ship the answers themselves, so that nobody needs a model to
see the figures. Profiles on LongMemEval's own data ship numbers and verdicts only.
"""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

from . import llm
from .config import SEED, Profile
from .files import written_aside
from .models import RECORDINGS, Models, open_store

MOST_ROWS_PLAIN = 1_000
TEXT_COLUMNS = ["hypothesis", "reason", "verdict_reason", "verdict_reason_2", "keys"]


def record(profile: Profile) -> list[Path]:
    """Keep the answers behind the profile's last results; returns what was written.

    Raises FileNotFoundError where there are no results yet.
    """
    import pandas as pd

    results = sorted((profile.build_dir / "results").glob("*.parquet"))
    if not results:
        raise FileNotFoundError(
            f"no results of profile {profile.name}: run "
            f"`make figures PROFILE={profile.name}` first"
        )
    folder = RECORDINGS / profile.name
    folder.mkdir(parents=True, exist_ok=True)
    tables = {path.stem: pd.read_parquet(path) for path in results}
    if not profile.data.real:
        keys = {
            key
            for table in tables.values()
            for call in table.get("keys", ())
            for key in call
        }
        path = folder / "answers.jsonl.xz"
        llm.export_recordings(open_store(profile), keys, path)
        return [path]
    written = []
    for name, table in tables.items():
        # pandas reads both; a long table of scores is a tenth as large packed.
        path = folder / f"{name}.csv{'.xz' if len(table) > MOST_ROWS_PLAIN else ''}"
        numbers = table.drop(columns=TEXT_COLUMNS, errors="ignore")
        with written_aside(path) as aside:
            numbers.to_csv(aside, index=False, lineterminator="\n")
        written.append(path)
    return written


def check(profile: Profile, n: int = 50) -> str:
    """Ask again for n recorded answers, drawn once, and say how many differ.

    The answers go into a store that is thrown away. Returns a line for each model, and
    one for each answer that differs. Raises FileNotFoundError without recordings.
    """
    recorded = [r for r in open_store(profile).recorded() if r.request]
    if not recorded:
        raise FileNotFoundError(f"profile {profile.name} ships no recordings")
    sample = random.Random(SEED).sample(recorded, min(n, len(recorded)))
    lines = []
    with (
        TemporaryDirectory() as folder,
        Models(profile, llm.Store(Path(folder) / "s")) as models,
    ):
        for name in profile.endpoints:
            endpoint = models.endpoint(name)
            mine = [
                r
                for r in sample
                if (r.model, r.revision) == (endpoint.model, endpoint.revision)
            ]
            requests = [llm.Request.model_validate_json(r.request) for r in mine]
            replies = models.send(name, requests, f"{name} again")
            differ = [
                f"  {r.key[:12]}: recorded {r.text[:60]!r}, now {reply.text[:60]!r}"
                f"{' (' + reply.reason + ')' if reply.reason else ''}"
                for r, reply in zip(mine, replies, strict=True)
                if r.text != reply.text
            ]
            lines.append(f"{name}: {len(mine)} asked again, {len(differ)} differ")
            lines += differ
    return "\n".join(lines)
