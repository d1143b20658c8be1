"""How ranks find one another: who MPI says they are, and a communicator for each group."""

from __future__ import annotations

import json
import os
import uuid
import warnings
import zlib
from datetime import timedelta

import torch.distributed as dist
from mpi4py import MPI

from helpers.torch_mpi.starting import leave_no_name
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
