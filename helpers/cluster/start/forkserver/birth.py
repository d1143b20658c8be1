"""What happens in a process of the fork server's: it becomes one of its own, then runs a program.

``python -m helpers.cluster.start.forkserver.birth TOLD`` begins a member that was not forked. Where
a fork is unsafe (macOS, whose system libraries start threads) each member starts afresh: it finds
the same socket and runs the same program, but has to import everything itself.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from helpers.cluster.start.folders import SOCKETS
from helpers.cluster.start.forkserver import Surroundings, preload
from helpers.cluster.start.forkserver.family import READY
from helpers.machine.guard import PR_SET_PDEATHSIG, prctl
from helpers.machine.mpi import THREAD_VARIABLES
from helpers.machine.shared_memory import ucx_transports


def command(parent: int, surroundings: Surroundings, **told: object) -> list[str]:
    """Return the command that starts a member afresh; its environment goes by another way."""
    found = [surroundings.directory, surroundings.output, surroundings.threads]
    text = json.dumps({"parent": parent, "found": found, **told})
    return [sys.executable, "-P", "-m", "helpers.cluster.start.forkserver.birth", text]


def be_born(parent: int, surroundings: Surroundings) -> None:
    """Turn a fresh fork into a process of its own, which ends with its parent."""
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before
        os._exit(1)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.getsid(0) != os.getpid():
        os.setsid()  # so that it can be killed with its own children
    _redirect(surroundings.output)
    os.environ.clear()
    os.environ.update(surroundings.environment)
    with contextlib.suppress(OSError):  # the reader's folder may be gone
        os.chdir(surroundings.directory)
    if surroundings.threads is not None:
        use_threads(surroundings.threads)
    reseed()


def use_threads(count: int) -> None:
    """Let numerical libraries use so many threads, those that are loaded already too."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    if count > 1:  # they were loaded for one
        import threadpoolctl

        threadpoolctl.threadpool_limits(count)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(count)
    if (numba := sys.modules.get("numba")) is not None:
        numba.config.reload_config()
        numba.np.ufunc.parallel.NUM_THREADS = count  # which it had read when it was imported


def reseed() -> None:
    """Give this process random numbers that none of its siblings draws."""
    import random

    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.seed()


def _redirect(output: str) -> None:
    """Read nothing, and write to a file; other processes may write to its end too."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(file)
    for stream in (sys.stdout, sys.stderr):  # as they would be, had they begun with a file
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(line_buffering=stream is sys.stderr, write_through=False)


def main(told: dict) -> None:
    """Become the member that :func:`command` put into words, and run its program."""
    be_born(told["parent"], Surroundings(dict(os.environ), *told["found"]))
    threading.Thread(target=_end_with_parent, args=(told["life"],), daemon=True).start()
    import mpi4py

    mpi4py.rc.initialize = False  # the program does so itself
    mpi4py.rc.finalize = False
    place = Place(told["rank"], told["size"], told["end"])
    PROGRAMS[told["program"]](place, **told["options"])


def _end_with_parent(life: int) -> None:
    """End this process and what it has started when the other end of a pipe is gone."""
    os.read(life, 1)
    os.killpg(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Place:
    """Where a process stands in its family, and a socket to the process that forked it.

    The socket stays open to the very end: MPICH takes its leave after Python has ended.
    """

    rank: int
    size: int
    parent: int

    def ready(self) -> None:
        """Say that this process is ready for its work."""
        os.write(self.parent, READY)

    def initialize_mpi(self, network: dict | None = None) -> None:
        """Initialise MPI among the members of the family, on hosts if a `network` is given."""
        if network:
            from helpers.cluster.start.network.keeper import join

            join(Path(network["status"]), network["places"][self.rank])
        else:
            os.environ.setdefault("UCX_TLS", ucx_transports())  # else UCX opens a port
        asked = {"PMI_FD": self.parent, "PMI_RANK": self.rank, "PMI_SIZE": self.size}
        os.environ.update({name: str(value) for name, value in asked.items()}, PMI_SPAWNED="0")
        for name in [name for name in os.environ if name.startswith("PMIX_")]:
            del os.environ[name]  # of the job that the notebook runs in, as srun --mpi=pmix sets it
        from mpi4py import MPI

        MPI.Init_thread(MPI.THREAD_MULTIPLE)
        for name in (*asked, "PMI_SPAWNED"):  # a process that this one starts is a world of its own
            del os.environ[name]
        self.ready()


def controller(place: Place, folder: str, cluster_id: str) -> None:
    """Run ipyparallel's controller."""
    from helpers.cluster.start.controller import RankController

    sys.argv = ["controller"]
    RankController.begin(folder, f"{folder}/{SOCKETS}", cluster_id, place.ready)


def engine(
    place: Place,
    family: str,
    state_dir: str,
    threads: int,
    url_file: str,
    network: dict | None = None,
) -> None:
    """Run a rank that the notebook calls."""
    place.initialize_mpi(network)
    from helpers.cluster.rank.engine import RankEngine

    sys.argv = ["engine"]
    preload.forget_edited()
    sys.path.insert(0, "")  # as in a notebook: the reader's modules come first from now on
    RankEngine.begin(f"{family}-{place.rank}", state_dir, threads, url_file)


def script(place: Place, path: str) -> None:
    """Run a Python script, as ``python script.py`` does."""
    place.initialize_mpi()
    from mpi4py import MPI

    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")
    if not MPI.Is_finalized():
        MPI.Finalize()


def network(place: Place, folder: str, network: dict) -> None:
    """Make hosts and keep them."""
    from helpers.cluster.start.network.keeper import keep

    keep(place.ready, folder, network)


PROGRAMS: dict[str, Callable[..., None]] = {
    "controller": controller,
    "engine": engine,
    "network": network,
    "script": script,
}
# a rank that the notebook calls never ends by itself: if it does, something is wrong with it
NEED_MPI = ("engine", "script")
INSEPARABLE = {"controller": True, "engine": True, "network": True, "script": False}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
