"""The first thing that happens in a forked process: to become one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from dataclasses import dataclass, field

from helpers.machine.mpi import THREAD_VARIABLES
from helpers.machine.prctl import PR_SET_PDEATHSIG, prctl


@dataclass(frozen=True)
class Surroundings:
    """What a process finds when it begins; `threads` None: as the environment says."""

    environment: dict[str, str] = field(repr=False)
    directory: str
    output: str
    threads: int | None = None


def command(parent: int, surroundings: Surroundings, **told: object) -> list[str]:
    """Return the command that starts a member afresh; its environment goes by another way."""
    found = [surroundings.directory, surroundings.output, surroundings.threads]
    text = json.dumps({"parent": parent, "found": found, **told})
    return [sys.executable, "-P", "-m", "helpers.cluster.start.forkserver.fresh", text]


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
