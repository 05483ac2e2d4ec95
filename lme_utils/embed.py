"""Text to vectors, each distinct text once.

`data/sources.toml` says how each named embedder makes them: the paper's retrievers and
our own. Any other sentence-transformers model serves too, with the settings it carries.

Vectors lie in the user's cache by the hash of the text that was encoded, so that
questions, configurations, notebooks and runs share them; other weights or settings
have a store of their own. A store is a folder of shards: `ID.npy` holds up to
`SHARD_TEXTS` vectors, `ID.txt` the hashes of their texts, a line each. The list is
written last; vectors without a list do not count, so a kill costs one shard at most.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from . import config, weights

SHARD_TEXTS = 1024
BATCH_TEXTS = 32  # of up to 512 tokens each; of longer ones fewer
BATCH_TOKENS = BATCH_TEXTS * 512


def settings(model: str) -> dict:
    """How an embedder makes its vectors: its table in `data/sources.toml`.

    model    a name of that file, or a folder whose name is the last part of one: a
             copy of Contriever in `models/contriever` is Contriever
    returns  max_tokens, pooling and normalised; where they apply revision, dense,
             query, causal and end_token; empty for any other model

    Source: the authors' `run_retrieval.py` (paper §5.1).

    >>> settings("facebook/contriever")["normalised"]
    False
    """
    known = _recorded()
    if Path(model).is_dir():
        name = Path(model).absolute().name
        return next((how for k, how in known.items() if Path(k).name == name), {})
    return known.get(model, {})


@functools.cache
def _recorded() -> dict[str, dict]:
    return tomllib.loads(config.SOURCES.read_text(encoding="utf-8"))["embedders"]


def embed(
    texts: Sequence[str],
    model: str = "all-MiniLM-L6-v2",
    store: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    as_query: bool = False,
) -> np.ndarray:
    """The vectors of the texts, in their order.

    texts     any length and order, repeats and empty texts included; what goes beyond
              the model's longest input (256 tokens for MiniLM) is not seen by it
    model     an embedder of `data/sources.toml`, the name of a sentence-transformers
              model on the hub, or a model's folder; fetched where it is missing
    store     where vectors are kept; default: the user's cache
    progress  called with (texts done, texts to do) as new texts are embedded
    as_query  the texts are questions, not keys: an instruction stands before them where
              the model has one for queries (gte)
    returns   float32, (number of texts, dimensions), to be compared by dot product.
              That is the cosine where rows have length 1: always, except for embedders
              recorded as not normalised (Contriever) and others whose own files name
              the dot product as their similarity

    Raises TypeError for a text that is not in a list, OSError where the model can't be
    had.

    Paper: §5.1, dense retrieval.
    """
    shards = _shards(model, store)
    prompt = _prompt(model, as_query)
    hashes = [_hash(prompt + text) for text in _checked(texts)]
    index = _read_index(shards)
    new = {h: t for h, t in zip(hashes, texts, strict=True) if h not in index}
    fresh: dict[str, np.ndarray] = {}
    todo = list(new)
    longest = settings(model).get("max_tokens", 512)
    for start in range(0, len(todo), SHARD_TEXTS):
        part = todo[start : start + SHARD_TEXTS]
        vectors = _load(model).encode(
            [new[h] for h in part],
            prompt=prompt,
            batch_size=max(1, min(BATCH_TEXTS, BATCH_TOKENS // longest)),
            show_progress_bar=False,
        )
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        _write_shard(shards, part, vectors)
        fresh |= zip(part, vectors, strict=True)
        if progress:
            progress(start + len(part), len(todo))
    return _gather(hashes, index, fresh, model)


def count_new(
    texts: Sequence[str],
    model: str = "all-MiniLM-L6-v2",
    store: Path | None = None,
    as_query: bool = False,
) -> int:
    """How many distinct texts `embed` would have to embed: the others are stored."""
    prompt = _prompt(model, as_query)
    hashes = {_hash(prompt + text) for text in _checked(texts)}
    return len(hashes - _read_index(_shards(model, store)).keys())


def _gather(
    hashes: list[str],
    index: dict[str, tuple[Path, int]],
    fresh: dict[str, np.ndarray],
    model: str,
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
        width = _load(model).get_embedding_dimension()
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


def _prompt(model: str, as_query: bool) -> str:
    """What stands before a query, or before a key."""
    how = settings(model)
    if how:
        return how.get("query", "") if as_query else ""
    own = _model_folder(model) / "config_sentence_transformers.json"
    prompts = json.loads(own.read_text()).get("prompts", {}) if own.exists() else {}
    names = ["query"] if as_query else ["document", "passage", "corpus"]
    return next((prompts[name] or "" for name in names if name in prompts), "")


@functools.cache
def _model_folder(model: str) -> Path:
    """The folder of a model's files; fetches what is missing."""
    if Path(model).is_dir():
        return Path(model).resolve()
    try:
        weights.source(model)
    except ValueError:
        return _fetch_from_hub(model)
    return weights.fetch_weights(model)


