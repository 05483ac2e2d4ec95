"""Vectors of MiniLM: what they say, and how they are kept."""

import numpy as np
import pytest

from lme_utils import embed as embedding
from lme_utils import weights
from lme_utils.embed import count_new, embed

PAIR = ("I adopted a kitten last spring.", "In April a young cat moved in with me.")
OTHER = "The tax form is due on Friday."


@pytest.fixture(scope="module")
def minilm():
    """MiniLM's folder; skips where it is neither there nor to be had."""
    try:
        return weights.fetch_weights("all-MiniLM-L6-v2")
    except OSError as error:
        pytest.skip(str(error))


@pytest.fixture
def no_model(monkeypatch, minilm):
    """From here on, loading a model is an error."""

    def forbid():
        def load(folder):
            raise AssertionError(f"loaded {folder}")

        monkeypatch.setattr(embedding, "_load", load)

    return forbid


def shard_folder(store):
    (folder,) = store.iterdir()
    return folder


def test_vectors_mean_something(minilm, tmp_path):
    vectors = embed([*PAIR, OTHER, ""], store=tmp_path)
    assert vectors.shape == (4, 384) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    cosine = vectors @ vectors.T
    assert cosine[0, 1] > 0.5 > 0.2 > cosine[0, 2]


def test_same_vectors_as_the_library_gives(minilm, tmp_path):
    from sentence_transformers import SentenceTransformer

    texts = [*PAIR, OTHER * 100]
    wanted = SentenceTransformer(str(minilm)).encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(embed(texts, store=tmp_path), wanted, atol=1e-5)


def test_second_call_only_reads(minilm, tmp_path, no_model, monkeypatch):
    monkeypatch.setattr(embedding, "SHARD_TEXTS", 2)
    texts = [f"number {n}" for n in range(5)]
    seen = []
    first = embed(texts, store=tmp_path, progress=lambda *done: seen.append(done))
    assert seen == [(2, 5), (4, 5), (5, 5)]
    assert len(list(shard_folder(tmp_path).glob("*.npy"))) == 3
    no_model()
    order = [3, 0, 3, 4]
    again = embed([texts[n] for n in order], store=tmp_path)
    np.testing.assert_array_equal(again, first[order])


def test_distinct_texts_are_embedded_once(minilm, tmp_path, monkeypatch):
    load, asked = embedding._load, []

    class Counting:
        def encode(self, texts, **settings):
            asked.extend(texts)
            return load(minilm).encode(texts, **settings)

    monkeypatch.setattr(embedding, "_load", lambda folder: Counting())
    assert count_new(["a", "b", "a"], store=tmp_path) == 2
    vectors = embed(["a", "b", "a"], store=tmp_path)
    assert asked == ["a", "b"]
    np.testing.assert_array_equal(vectors[0], vectors[2])
    mixed = embed(["c", "b"], store=tmp_path)  # one new, one stored
    assert asked == ["a", "b", "c"]
    np.testing.assert_array_equal(mixed[1], vectors[1])
    assert count_new(["a", "b", "c"], store=tmp_path) == 0


def test_a_kill_costs_one_shard(minilm, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "SHARD_TEXTS", 2)
    texts = ["one", "two", "three", "four"]
    first = embed(texts, store=tmp_path)
    lists = sorted(shard_folder(tmp_path).glob("*.txt"))
    lists[0].unlink()  # killed between the vectors and their list
    (shard_folder(tmp_path) / "0000.1.part").write_bytes(b"\x93NUM")  # and in between
    assert count_new(texts, store=tmp_path) == 2
    np.testing.assert_allclose(embed(texts, store=tmp_path), first, atol=1e-6)
    assert count_new(texts, store=tmp_path) == 0


def test_an_interrupted_call_keeps_what_is_done(minilm, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "SHARD_TEXTS", 1)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(["one", "two"], store=tmp_path, progress=stop)
    assert count_new(["one", "two"], store=tmp_path) == 1


def test_a_folder_is_a_model_too(minilm, tmp_path):
    by_folder = embed([OTHER], model=str(minilm), store=tmp_path)
    np.testing.assert_array_equal(embed([OTHER], store=tmp_path), by_folder)
    shard_folder(tmp_path)  # same files, same store


def test_other_weights_have_a_store_of_their_own(minilm, tmp_path):
    changed = tmp_path / "changed"
    changed.mkdir()
    (changed / "model.safetensors").write_bytes(b"other weights")
    assert embedding._identity(changed) != embedding._identity(minilm)


def test_no_texts_and_one_text(minilm, tmp_path):
    assert embed([], store=tmp_path).shape == (0, 384)
    with pytest.raises(TypeError, match=r"write \[text\]"):
        embed("not a list", store=tmp_path)
