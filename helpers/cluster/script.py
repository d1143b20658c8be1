"""A ``%%ranks`` cell as a script of its own, run as on any machine without notebooks."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from helpers.cluster.start.forked import Forked, Spawned, remember_not_to_fork_here, way_here
from helpers.cluster.start.forkserver import job
from helpers.cluster.start.forkserver.handle import CannotFork
from helpers.cluster.start.guarded import Mpiexec
from helpers.machine.launcher import run_ranks

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


def run_script(
    source: str,
    n: int = 4,
    timeout: float = 60.0,
    start: Forked | Spawned | Mpiexec | None = None,
) -> str:
    """Run a Python script on several ranks of this machine. Return what they printed.

    Parameters
    ----------
    start : Forked, Spawned or Mpiexec, optional
        ``Mpiexec()`` writes ``mpiexec -n N python script.py``; None is what a Cluster would do.

    Raises
    ------
    ValueError
        For ``n`` < 1 or another way to start.
    RuntimeError
        With the output, when the script fails or does not end within ``timeout``.
    """
    if n < 1:
        raise ValueError(f"run_script expects n >= 1 rank; got {n!r}")
    way = start.way if start is not None else way_here()
    if way not in ("fork", "spawn", "mpiexec"):
        raise ValueError(f"run_script: Forked(), Spawned() or Mpiexec(); got {start or way!r}")
    try:
        if way == "mpiexec":
            code, output = _by_mpiexec(source, n, timeout)
        else:
            code, output = _by_fork(source, n, timeout, way)
    except CannotFork as error:
        if start is not None:
            raise
        remember_not_to_fork_here(str(error))
        code, output = _by_mpiexec(source, n, timeout)
    if code is None:
        raise RuntimeError(f"script.py did not end within {timeout} s:\n{output}")
    if code:
        raise RuntimeError(f"script.py ended with code {code}:\n{output}")
    return output


def _by_fork(source: str, n: int, timeout: float, way: str) -> tuple[int | None, str]:
    """Run the script without mpiexec; return its exit code, None at the limit, and the output."""
    with job.place(way=way) as own:
        own.script.write_text(source)
        return own.run(n, timeout)


def _by_mpiexec(source: str, n: int, timeout: float) -> tuple[int | None, str]:
    """Do the same under mpiexec."""
    with tempfile.TemporaryDirectory(prefix="script-") as name:
        path = Path(name, "script.py")
        path.write_text(source)
        command = [sys.executable, path.name]
        done = run_ranks(n, command, timeout=timeout, folder=path.parent, threads=None)
        return done.code, done.output
