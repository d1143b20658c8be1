"""How ranks find one another: who MPI says they are, a store, and each group's communicator.

The store is a file without a name on one host, a port between hosts.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import shutil
import socket
import tempfile
import uuid
import warnings
import zlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from mpi4py import MPI

from helpers.machine import guard
from helpers.machine.shared_memory import unlink_own
from helpers.torch_mpi.window import Window

# Freeing an MPI window waits for every rank, and torch lets each rank destroy a group when it
# likes. So windows are kept for the next group of the same ranks; they hold no communicator state.
_retired: dict[tuple[int, ...], dict[str, Window]] = {}

# What says how many processes were started with this one, and how MPI is told of them.
_STARTED = {
    "WORLD_SIZE": "torchrun and its like do not tell MPI: use mpiexec -n {n}",
    "SLURM_STEP_NUM_TASKS": "srun tells MPI when asked: use srun --mpi=pmi2, or mpiexec -n {n}",
    "OMPI_COMM_WORLD_SIZE": "this is not Open MPI's mpi4py: use the mpiexec beside this Python",
    "PMI_SIZE": "this is not MPICH's mpi4py: use the mpiexec beside this Python",
}
OPENED = Path("/proc/self/fd")  # where a process finds its open files, those without a name too
# The file that all have opened: kept, since torch's store ends when it likes, and reads it then.
_files: list[int] = []
_numbers = itertools.count()  # of the stores in that file, so that none finds another's keys


def mpi_world() -> tuple[int, int]:
    """Ask MPI for this rank in ``MPI.COMM_WORLD``, and its size.

    RuntimeError if MPI knows of this process alone, but it was started with others.
    """
    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    for variable, advice in _STARTED.items():
        started = os.environ.get(variable, "")
        if size == 1 and started.isdecimal() and int(started) > 1:
            raise RuntimeError(
                f"mpi:// expects all processes to be ranks of one MPI job; got {started} processes "
                f"({variable}={started}), of which MPI knows this one alone. "
                + advice.format(n=started)
            )
    return rank, size


def mpi_store(timeout: timedelta) -> dist.Store:
    """Return a key-value store from MPI alone (collective over ``MPI.COMM_WORLD``).

    On one host it is a file that only these processes can reach: it loses its name as soon as all
    of them have opened it, and its room when the last of them ends, however it ends. Between hosts
    its server is rank 0, on a port that the system chooses, to which whoever reaches that host may
    connect. Where files without a name cannot be opened (macOS) that port is on the loopback
    interface.
    """
    world = MPI.COMM_WORLD
    names = world.allgather(MPI.Get_processor_name())
    if len(set(names)) > 1 or not _common_file():
        return _served(timeout, names)
    number = world.bcast(next(_numbers))
    store = dist.FileStore(str(OPENED / str(_files[0])), world.Get_size())
    store.set_timeout(timeout)
    return dist.PrefixStore(str(number), store)


def _common_file() -> bool:
    """Open one file on all ranks, once; tell whether all have it, as on Linux (collective)."""
    world = MPI.COMM_WORLD
    if world.allreduce(bool(_files), MPI.LAND):
        return True
    with _folder() if world.Get_rank() == 0 else contextlib.nullcontext() as folder:
        path = world.bcast(folder and f"{folder}/store")
        if path and world.Get_rank() == 0:
            with contextlib.suppress(OSError):  # the others find out
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        world.Barrier()
        descriptor = -1
        if path and OPENED.is_dir():
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDWR)
        everyone = world.allreduce(descriptor >= 0, MPI.LAND)
    if everyone:
        _files.insert(0, descriptor)
    elif descriptor >= 0:
        os.close(descriptor)
    return everyone


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """Make a folder that no other user may enter, empty where none can be made; remove it."""
    folder = ""
    with contextlib.suppress(OSError):
        folder = tempfile.mkdtemp(prefix="torch_mpi-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _without(words: bytes) -> Iterator[None]:
    """Leave out lines with these words of what is written to stderr, by C++ too.

    Where no server of names answers, c10d complains of it on every rank; nothing here needs a name.
    """
    with tempfile.TemporaryFile() as said:
        own = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(own, 2)
            os.close(own)
            said.seek(0)
            for line in said:
                if words not in line:
                    os.write(2, line)


def _served(timeout: timedelta, names: list[str]) -> dist.Store:
    """Return a store whose server is rank 0, on the loopback interface if all share a host."""
    world = MPI.COMM_WORLD
    rank, alone = world.Get_rank(), len(set(names)) == 1
    listener = None
    if rank == 0:
        listener = socket.create_server(("127.0.0.1" if alone else "", 0))
    port = world.bcast(listener.getsockname()[1] if listener else None)
    with _without(b"The hostname of the client socket cannot be retrieved"):
        store = dist.TCPStore(
            "127.0.0.1" if alone else names[0],
            port,
            world.Get_size(),
            is_master=rank == 0,
            timeout=timeout,
            wait_for_workers=False,
            master_listen_fd=listener.detach() if listener else None,
        )
    world.Barrier()  # rank 0, and its server with it, may fail as soon as this returns
    return store


def leave_no_name() -> None:
    """Remove the names of what MPICH and its mpiexec have put into shared memory and ``/tmp``.

    To be called when all ranks are past ``MPI_Init``: then they need the names no more, and nothing
    is left however they end.
    """
    unlink_own()
    _remove_topology()


@functools.cache  # a second time it would be another job's that is just starting
def _remove_topology() -> None:
    if os.environ.get("MPI_LOCALRANKID") == "0":
        with contextlib.suppress(OSError, IndexError):
            guard.unlink_topology(os.getpid())


def connect(
    store: dist.Store, rank: int, size: int, timeout: timedelta, name: str
) -> tuple[MPI.Intracomm, tuple[int, ...], Window | None]:
    """Meet the members of a group.

    Return their communicator, their ranks in ``MPI.COMM_WORLD``, and a retired window that all of
    them still hold. RuntimeError if they are not distinct ranks of this MPI job, or did not come in
    time.
    """
    round_ = store.add(f"round/{rank}", 1)
    world = MPI.COMM_WORLD
    held = [token for windows in _retired.values() for token in windows]
    card = {"rank": world.Get_rank(), "size": world.Get_size(), "held": held, "name": name}
    store.set(f"{round_}/{rank}", json.dumps(card))
    keys = [f"{round_}/{other}" for other in range(size)]
    try:
        store.wait(keys, timeout)
    except RuntimeError as error:
        absent = [other for other, key in enumerate(keys) if not store.check([key])]
        raise RuntimeError(
            f"group {name!r}: rank(s) {absent} of {size} did not call init_process_group or "
            f"new_group within {timeout.total_seconds():g} s"
        ) from error
    cards = [json.loads(store.get(key)) for key in keys]
    if size == world.Get_size():
        leave_no_name()  # every rank is past MPI_Init
    ranks = tuple(card["rank"] for card in cards)
    if len(set(ranks)) != size or any(card["size"] != world.Get_size() for card in cards):
        raise RuntimeError(
            f"the backend mpi4py expects {size} ranks of one MPI job; got ranks {list(ranks)} of "
            f"jobs of {[card['size'] for card in cards]}. Start them together, with mpiexec -n "
            f"{size} (torchrun tells MPI nothing)"
        )
    group = world.Get_group().Incl(list(ranks))
    comm = world.Create_group(group, zlib.crc32(name.encode()) % 32_000)
    group.Free()
    shared = set(_retired.get(ranks, {})).intersection(*(card["held"] for card in cards))
    window = _retired[ranks].pop(min(shared)) if shared else None
    return comm, ranks, window


def window_for(comm: MPI.Intracomm, reusable: Window | None, needed: bool = False) -> Window | None:
    """Return memory that all ranks of a group share (collective), or None where hosts differ.

    None too where the host has too little memory to share; with ``needed`` that is a MemoryError.
    """
    if reusable is None:
        node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        alone = node.Get_size() == comm.Get_size()
        node.Free()
        if not comm.allreduce(alone, MPI.LAND):
            return None
        token = comm.bcast(uuid.uuid4().hex)
        try:
            reusable = Window(comm, token)
        except MPI.Exception:  # no memory to share, on this rank at least
            pass
        except MemoryError as error:  # on every rank, before any has taken some
            if needed:
                raise
            if comm.Get_rank() == 0:
                warnings.warn(f"{error}: messages go through MPI, which is slower", stacklevel=2)
        if not comm.allreduce(reusable is not None, MPI.LAND) or reusable is None:
            return None
    reusable.join(comm)
    return reusable


def retire(ranks: tuple[int, ...], window: Window) -> None:
    """Keep a window, closed, for the next group of the same ranks of ``MPI.COMM_WORLD``."""
    window.close()
    _retired.setdefault(ranks, {})[window.token] = window
