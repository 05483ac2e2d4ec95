"""Counting tokens: against a server's own counts, and against cases cut by hand."""

import json
import lzma
from collections import Counter
from itertools import islice

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from lme_utils import llm, tokens
from lme_utils.config import PROFILES, ROOT, Endpoint, load_profile

ANSWERS = ROOT / "data" / "recordings" / "mini" / "answers.jsonl.xz"


def count_with(tokenizer):
    return tokens.counter(Endpoint(model="m", tokenizer=tokenizer))


def recorded(*roles):
    """The calls of this shape: the messages' texts, and the server's prompt tokens."""
    with lzma.open(ANSWERS, "rt", encoding="utf-8") as lines:
        for line in lines:
            call = json.loads(line)
            messages = json.loads(call["request"])["messages"]
            if tuple(message["role"] for message in messages) == roles:
                yield [message["content"] for message in messages], call["n_prompt"]


# The chat template puts 3 tokens before each message and 2 after it, and 3 at the end
# to open the reply. Without a system message it puts its own: 16 tokens and those 5.
@pytest.mark.parametrize(
    ("roles", "n_calls", "overhead"),
    [
        (["user"], 40, 21 + 5 + 3),
        (["system", "user"], 40, 2 * 5 + 3),
        (["user", "assistant", "user"], 2, 21 + 3 * 5 + 3),
        (["system", "user", "assistant", "user"], 2, 4 * 5 + 3),
    ],
)
def test_counts_are_the_servers_but_for_the_chat_template(roles, n_calls, overhead):
    count = count_with("qwen2.5")
    differences = Counter(
        n_prompt - sum(map(count, texts))
        for texts, n_prompt in islice(recorded(*roles), n_calls)
    )
    assert differences == {overhead: n_calls}


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("", 0),
        ("hello world", 2),
        ("2024", 4),  # a digit each
        ("a b", 2),  # a blank belongs to the word after it
        ("a  b", 3),  # a, the first blank, the second with b
        ("a    b", 3),  # a, three blanks in one, the fourth with b
        ("  Tokyo", 2),  # without its blank, Tokyo is two
        ("a\n\n b", 3),
        ("don't", 2),
        ("'STAR", 3),  # 'S is cut off as if it ended a contraction; T, AR
        ("你好", 1),
        ("你好,世界", 3),
        ("🙂", 1),
        ("👨‍👩‍👧", 7),  # three people, and two joiners of two tokens each
        ("caf\u00e9", 2),  # ca, fé
        ("cafe\u0301", 2),  # the same, its accent written apart
        ("½", 1),  # not taken apart into 1, ⁄, 2
        ("<|im_end|>", 6),  # no special token in a plain text
        ("\ud800", 1),
    ],
)
def test_qwen_cuts_as_by_hand(text, n):
    assert count_with("qwen2.5")(text) == n


def test_without_a_tokenizer_four_bytes_are_a_token():
    assert count_with("") is tokens.count_tokens is llm.count_tokens
    assert tokens.count_tokens("éa\ud800") == 1  # 2 + 1 bytes, and a question mark
    assert tokens.count_tokens("éaaa") == 2


def test_a_tokenizer_is_loaded_once(monkeypatch):
    count = count_with("qwen2.5")
    monkeypatch.setattr(tokens, "_qwen", None)
    assert tokens.counter(Endpoint(model="other", tokenizer="qwen2.5")) is count


def test_a_tokenizer_from_the_hub_counts_plain_text_whole(monkeypatch):
    ids = {"<s>": 0, "a": 1, "b": 2, "<": 3, "s": 4, ">": 5}
    toy = Tokenizer(models.BPE(vocab=ids, merges=[]))
    toy.pre_tokenizer = pre_tokenizers.Whitespace()
    toy.add_special_tokens(["<s>"])
    toy.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    toy.enable_truncation(2)
    toy.enable_padding(length=9)
    assert toy.encode("a b a").tokens == ["<s>", "a", *["[PAD]"] * 7]
    monkeypatch.setattr(Tokenizer, "from_pretrained", {"toy/hub-1": toy}.__getitem__)
    count = count_with("toy/hub-1")
    assert count("a b a") == 3
    assert count("<s> a") == 4


def test_a_tokenizer_that_cannot_be_had_is_an_error_that_says_what_to_do(monkeypatch):
    def refuse(name):
        raise RuntimeError(f"{name} is gated")

    monkeypatch.setattr(Tokenizer, "from_pretrained", refuse)
    with pytest.raises(OSError, match="no tokenizer 'toy/hub-2'") as caught:
        count_with("toy/hub-2")
    message = str(caught.value)
    assert "RuntimeError: toy/hub-2 is gated" in message
    assert "not qwen2.5" in message
    assert "HF_TOKEN" in message
    monkeypatch.setattr(Tokenizer, "from_pretrained", lambda name: tokens._qwen())
    assert count_with("toy/hub-2")("hello world") == 2  # a failure is not kept


@pytest.mark.parametrize("name", sorted(p.stem for p in PROFILES.glob("*.toml")))
def test_every_endpoint_of_a_profile_names_its_tokenizer(name):
    endpoints = load_profile(name).endpoints.values()
    assert endpoints
    for endpoint in endpoints:
        assert endpoint.tokenizer
        assert (endpoint.tokenizer == "qwen2.5") == ("Qwen2.5" in endpoint.model)
