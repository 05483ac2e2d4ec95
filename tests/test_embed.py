"""Vectors: what they say, how each embedder makes them, and how they are kept.

Contriever, Stella and gte can't be had where these tests run. MiniLM's files stand in
for Contriever, and a tiny Qwen2 with random weights for Stella and gte, in folders of
their names: what is tested is that the recorded settings do what they say.
"""

import json
import tomllib

import numpy as np
import pytest

from lme_utils import config, weights
from lme_utils import embed as embedding
from lme_utils.embed import count_new, embed, settings

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
        def load(model):
            raise AssertionError(f"loaded {model}")

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
            return load(str(minilm)).encode(texts, **settings)

    monkeypatch.setattr(embedding, "_load", lambda model: Counting())
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


# What each embedder is made of.

TEXTS = [*PAIR, OTHER, OTHER * 70, ""]  # the fourth has more than 512 tokens


def recorded():
    return tomllib.loads(config.SOURCES.read_text())["embedders"]


def save_qwen(folder, padding_side="right"):
    """A Qwen2 of random weights, a token a byte; returns its path."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Config, Qwen2Model, Qwen2Tokenizer

    tokens = ["<|endoftext|>", *sorted(ByteLevel.alphabet())]
    table = {token: i for i, token in enumerate(tokens)}
    Qwen2Tokenizer(table, [], padding_side=padding_side).save_pretrained(folder)
    torch.manual_seed(0)
    small = Qwen2Config(
        vocab_size=len(table),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        initializer_range=0.5,
    )
    Qwen2Model(small).save_pretrained(folder)
    return str(folder)


def run_by_hand(folder, texts, max_length, end="", both_ways=False):
    """Hidden states of each text's tokens, a text at a time, without padding."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokeniser = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    if both_ways:
        model.config.is_causal = False
    states = []
    for text in texts:
        ids = tokeniser(text, truncation=True, max_length=max_length - bool(end))
        ids = ids["input_ids"] + ([tokeniser.convert_tokens_to_ids(end)] if end else [])
        with torch.no_grad():
            states.append(model(torch.tensor([ids])).last_hidden_state[0].numpy())
    return states


