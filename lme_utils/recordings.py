"""What a profile's run leaves in `data/recordings`, and whether it still holds.

Profiles on embedded data ship the answers themselves, so that nobody needs a model to
see the figures. Profiles on LongMemEval's own data ship numbers and verdicts only.
"""

from __future__ import annotations

import random
from pathlib import Path

from . import llm
from .config import SEED, Profile
from .models import RECORDINGS, Models, open_store

TEXT_COLUMNS = ["hypothesis", "reason", "verdict_reason", "keys"]


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
        keys = {k for table in tables.values() for call in table["keys"] for k in call}
        path = folder / "answers.jsonl.xz"
        llm.export_recordings(open_store(profile), keys, path)
        return [path]
    written = []
    for name, table in tables.items():
        path = folder / f"{name}.csv"
        aside = path.with_name(f".{path.name}.part")
        table.drop(columns=TEXT_COLUMNS).to_csv(aside, index=False, lineterminator="\n")
        aside.replace(path)
        written.append(path)
    return written
