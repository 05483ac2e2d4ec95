"""LongMemEval's own files, from the hub at a fixed revision, checked by sha256."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from .config import ROOT, SOURCES
from .weights import check_file

FOLDER = ROOT / "data" / "longmemeval"
DEFAULT = ("longmemeval_oracle.json", "longmemeval_s_cleaned.json")


def fetch_dataset(names: Sequence[str] = (), folder: Path = FOLDER) -> list[Path]:
    """Download files of the data set that are not there yet; returns their paths.

    names  files named in `data/sources.toml` (default: oracle and S; M has 2.7 GB)

    A file that is there counts if its size and sha256 are right; a wrong one is deleted
    and fetched anew. Raises ValueError for an unknown name or a wrong hash, OSError
    where the hub can't be reached.
    """
    from huggingface_hub import HfApi, hf_hub_download

    dataset = tomllib.loads(SOURCES.read_text(encoding="utf-8"))["datasets"]
    dataset = dataset["longmemeval"]
    paths = []
    for name in names or DEFAULT:
        if name not in dataset["files"]:
            known = ", ".join(dataset["files"])
            raise ValueError(f"no file {name!r} in {SOURCES.name}: have {known}")
        wanted = dataset["files"][name]
        path = folder / name
        if not _is_right(path, wanted):
            aside = folder / ".part"
            try:
                HfApi().repo_info(
                    dataset["hub"],
                    revision=dataset["revision"],
                    repo_type="dataset",
                    timeout=10,
                )
                hf_hub_download(
                    dataset["hub"],
                    name,
                    repo_type="dataset",
                    revision=dataset["revision"],
                    local_dir=aside,
                )
            except Exception as error:  # the hub's errors have no common base
                raise OSError(
                    f"{name} could not be fetched from the hub "
                    f"({type(error).__name__}: {error}). Put a file with sha256 "
                    f"{wanted['sha256']} into {folder}, or set LME_DATA to its folder"
                ) from None
            check_file(aside / name, wanted["sha256"], wanted["bytes"])
            (aside / name).replace(path)
        paths.append(path)
    return paths


def _is_right(path: Path, wanted: dict) -> bool:
    if not path.exists():
        return False
    try:
        check_file(path, wanted["sha256"], wanted["bytes"])
    except ValueError:
        return False
    return True
