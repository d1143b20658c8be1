"""Run one importable function on n fresh MPI ranks and collect what each returns.

``run_ranks(3, check_ring, 1000)`` calls ``check_ring(1000)`` on each of three ranks and returns the
results in rank order; a failing rank's traceback is raised here. The function must stand at the top
level of a module (it is found again by name on the ranks).

The ranks are forked from a process that has imported torch, which takes a tenth of the time that
mpiexec needs; where a test asks for an environment or another Python, or where nothing
can be forked, mpiexec starts them.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import traceback
from pathlib import Path

from helpers.cluster.start.forked import why_not_to_fork_here
from helpers.cluster.start.forkserver import handle
from helpers.machine.mpi import find_mpiexec
from helpers.machine.mpi import run_ranks as under_mpiexec
from helpers.paths import ROOT
from tests.mpi import job

MODULES = ("torch",)


class RankError(AssertionError):
    """A rank raised, was killed, or did not end in time."""


def run_ranks(
    n: int,
    function,
    *args,
    timeout: float = 60.0,
    env: dict[str, str] | None = None,
    python: str = sys.executable,
    fork: bool = True,
) -> list:
    """Call ``function(*args)`` on ``n`` ranks; return the results in rank order."""
    fork &= env is None and python == sys.executable
    call = pickle.dumps((function, args))
    if fork and why_not_to_fork_here() is None:
        _stay_warm()
        with job.place(MODULES) as own:
            folder = own.folder
            (folder / "job.pickle").write_bytes(call)
            own.script.write_text(
                f"import sys\nsys.path[:0] = [{str(ROOT)!r}]\n"
                f"from tests.mpi.runner import _main\n_main({str(folder)!r})\n"
            )
            code, output = own.run(n, timeout, threads=1)
            return _results(n, folder, code, output, timeout)
    with tempfile.TemporaryDirectory(prefix="ranks-") as name:
        folder = Path(name)
        (folder / "job.pickle").write_bytes(call)
        done = under_mpiexec(
            n,
            [python, "-m", "tests.mpi.runner", name],
            timeout=timeout,
            folder=folder,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), **(env or {})},
            mpiexec=find_mpiexec(python),
        )
        return _results(n, folder, done.code, done.output, timeout)


def _results(n: int, folder: Path, code: int | None, output: str, timeout: float) -> list:
    if code is None:
        raise RankError(f"{n} ranks did not end within {timeout} s:\n{output}")
    outcomes = {}
    for rank in range(n):
        path = folder / f"{rank}.pickle"
        if path.exists():
            outcomes[rank] = pickle.loads(path.read_bytes())
    for rank, (failed, value) in outcomes.items():  # before those that it took with it
        if failed:
            raise RankError(f"rank {rank} of {n} raised:\n{value}\n{output}")
    for rank in range(n):
        if rank not in outcomes:
            raise RankError(f"rank {rank} of {n} left no result:\n{output}")
    return [outcomes[rank][1] for rank in range(n)]


def cool_down() -> None:
    """End the process that forks: a cluster that is tested next would share it."""
    while _warm:
        handle.release(_warm.pop())


_warm: list[handle.ForkServer] = []


def _stay_warm() -> None:
    """Keep the process that forks from one call to the next; it ends with this one."""
    if not _warm:
        server = handle.acquire(MODULES)
        server.answer(server.require(*handle.RANKS, *MODULES))
        _warm.append(server)


def _main(folder: str) -> None:
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    function, args = pickle.loads(Path(folder, "job.pickle").read_bytes())
    try:
        outcome = (False, function(*args))
    except BaseException:
        outcome = (True, traceback.format_exc())
    Path(folder, f"{rank}.part").write_bytes(pickle.dumps(outcome))
    Path(folder, f"{rank}.part").rename(Path(folder, f"{rank}.pickle"))
    if outcome[0]:  # the others may wait for this rank for ever
        sys.stdout.flush()
        MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    _main(sys.argv[1])
