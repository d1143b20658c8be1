"""A ``%%ranks`` cell as a script of its own, run as on any machine without notebooks."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from helpers.machine.mpi import run_ranks

PREAMBLE = """\
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()

"""


def as_script(containing: str = "", history: Sequence[str] | None = None) -> str:
    """Return the last ``%%ranks`` cell that ran in this notebook as a Python script.

    The script defines what the cell was given: ``MPI``, ``comm``, ``rank`` and ``size``.
    ``containing`` picks the last cell with this text in it, of ``history`` or the notebook's cells.
    ValueError if there is no such cell.
    """
    if history is None:
        from IPython import get_ipython

        shell = get_ipython()
        history = shell.history_manager.input_hist_raw if shell else []
    for cell in reversed(history):
        if cell.lstrip().startswith("%%ranks") and containing in cell:
            return PREAMBLE + cell.lstrip().partition("\n")[2].rstrip() + "\n"
    which = f" with {containing!r} in it" if containing else ""
    raise ValueError(f"none of the {len(history)} cells that ran is a %%ranks cell{which}")


def run_script(source: str, n: int = 4, timeout: float = 60.0) -> str:
    """Run a Python script by ``mpiexec -n N python script.py``. Return what the ranks printed.

    RuntimeError has the output, when the script fails or does not end within ``timeout``.
    """
    if n < 1:
        raise ValueError(f"run_script expects n >= 1 rank; got {n!r}")
    with tempfile.TemporaryDirectory(prefix="script-") as name:
        path = Path(name, "script.py")
        path.write_text(source)
        command = [sys.executable, path.name]
        done = run_ranks(n, command, timeout=timeout, folder=path.parent, threads=None)
    if done.code is None:
        raise RuntimeError(f"script.py did not end within {timeout} s:\n{done.output}")
    if done.code:
        raise RuntimeError(f"script.py ended with code {done.code}:\n{done.output}")
    return done.output
