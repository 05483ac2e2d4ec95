"""Text to vectors, each distinct text once.

Vectors lie in the user's cache by the hash of their text, so that questions,
configurations, notebooks and runs share them. A store is a folder of shards:
`ID.npy` holds up to `SHARD_TEXTS` vectors, `ID.txt` the hashes of their texts, a line
each. The list is written last; vectors without a list do not count, so a kill costs one
shard at most.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from . import config, weights

SHARD_TEXTS = 1024
BATCH_TEXTS = 32


def embed(
    texts: Sequence[str],
    model: str = "all-MiniLM-L6-v2",
    store: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """The vectors of the texts, in their order.

    texts     any length and order, repeats and empty texts included; what goes beyond
              the model's longest input (256 tokens for MiniLM) is not seen by it
    model     a model of `data/sources.toml` (fetched where it is missing), a
              sentence-transformers folder, or such a model's name on the hub
    store     where vectors are kept; default: the user's cache
    progress  called with (texts done, texts to do) as new texts are embedded
    returns   float32, (number of texts, dimensions), each row of length 1: the dot
              product of two rows is their cosine

    Paper: §5.1, dense retrieval.
    """
    folder = _model_folder(model)
    shards = _shards(folder, model, store)
    hashes = [_hash(text) for text in _checked(texts)]
    index = _read_index(shards)
    new = {h: t for h, t in zip(hashes, texts, strict=True) if h not in index}
    fresh: dict[str, np.ndarray] = {}
    todo = list(new)
    for start in range(0, len(todo), SHARD_TEXTS):
        part = todo[start : start + SHARD_TEXTS]
        vectors = _load(folder).encode(
            [new[h] for h in part],
            batch_size=BATCH_TEXTS,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        _write_shard(shards, part, vectors)
        fresh |= zip(part, vectors, strict=True)
        if progress:
            progress(start + len(part), len(todo))
    return _gather(hashes, index, fresh, folder)


def count_new(
    texts: Sequence[str], model: str = "all-MiniLM-L6-v2", store: Path | None = None
) -> int:
    """How many distinct texts `embed` would have to embed: the others are stored."""
    shards = _shards(_model_folder(model), model, store)
    return len({_hash(text) for text in _checked(texts)} - _read_index(shards).keys())


def _gather(
    hashes: list[str],
    index: dict[str, tuple[Path, int]],
    fresh: dict[str, np.ndarray],
    folder: Path,
) -> np.ndarray:
    """The rows of `hashes`, from the store's shards and the fresh vectors."""
    rows: dict[Path, list[tuple[int, int]]] = {}
    for position, h in enumerate(hashes):
        if h not in fresh:
            path, row = index[h]
            rows.setdefault(path, []).append((position, row))
    if fresh:
        width = len(next(iter(fresh.values())))
    elif rows:
        width = np.load(next(iter(rows)), mmap_mode="r").shape[1]
    else:
        width = _load(folder).get_embedding_dimension()
    out = np.empty((len(hashes), width), dtype=np.float32)
    for position, h in enumerate(hashes):
        if h in fresh:
            out[position] = fresh[h]
    for path, pairs in rows.items():
        positions, places = np.array(pairs).T
        out[positions] = np.load(path, mmap_mode="r")[places]
    return out


def _checked(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise TypeError("embed: got one text, wanted a list of texts: write [text]")
    return texts


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@functools.cache
def _model_folder(model: str) -> Path:
    """The folder of a model's files; fetches what is missing."""
    if Path(model).is_dir():
        return Path(model).resolve()
    try:
        weights.source(model)
    except ValueError:
        from huggingface_hub import snapshot_download

        others = ["onnx/*", "openvino/*", "*.h5", "*.msgpack", "*.ot"]
        return Path(snapshot_download(model, ignore_patterns=others))
    return weights.fetch_weights(model)


@functools.cache
def _identity(folder: Path) -> str:
    """Hash of the weights and longest input: what makes one text's vector."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        with open(path, "rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    settings = folder / "sentence_bert_config.json"
    longest = (
        json.loads(settings.read_text()).get("max_seq_length")
        if settings.exists()
        else None
    )
    return f"{digest.hexdigest()[:16]}-{longest or 'default'}"


def _shards(folder: Path, model: str, store: Path | None) -> Path:
    """The store's folder for this model."""
    name = f"{Path(model).name}-{_identity(folder)}"
    return (store or config.cache_dir() / "vectors") / name


def _read_index(shards: Path) -> dict[str, tuple[Path, int]]:
    """Where the vector of each stored text is: shard and row."""
    names = sorted(path.name for path in shards.glob("*.txt"))
    return _read_lists(shards, tuple(names))


@functools.lru_cache(maxsize=4)
def _read_lists(shards: Path, names: tuple[str, ...]) -> dict[str, tuple[Path, int]]:
    index = {}
    for name in names:
        lines = (shards / name).read_text().split()
        path = (shards / name).with_suffix(".npy")
        index.update((line, (path, row)) for row, line in enumerate(lines))
    return index


def _write_shard(shards: Path, hashes: list[str], vectors: np.ndarray) -> None:
    """Vectors first, list last, each written aside and renamed."""
    shards.mkdir(parents=True, exist_ok=True)
    listing = "\n".join(hashes) + "\n"
    stem = hashlib.sha256(listing.encode()).hexdigest()[:16]
    aside = shards / f"{stem}.{os.getpid()}.part"
    with open(aside, "wb") as stream:
        np.save(stream, vectors)
    aside.replace(shards / f"{stem}.npy")
    aside.write_text(listing)
    aside.replace(shards / f"{stem}.txt")


@functools.lru_cache(maxsize=1)
def _load(folder: Path):
    """The model, read from its folder without network."""
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # it would end up in the notebooks
    return SentenceTransformer(str(folder), local_files_only=True)
