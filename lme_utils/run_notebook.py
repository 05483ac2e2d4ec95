"""Run one notebook from a fresh kernel, without a hand on it.

    python -m lme_utils.run_notebook IN OUT NAME=VALUE ...

The kernel is this very interpreter, whatever other kernels Jupyter knows, and talks
over sockets in a private folder: kernels that run side by side never take each other's
ports. What the cells print is passed on, so that a log shows how far a run has come.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lme_utils.config import ROOT

TAIL_LINES = 20  # of the traceback of a cell that fails


def run_notebook(source: Path, out: Path, parameters: dict[str, Any]) -> int:
    """Execute `source` in the repository's root and write `out`.

    parameters  replace what the notebook's `parameters` cell sets
    returns     number of code cells run

    While it runs, and after a failure, the notebook lies beside `out` as
    `NAME.part.ipynb`; `out` is there only after a success. Raises RuntimeError naming
    the cell that failed, with the end of its traceback.
    """
    from nbclient.exceptions import DeadKernelError
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    source, out = source.resolve(), out.resolve()
    part = out.with_suffix(".part.ipynb")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="lme-") as folder:
        try:
            done = execute_notebook(
                source,
                part,
                parameters,
                kernel_name="python3",
                language="python",
                cwd=ROOT,
                progress_bar=False,
                stdout_file=sys.stdout,
                stderr_file=sys.stdout,
                kernel_manager_class=_kernel_manager(Path(folder)),
            )
        except PapermillExecutionError as error:
            raise RuntimeError(_describe(error, part)) from None
        except DeadKernelError as error:
            raise RuntimeError(
                f"{error} (out of memory?); the notebook so far is {part}"
            ) from None
    cells = [cell for cell in done.cells if cell.cell_type == "code"]
    if any(cell.execution_count is None for cell in cells):
        raise RuntimeError(f"a cell ended the run early; see {part}")
    part.replace(out)
    return len(cells)


def _kernel_manager(folder: Path) -> type:
    """A manager whose kernel is this interpreter, with its sockets in `folder`."""
    from ipykernel.kernelspec import get_kernel_dict
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpec
    from traitlets import default

    class Manager(AsyncKernelManager):
        kernel_spec = KernelSpec(**get_kernel_dict())

        @default("connection_file")
        def _private_file(self) -> str:
            return str(folder / "k.json")

        @default("transport")
        def _private_sockets(self) -> str:
            # the address of a Unix socket holds about 100 bytes
            fits = len(os.fsencode(folder)) < 80
            return "ipc" if os.name == "posix" and fits else "tcp"

    return Manager


def _describe(error: Any, part: Path) -> str:
    """Which cell failed, the end of its traceback, and where to look."""
    trace = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))
    tail = trace.splitlines()[-TAIL_LINES:]
    return "\n".join(
        [f"cell In [{error.exec_count}] failed; the notebook so far is {part}", *tail]
    )


def parse_parameters(words: list[str]) -> dict[str, Any]:
    """Read `NAME=VALUE` words; a value that is a Python literal becomes one.

    Raises ValueError for a word without a name.

    >>> parse_parameters(["PROFILE=mini", "N_QUESTIONS=5"])
    {'PROFILE': 'mini', 'N_QUESTIONS': 5}
    """
    parameters = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and name.isidentifier()):
            raise ValueError(f"got {word!r}, wanted NAME=VALUE")
        try:
            parameters[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            parameters[name] = value
    return parameters


def main(words: list[str]) -> int:
    """Run the command line; returns the exit code."""
    if len(words) < 2:
        print("usage: python -m lme_utils.run_notebook IN OUT [NAME=VALUE ...]")
        return 2
    start = time.monotonic()
    try:
        n_cells = run_notebook(
            Path(words[0]), Path(words[1]), parse_parameters(words[2:])
        )
    except (RuntimeError, ValueError, OSError) as error:
        print(f"{words[0]}: {error}\nfailed after {time.monotonic() - start:.1f} s")
        return 1
    print(f"{words[0]}: {n_cells} code cells in {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
