"""What MPICH's ranks on one machine need of shared memory: whether it is there, how it is left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from pathlib import Path

from helpers.machine import guard

FOLDER = Path("/dev/shm")
STALE_SECONDS = 60.0
PID_MAX = 1 << 22  # Linux has no more; a world of several processes has a number of 32 bits
BYTES_PER_RANK = 1_100_000  # MPICH 5.0 maps 1 057 792 to 1 064 960 for each (16 ranks to 1)


def why_not_enough(ranks: int) -> str | None:
    """Say why MPICH's ranks would not find the shared memory that they need; None if they do.

    A rank that does not is ended by a bus error, which says nothing.
    """
    needed = ranks * BYTES_PER_RANK
    if room() < needed:
        sweep()
    if (free := room()) >= needed:
        return None
    return (
        f"{ranks} MPI ranks need {needed / 1e6:.0f} MB of shared memory, and {FOLDER} has "
        f"{free / 1e6:.1f} MB free that you may write to: start fewer ranks, stop other "
        "clusters, or give the container more ('docker run --shm-size=1g')"
    )


def room() -> float:
    """Return how many bytes of shared memory are free; infinite where there is no folder for it."""
    if not Path("/proc/self").exists():
        return float("inf")
    if not os.access(FOLDER, os.W_OK | os.X_OK):
        return 0.0
    space = os.statvfs(FOLDER)
    return float(space.f_bavail * space.f_frsize)


def unlink_own() -> None:
    """Remove the names of what MPICH shares with this process; who has mapped it keeps it.

    To be called when all ranks have it. Then nothing is left however they end. What UCX shares has
    no name, and is left to this user alone: it is made for the user's group too.
    """
    for segment in _system_v():
        _close_to_group(segment)
    for name in guard.shared_files(os.getpid()):
        with contextlib.suppress(OSError):  # a sibling was faster
            os.unlink(name)


def unlink_when_alone(info: object = None) -> None:
    """Unlink what this process shares with nobody, if it began MPI by itself, as a kernel may.

    A kernel that is killed has no time to, and "Restart Kernel" kills one that is slow. IPython
    calls this after each cell, with ``info``.
    """
    mpi = sys.modules.get("mpi4py.MPI")
    with contextlib.suppress(KeyboardInterrupt):  # a stop that comes late is for the cell
        if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
            unlink_own()


def sweep(folder: Path = FOLDER, age: float = STALE_SECONDS) -> None:
    """Remove what ranks of this user left that were killed with all that could have cleared up.

    A world of one rank that ends without MPI_Finalize leaves such files too. Files younger than
    ``age`` seconds stay: ranks need the name in their first second.
    """
    sweep_ended(folder)
    old = set()
    for path in folder.glob("mpich_shm_*"):
        with contextlib.suppress(OSError):  # swept by another
            found = path.stat()
            if found.st_uid == os.getuid() and time.time() - found.st_mtime > age:
                old.add(str(path))
    if not old or not Path("/proc/self").exists():
        return
    for name in old - guard.shared_files(*(int(p.name) for p in Path("/proc").glob("[0-9]*"))):
        with contextlib.suppress(OSError):
            os.unlink(name)


def sweep_ended(folder: Path = FOLDER) -> None:
    """Remove what processes left that were a world of their own and have ended.

    A loader's worker is one if its module imports mpi4py, and it ends without MPI_Finalize. MPICH
    names its file after the process, and nobody else needs it.
    """
    for path in folder.glob("mpich_shm_*") if Path("/proc/self").exists() else ():
        with contextlib.suppress(OSError, ValueError, IndexError):  # swept by another; not MPICH's
            number = int(path.name.split("_")[2], 16)
            gone = number < PID_MAX and not Path(f"/proc/{number}").exists()
            if gone and path.stat().st_uid == os.getuid():
                path.unlink()


def ucx_transports() -> str:
    """Return ``UCX_TLS``: what MPICH's network may use while all ranks are on one machine.

    Without it UCX opens a port on every address of the machine. UCX gets 4 MB for each rank: System
    V's shared memory has no limit as small as a container's ``/dev/shm``.
    """
    return "self,sysv" if _has_system_v() else "self,posix"


def _system_v() -> set[int]:
    """Return the numbers of the segments of System V's shared memory that this process has."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as file:
        return {int(line.split(None, 5)[4]) for line in file if " /SYSV" in line}
    return set()


def _close_to_group(segment: int) -> None:
    """Take the rights of all but the user, where this user has made the segment, on Linux."""
    control = getattr(ctypes.CDLL(None), "shmctl", None)
    described = (ctypes.c_uint32 * 64)()  # of struct shmid_ds; the sixth word are the rights
    if control is not None and control(segment, 2, described) == 0 and described[5] & 0o77:
        described[5] &= ~0o77
        control(segment, 1, described)


def _has_system_v() -> bool:
    """Tell whether this system gives System V's shared memory (some sandboxes have none)."""
    system = ctypes.CDLL(None)
    create = getattr(system, "shmget", None)
    number = -1 if create is None else create(0, ctypes.c_size_t(4096), 0o1600)  # a private one
    if number >= 0:
        system.shmctl(number, 0, None)  # 0: remove it
    return number >= 0
