"""Where things lie, and what a profile says.

A profile is one TOML file in `lme_utils/profiles/`: the data, the retrievers, the
reading models, the judge, the sample and the limits of a run. Results of two profiles
never mix: each has its own folder under `build/`.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

ROOT = Path(__file__).resolve().parent.parent
PROFILES = Path(__file__).parent / "profiles"
PROMPTS = Path(__file__).parent / "prompts"
SOURCES = ROOT / "data" / "sources.toml"
SEED = 20241014  # the day the paper appeared


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Endpoint(_Frozen):
    """A language model behind the OpenAI API, local or remote.

    weights       name of a model in `data/sources.toml` to serve on this machine;
                  empty for a server that already runs at `base_url`
    revision      the exact version (file hash, commit or dated name); part of every
                  stored request. Taken from `data/sources.toml` for local weights
    api_key_env   environment variable that holds the key; empty: no key
    tokenizer     what lengths are counted with: "qwen2.5" (in `data/tokenizers/`), or
                  the name of a model on the Hugging Face hub; empty: a token in four
                  bytes
    n_parallel    requests in flight
    read_per_s, write_per_s   tokens a second, all slots together; for estimates only
    usd_per_m_in, usd_per_m_out   price of a million tokens
    timeout_s     limit for one call, retries not counted
    """

    model: str
    weights: str = ""
    revision: str = ""
    base_url: str = ""
    api_key_env: str = ""
    tokenizer: str = ""
    context: int = Field(default=8192, ge=1)
    n_parallel: int = Field(default=4, ge=1)
    read_per_s: float = Field(default=60.0, gt=0)
    write_per_s: float = Field(default=20.0, gt=0)
    usd_per_m_in: float = 0.0
    usd_per_m_out: float = 0.0
    timeout_s: float = Field(default=600.0, gt=0)
    max_retries: int = Field(default=4, ge=0)


class DataFiles(_Frozen):
    """The data files, as patterns that fit one file each.

    real   True for LongMemEval's own files, looked for in the folder `LME_DATA` or,
           where that is not set, in `data/longmemeval/`; else under the repository
    """

    oracle: str
    s: str
    real: bool = False


class Reading(_Frozen):
    """What the reading experiments compare. Lengths in tokens.

    max_tokens   most that a reader may write, by method
    sample       question ids; empty: every question
    readers      names from [endpoints]
    readers_of   who reads in an experiment, where not all of them do: "con-separate"
                 (notebook 06), "long" (whole histories, 02), "values" (03), "keys" (04)
    n_fillers    other sessions in a history beside the evidence, between none and all
                 of them, which are always asked (02)
    budgets      tokens of history that a reader may get (03)
    """

    max_tokens: dict[Literal["direct", "con", "con-separate"], int]
    sample: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    readers_of: dict[
        Literal["con-separate", "long", "values", "keys"], tuple[str, ...]
    ] = Field(default_factory=dict)
    n_fillers: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()

    def who(self, experiment: str) -> tuple[str, ...]:
        """The readers of an experiment: its own in `readers_of`, or all."""
        return self.readers_of.get(experiment, self.readers)


class Retrieval(_Frozen):
    """What the retrieval experiments compare.

    retrievers  as in `schema.Config`
    notes       kinds of notes that the extractor makes at each level
    sample      question ids to make notes for; empty: every question
    """

    retrievers: tuple[str, ...] = ("bm25", "dense")
    notes: dict[
        Literal["session", "turn"],
        tuple[Literal["summary", "keyphrase", "fact", "event"], ...],
    ] = Field(default_factory=dict)
    sample: tuple[str, ...] = ()


class Profile(_Frozen):
    """Everything that distinguishes one set of results from another."""

    name: str
    about: str
    data: DataFiles
    embedder: str = "all-MiniLM-L6-v2"
    reading: Reading
    retrieval: Retrieval = Retrieval()
    extractor: str = ""  # a name from [endpoints]: notes at writing time, date ranges
    judge: str = "offline"  # "offline", or a name from [endpoints]
    second_judge: str = ""  # likewise; judges every answer again. Empty: none
    budget_usd: float | None = None  # a run stops before it spends more
    endpoints: dict[str, Endpoint] = Field(default_factory=dict)

    @property
    def build_dir(self) -> Path:
        """Where this profile's results go."""
        return ROOT / "build" / self.name

    def data_path(self, which: Literal["oracle", "s"]) -> Path:
        """The file to read. A real profile needs the folder `LME_DATA`.

        Raises FileNotFoundError, saying what to do, where there is no such file, and
        ValueError where the name fits several.
        """
        folder, pattern = ROOT, getattr(self.data, which)
        if self.data.real:
            folder = Path(os.environ.get("LME_DATA") or ROOT / "data" / "longmemeval")
        found = sorted(folder.glob(pattern))
        if not found:
            raise FileNotFoundError(
                f"profile {self.name}: no {pattern} in {folder}"
                + (
                    ". Run `make data`, or name the folder with LME_DATA=dir"
                    if self.data.real
                    else ""
                )
            )
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise ValueError(f"{folder}: {pattern} fits {names}; wanted one file")
        return found[0]


def load_profile(name: str) -> Profile:
    """Read `profiles/{name}.toml`, or a TOML file of your own if `name` is a path.

    Raises ValueError naming the file and each field that is not as it should be.
    """
    path = Path(name) if name.endswith(".toml") else PROFILES / f"{name}.toml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in PROFILES.glob("*.toml")))
        raise ValueError(f"no profile {name!r}: have {known}, or give a .toml file")
    try:
        return Profile(**tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, ValidationError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def cache_dir() -> Path:
    """The user's cache for weights and vectors: `LME_CACHE`, or the usual place."""
    if os.environ.get("LME_CACHE"):
        return Path(os.environ["LME_CACHE"])
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lme_utils"
    )


def read_prompt(name: str) -> str:
    """The text of `prompts/{name}.txt`, without its last line break."""
    return (PROMPTS / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")
