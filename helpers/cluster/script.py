"""A ``%%ranks`` cell as a script of its own, run by mpiexec as on any machine without notebooks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from helpers.cluster.launch import OPEN_MPI_ENVIRONMENT, find_mpiexec

_UNBUFFERED = "PYTHONUNBUFFERED"
PREAMBLE = """\
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()

"""


def as_script(containing: str = "", history: Sequence[str] | None = None) -> str:
    """Return the last ``%%ranks`` cell that ran in this notebook as a Python script.

    Parameters
    ----------
    containing : str
        Picks the last cell with this text in it.
    history : sequence of str, optional
        The cells to look in, by default the notebook's.

    Returns
    -------
    str
        A script that defines what the cell was given: ``MPI``, ``comm``, ``rank`` and ``size``.

    Raises
    ------
    ValueError
        If there is no such cell.
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
    """Run a Python script as ``mpiexec -n N python script.py``.

    Parameters
    ----------
    source : str
        The script.
    n : int
        The number of ranks.
    timeout : float
        In seconds.

    Returns
    -------
    str
        What the ranks printed.

    Raises
    ------
    ValueError
        For ``n`` < 1.
    RuntimeError
        With the output, when the script fails or does not end within ``timeout``.
    """
    if n < 1:
        raise ValueError(f"run_script expects n >= 1 rank; got {n!r}")
    with tempfile.TemporaryDirectory(prefix="script-") as folder:
        path = Path(folder, "script.py")
        path.write_text(source)
        process = subprocess.Popen(
            [find_mpiexec(), "-n", str(n), sys.executable, "script.py"],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException as error:
            output = _end(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RuntimeError(f"script.py did not end within {timeout} s:\n{output}") from None
            raise
    if process.returncode:
        raise RuntimeError(f"script.py ended with code {process.returncode}:\n{output}")
    return output


def _environment() -> dict[str, str]:
    """This process's environment; unbuffered, ranks would write into each other's lines."""
    return {k: v for k, v in {**OPEN_MPI_ENVIRONMENT, **os.environ}.items() if k != _UNBUFFERED}


def _end(process: subprocess.Popen) -> str:
    """End mpiexec, which ends its ranks; whatever is left is killed. Return the output so far."""
    process.send_signal(signal.SIGTERM)
    try:
        output, _ = process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    return output
