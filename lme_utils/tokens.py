"""How many tokens a text has, counted without the model that reads it.

Budgets and estimates are in the reader's own tokens. Counting them takes its tokeniser,
a few megabytes; its weights can stay where they are.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from .config import ROOT, Endpoint

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZERS = ROOT / "data" / "tokenizers"

# What Qwen2.5 cuts a text into; no merge crosses a cut. The first line that fits wins.
QWEN_PIECES = r"""(?x)
    (?i: ' (?: [sdmt] | ll | re | ve ) )    # the end of a contraction
  | [^\p{L}\p{N}\r\n]? \p{L}+               # a word and what stands right before it
  | \p{N}                                   # one digit
  | [\x20]? [^\p{L}\p{N}\s]+ [\r\n]*        # punctuation, with line breaks after it
  | \s* [\r\n]+                             # line breaks
  | \s+ (?! \S )                            # blanks, but for the one before a word
  | \s+
"""


def counter(endpoint: Endpoint) -> Callable[[str], int]:
    """A function that counts the tokens of a plain text as this endpoint's model does.

    Which tokeniser: `endpoint.tokenizer`. Loaded once in a process: half a second for
    "qwen2.5", a download for a name on the hub. A text is counted by
    itself: what a chat template puts around messages is not in it, and the name of a
    special token in a text counts as the characters it is written with. A lone
    surrogate counts as a question mark.

    Raises OSError where a tokeniser from the hub can't be had.

    >>> count = counter(Endpoint(model="m", tokenizer="qwen2.5"))
    >>> count("How many mugs did I buy in 2024?")
    14
    """
    return _counter(endpoint.tokenizer)


def count_tokens(text: str) -> int:
    """About how many tokens a text has: a token in four bytes of UTF-8.

    >>> count_tokens("How many mugs did I buy?")
    6
    """
    return -(-len(text.encode(errors="replace")) // 4)


@cache
def _counter(name: str) -> Callable[[str], int]:
    if not name:
        return count_tokens
    tokenizer = _qwen() if name == "qwen2.5" else _from_hub(name)

    def count(text: str) -> int:
        text = text.encode(errors="replace").decode()
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count


def _qwen() -> Tokenizer:
    """Qwen2.5's tokeniser. Its tokens: the bytes, then what each merge makes."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    packed = (TOKENIZERS / "qwen2.5.merges.txt.xz").read_bytes()
    lines = lzma.decompress(packed).decode().splitlines()
    merges = [tuple(line.split(" ")) for line in lines]
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens += [left + right for left, right in merges]
    ids = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return tokenizer


def _from_hub(name: str) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_pretrained(name)
    except Exception as error:  # the hub's client raises a dozen kinds
        raise OSError(
            f"no tokenizer {name!r}: it is not qwen2.5, and the Hugging Face hub gave "
            f"{type(error).__name__}: {error}\nTry again with a connection (a gated "
            "model wants a key in HF_TOKEN), or leave `tokenizer` empty to count four "
            "bytes a token"
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # as text
    return tokenizer