def _fetch_from_hub(model: str) -> Path:
    from huggingface_hub import snapshot_download

    others = ["onnx/*", "openvino/*", "*.h5", "*.msgpack", "*.ot"]
    revision = settings(model).get("revision")
    try:
        return Path(snapshot_download(model, revision=revision, ignore_patterns=others))
    except (OSError, ValueError) as error:
        raise OSError(
            f"embedder {model!r}: no such folder, and not to be had from the hub "
            f"({type(error).__name__}: {error}). Connect, or give a folder with its "
            "files, or a model that is here, such as all-MiniLM-L6-v2"
        ) from error


@functools.cache
def _identity(folder: Path, own_settings: bool = False) -> str:
    """Hash of the weights and, where a model's own settings count, of those.

    A folder in the hub's cache is named by its commit, which says as much.
    """
    if folder.parent.name == "snapshots":
        return folder.name[:16]
    digest = hashlib.sha256()
    endings = (".safetensors", ".bin", *([".json"] if own_settings else []))
    for path in sorted(p for p in folder.rglob("*") if p.suffix in endings):
        with open(path, "rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


def _shards(model: str, store: Path | None) -> Path:
    """The store's folder: named by the model, its weights, and what makes its vectors.

    Settings that most embedders share are left out of the name.
    """
    how, folder = settings(model), _model_folder(model)
    name = f"{Path(model).name}-{_identity(folder, own_settings=not how)}"
    name += f"-{how['max_tokens']}" if how else "-own"
    usual = {"pooling": "mean", "normalised": True, "causal": True, "end_token": False}
    for key in ("pooling", "dense", "normalised", "causal", "end_token"):
        value = how.get(key, usual.get(key))
        if value != usual.get(key):
            name += f"-{key}={value}"
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
def _load(model: str):
    """The model, put together as recorded, read from its folder without network."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as st
    from transformers.utils import logging

    logging.disable_progress_bar()  # it would end up in the notebooks
    how, folder = settings(model), str(_model_folder(model))
    if not how:
        loaded = SentenceTransformer(folder, local_files_only=True)
        if loaded.similarity_fn_name != "dot":
            loaded.append(st.Normalize())
        return loaded
    transformer = st.Transformer.load(folder, local_files_only=True)
    transformer.max_seq_length = how["max_tokens"]
    if not how.get("causal", True):
        transformer.model.config.is_causal = False
    if how.get("end_token", False):
        transformer.tokenizer.add_eos_token = True
    width = transformer.get_embedding_dimension()
    steps = [transformer, st.Pooling(width, how["pooling"])]
    if "dense" in how:
        steps.append(
            st.Dense.load(folder, subfolder=how["dense"], local_files_only=True)
        )
    if how["normalised"]:
        steps.append(st.Normalize())
    return SentenceTransformer(modules=steps)
