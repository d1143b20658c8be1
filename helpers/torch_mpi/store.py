"""The store at which ranks meet: a file without a name on one host, a port between hosts."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from mpi4py import MPI

OPENED = Path("/proc/self/fd")  # where a process finds its open files, those without a name too
# The file that all have opened: kept, since torch's store ends when it likes, and reads it then.
_files: list[int] = []
_numbers = itertools.count()  # of the stores in that file, so that none finds another's keys


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