def unit(rows):
    return np.stack(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


def test_every_named_embedder_has_its_settings():
    known = recorded()
    assert list(known) == [
        "all-MiniLM-L6-v2",
        "all-mpnet-base-v2",
        "facebook/contriever",
        "dunzhang/stella_en_1.5B_v5",
        "Alibaba-NLP/gte-Qwen2-7B-instruct",
    ]
    needed = {"max_tokens", "pooling", "normalised"}
    for name, how in known.items():
        assert settings(name) == how
        more = {"revision", "dense", "query", "causal", "end_token"}
        assert needed <= how.keys() <= needed | more, name
        assert how["pooling"] in ("mean", "lasttoken")
        pinned = how if "/" in name else weights.source(name)
        assert len(pinned["revision"]) == 40
    assert [how["max_tokens"] for how in known.values()] == [256, 384, 512, 512, 8192]
    assert [n for n, how in known.items() if not how["normalised"]] == [
        "facebook/contriever"
    ]
    assert settings("sentence-transformers/all-MiniLM-L6-v2") == {}  # its own


def test_contriever_means_tokens_and_keeps_lengths(minilm, tmp_path):
    folder = tmp_path / "contriever"
    folder.symlink_to(minilm)
    vectors = embed(TEXTS, str(folder), store=tmp_path / "store")
    states = run_by_hand(minilm, TEXTS, 512)
    assert len(states[3]) == 512
    wanted = [tokens.mean(axis=0) for tokens in states]
    np.testing.assert_allclose(vectors, wanted, atol=1e-5)
    assert abs(np.linalg.norm(vectors, axis=1) - 1).min() > 0.1


@pytest.mark.parametrize("padding_side", ["left", "right"])
def test_gte_takes_the_last_token(tmp_path, padding_side):
    folder = save_qwen(tmp_path / "gte-Qwen2-7B-instruct", padding_side)
    states = run_by_hand(folder, TEXTS, 8192, "<|endoftext|>", both_ways=True)
    assert [len(tokens) for tokens in states] == [len(text) + 1 for text in TEXTS]
    wanted = unit([tokens[-1] for tokens in states])
    together = embed(TEXTS, folder, store=tmp_path / "padded")
    np.testing.assert_allclose(together, wanted, atol=1e-5)
    for text, row in zip(TEXTS, wanted, strict=True):
        alone = embed([text], folder, store=tmp_path / "unpadded")
        np.testing.assert_allclose(alone[0], row, atol=1e-5)
    one_way = run_by_hand(folder, TEXTS, 8192, "<|endoftext|>")
    assert abs(unit([tokens[-1] for tokens in one_way]) - wanted).max() > 0.01


def test_gte_instructs_queries_only(tmp_path):
    folder, store = save_qwen(tmp_path / "gte-Qwen2-7B-instruct"), tmp_path / "store"
    instruction = recorded()["Alibaba-NLP/gte-Qwen2-7B-instruct"]["query"]
    assert instruction.startswith("Instruction: ")
    assert instruction.endswith("\nQuery: ")
    key = embed([OTHER], folder, store)
    query = embed([OTHER], folder, store, as_query=True)
    assert abs(query - key).max() > 0.01
    assert count_new([instruction + OTHER], folder, store) == 0  # as it was encoded
    np.testing.assert_allclose(
        embed([instruction + OTHER], folder, tmp_path / "other"), query, atol=1e-5
    )


def test_stella_ends_in_its_dense_layer(tmp_path):
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense

    folder = save_qwen(tmp_path / "stella_en_1.5B_v5")
    head = Dense(16, 5, activation_function=torch.nn.Identity())
    (tmp_path / "stella_en_1.5B_v5" / "2_Dense_1024").mkdir()
    head.save(f"{folder}/2_Dense_1024")
    states = run_by_hand(folder, TEXTS, 512, "<|endoftext|>", both_ways=True)
    assert [len(tokens) for tokens in states[2:]] == [len(OTHER) + 1, 512, 1]
    weight = head.linear.weight.detach().numpy()
    bias = head.linear.bias.detach().numpy()
    wanted = unit([weight @ tokens.mean(axis=0) + bias for tokens in states])
    for as_query in (False, True):  # no instruction for either
        vectors = embed(TEXTS, folder, tmp_path / "store", as_query=as_query)
        np.testing.assert_allclose(vectors, wanted, atol=1e-5)


def test_an_unnamed_model_keeps_its_own_settings(tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    words = Transformer(save_qwen(tmp_path / "words"))
    own = SentenceTransformer(
        modules=[words, Pooling(16, "max")],
        prompts={"query": "Query : ", "document": "Text : "},
        similarity_fn_name="dot",
    )
    folder, store = str(tmp_path / "own"), tmp_path / "store"
    own.save(folder)
    keys = embed(TEXTS, folder, store)
    np.testing.assert_allclose(keys, own.encode_document(TEXTS), atol=1e-5)
    queries = embed(TEXTS, folder, store, as_query=True)
    np.testing.assert_allclose(queries, own.encode_query(TEXTS), atol=1e-5)
    assert abs(queries - keys).max() > 0.01

    changed = tmp_path / "changed" / "own"
    own.similarity_fn_name = "cosine"
    own.save(str(changed))
    assert count_new(TEXTS, str(changed), store) == len(TEXTS)
    vectors = embed(TEXTS, str(changed), store)
    np.testing.assert_allclose(vectors, unit(keys), atol=1e-5)


@pytest.mark.parametrize(
    "setting",
    [
        {"max_tokens": 128},
        {"pooling": "lasttoken"},
        {"normalised": False},
        {"dense": "2_Dense_1024"},
        {"causal": False},
        {"end_token": True},
    ],
    ids=str,
)
def test_other_settings_have_a_store_of_their_own(
    minilm, tmp_path, monkeypatch, setting
):
    model = "all-MiniLM-L6-v2"
    before = embedding._shards(model, tmp_path)
    assert before.name == f"{model}-{embedding._identity(minilm)}-256"
    how = settings(model) | setting
    monkeypatch.setattr(embedding, "settings", lambda model: how)
    assert embedding._shards(model, tmp_path) != before


def test_a_folder_of_the_hub_is_known_by_its_commit(tmp_path):
    stores = []
    for commit in ("a" * 40, "b" * 40):
        folder = tmp_path / "snapshots" / commit
        folder.mkdir(parents=True)
        (folder / "config_sentence_transformers.json").write_text(json.dumps({}))
        stores.append(embedding._identity(folder, own_settings=True))
    assert stores == ["a" * 16, "b" * 16]


def test_a_model_that_is_nowhere(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        OSError, match=r"'nobody/nothing': no such folder, .* give a fol"
    ):
        embed(["text"], "nobody/nothing")


def test_mpnet_gives_what_the_library_gives(tmp_path):
    from sentence_transformers import SentenceTransformer

    try:
        folder = weights.find_weights("all-mpnet-base-v2")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    texts = [OTHER, OTHER * 70]
    vectors = embed(texts, "all-mpnet-base-v2", store=tmp_path)
    assert vectors.shape == (2, 768)
    wanted = SentenceTransformer(str(folder)).encode(texts)
    np.testing.assert_allclose(vectors, wanted, atol=1e-5)
