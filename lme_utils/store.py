"""Where model answers are kept: a SQLite store, and recordings that ship with a study.

One row a request, found by the request's key; nothing is ever evicted or overwritten.
Several threads and processes may use a store at once, and a process that dies loses
only the calls it was waiting for.
"""

from __future__ import annotations

import lzma
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .files import written_aside

WAIT_FOR_LOCK_S = 60.0

TABLES = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, request TEXT NOT NULL, reply TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS calls (
    key TEXT NOT NULL, model TEXT NOT NULL, n_prompt INTEGER NOT NULL,
    n_completion INTEGER NOT NULL, usd REAL NOT NULL, latency_s REAL NOT NULL,
    outcome TEXT NOT NULL
);
"""


class Recording(BaseModel):
    """What a model gave back for one request, as it is stored and recorded.

    key             hash of the whole request, 64 hex digits
    finish_reason   as the server said, such as "stop" or "length"; "refusal" where the
                    model declined
    n_prompt, n_completion   tokens as the server counted them
    latency_s       seconds until the reply was there, waits between tries included
    first_logprobs  candidates for the first token and their log-probabilities, where
                    they were asked for
    request         the request as JSON, so that it can be asked again
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    key: str = Field(pattern="^[0-9a-f]{64}$")
    model: str
    revision: str
    text: str
    finish_reason: str
    n_prompt: int = Field(ge=0)
    n_completion: int = Field(ge=0)
    latency_s: float = Field(ge=0)
    first_logprobs: dict[str, float] | None = None
    request: str | None = None


class Store:
    """The answers in a SQLite file, backed by read-only recordings.

    path        the file; it and its folder are made when missing
    recordings  JSONL files, plain or .xz, one `Recording` a line

    Raises ValueError, naming file and line, for a recording that is damaged, and
    OSError where the file cannot serve as a store.
    """

    def __init__(self, path: Path, recordings: Sequence[Path] = ()) -> None:
        from filelock import FileLock

        self.usd_spent = 0.0  # by calls made through this object
        self._recorded = _read_recordings(recordings)
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(
                path,
                timeout=WAIT_FOR_LOCK_S,
                isolation_level=None,
                check_same_thread=False,
            )
            with FileLock(f"{path}.lock"):  # SQLite does not wait for this one change
                self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(TABLES)
        except sqlite3.DatabaseError as error:
            raise OSError(
                f"{path}: no response store: {error}. Move the file away, or name "
                "another folder with LME_CACHE"
            ) from None

    def find(self, key: str, live: bool = False) -> tuple[Recording, str] | None:
        """An answer and where it was: "recorded" or "stored"; None if there is none.

        Recordings come first, so that a run shows the same on every machine.
        live  whether to leave the recordings aside
        """
        if not live and key in self._recorded:
            return self._recorded[key], "recorded"
        with self._lock:
            row = self._db.execute(
                "SELECT request, reply FROM replies WHERE key = ?", (key,)
            ).fetchone()
        if not row:
            return None
        reply = Recording.model_validate_json(row[1])
        return reply.model_copy(update={"request": row[0]}), "stored"

    def recorded(self) -> list[Recording]:
        """The recordings behind the store, sorted by key."""
        return [self._recorded[key] for key in sorted(self._recorded)]

    def add(
        self, call: Recording, usd: float, outcome: str, request: str | None = None
    ) -> None:
        """Put a call into the ledger and, given its request, its answer into the store.

        usd      what the call cost
        outcome  "ok", or why there is no usable answer
        request  the request as JSON; None for a call that is to be made again
        """
        ledger = (
            *(call.key, call.model, call.n_prompt, call.n_completion),
            *(usd, call.latency_s, outcome),
        )
        with self._lock:
            self.usd_spent += usd
            self._db.execute("BEGIN IMMEDIATE")
            with self._db:  # commits, or takes everything back
                self._db.execute(
                    "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?)", ledger
                )
                if request is not None:
                    self._db.execute(
                        "INSERT OR IGNORE INTO replies VALUES (?, ?, ?)",
                        (call.key, request, call.model_dump_json()),
                    )

    def calls(self) -> list[dict]:
        """The ledger: every call ever made, a dict each, in order."""
        with self._lock:
            rows = self._db.execute("SELECT * FROM calls ORDER BY rowid")
            names = [column[0] for column in rows.description]
            return [dict(zip(names, row, strict=True)) for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def export_recordings(store: Store, keys: Iterable[str], path: Path) -> None:
    """Write the answers of `keys` as JSONL.xz, sorted by key: same answers, same bytes.

    Raises ValueError, writing nothing, where an answer is not in the store.
    """
    lines = []
    missing = []
    for key in sorted(set(keys)):
        found = store.find(key)
        if found:
            lines.append(found[0].model_dump_json() + "\n")
        else:
            missing.append(key)
    if missing:
        raise ValueError(
            f"{path.name}: no answer in the store for {len(missing)} of "
            f"{len(missing) + len(lines)} keys, such as {missing[0]}. Run again until "
            "every call has one"
        )
    with written_aside(path) as aside:
        aside.write_bytes(lzma.compress("".join(lines).encode(), preset=9))


def _read_recordings(paths: Sequence[Path]) -> dict[str, Recording]:
    recorded: dict[str, Recording] = {}
    for path in paths:
        number = 0
        try:
            with (lzma.open if path.suffix == ".xz" else open)(path, "rb") as stream:
                for line in stream:
                    number += 1
                    found = Recording.model_validate_json(line)
                    if recorded.setdefault(found.key, found).text != found.text:
                        raise ValueError(f"another answer to {found.key} came before")
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'line'}: {e['msg']}"
                for e in error.errors()
            )
            raise _damaged(path, number, problems) from None
        except (lzma.LZMAError, EOFError) as error:
            raise _damaged(path, number + 1, str(error)) from None
        except ValueError as error:
            raise _damaged(path, number, str(error)) from None
    return recorded


def _damaged(path: Path, number: int, problem: str) -> ValueError:
    return ValueError(
        f"{path}, line {number}: not a recording: {problem}. Restore the file, or "
        "delete it to ask the model again"
    )
