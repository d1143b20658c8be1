"""Run one importable function on n fresh MPI ranks and collect what each returns.

``run_ranks(3, check_ring, 1000)`` calls ``check_ring(1000)`` on each of three ranks and returns the
results in rank order; a failing rank's traceback is raised here. The function must stand at the top
level of a module (it is found again by name on the ranks).

The ranks are forked from a process that has imported torch, which takes a tenth of the time that
mpiexec needs; where a test asks for an environment or another Python, or where nothing can be
forked, mpiexec starts them.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import secrets
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from helpers.cluster.errors import StartError
from helpers.cluster.start import folders
from helpers.cluster.start.forked import why_not_to_fork_here
from helpers.cluster.start.forkserver import handle
from helpers.machine.mpi import find_mpiexec
from helpers.machine.mpi import run_ranks as under_mpiexec
from helpers.paths import ROOT

MODULES = ("torch",)
END_SECONDS = 5.0


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
    call = pickle.dumps((function, args, timeout))
    if fork and why_not_to_fork_here() is None:
        _stay_warm()
        with _place() as (server, folder):
            (folder / "job.pickle").write_bytes(call)
            (folder / "script.py").write_text(
                f"import os, sys\nos.chdir({str(folder)!r})\nsys.path[:0] = [{str(ROOT)!r}]\n"
                f"from tests.mpi.runner import _main\n_main({str(folder)!r})\n"
            )
            return _results(n, folder, *_forked(server, folder, n, timeout), timeout)
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


@contextlib.contextmanager
def _place() -> Iterator[tuple[handle.ForkServer, Path]]:
    """Make a folder, which goes at the end and if this process is killed; yield who forks, too."""
    server = handle.acquire(MODULES)
    folder = Path(tempfile.gettempdir(), f"{folders.PREFIX}{secrets.token_hex(6)}")
    try:
        server.call("adopt", folder=str(folder))  # before it is there to be left behind
        with folders.own(folder):
            try:
                yield server, folder
            finally:
                # in this order: if this process is killed in between the other one removes it
                shutil.rmtree(folder, ignore_errors=True)
                with contextlib.suppress(StartError):  # it has ended
                    server.call("forget", folder=str(folder))
    finally:
        handle.release(server)


def _forked(
    server: handle.ForkServer, folder: Path, n: int, timeout: float
) -> tuple[int | None, str]:
    """Run the folder's script on forked ranks; return the first exit code but 0, and the output.

    The code is None if the time was up, and the ranks were killed.
    """
    name = folder.name
    try:
        server.answer(server.require(*handle.RANKS, *MODULES))
        options = {"path": str(folder / "script.py")}
        server.answer(server.fork(name, "script", n, options, folder, 1))
        ended = server.wait(name, timeout)
        if ended and not server.alive:
            raise StartError("the process that forks ranks has ended, and with it the ranks")
        first = server.first(name)
        code = os.waitstatus_to_exitcode(first[1]) if first else 0
    finally:
        if server.alive:
            server.call("kill", name=name)
            server.wait(name, END_SECONDS)
        server.forget(name)
    output = handle.output_file(folder, "script").read_text(errors="replace")
    return code if ended else None, output


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
    function, args, timeout = pickle.loads(Path(folder, "job.pickle").read_bytes())
    faulthandler.dump_traceback_later(timeout / 2)  # shown if the ranks do not end
    try:
        outcome = (False, function(*args))
    except BaseException:
        outcome = (True, traceback.format_exc())
    faulthandler.cancel_dump_traceback_later()
    Path(folder, f"{rank}.part").write_bytes(pickle.dumps(outcome))
    Path(folder, f"{rank}.part").rename(Path(folder, f"{rank}.pickle"))
    if outcome[0]:  # the others may wait for this rank for ever
        sys.stdout.flush()
        MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    _main(sys.argv[1])
