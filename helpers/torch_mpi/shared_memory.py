"""Memory that the ranks of one host share, and the numbered steps in which they use it.

Each rank owns two slots of the window and one flag. An operation is a row of *steps*: in step k a
rank writes to its slot k mod 2, raises its flag to k, waits for the flags it depends on, and reads
the others' slots. A flag at k says that its rank has finished reading step k − 1, so slot k mod 2,
last used in step k − 2, is free once every flag is at k − 1.

A rank that leaves, because it ends or destroys the group, marks that beside its flag. Who waits for
a flag that such a rank has not raised learns that it will not come.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mpi4py import MPI

from helpers.machine import usable_cores
from helpers.machine.shared_memory import FOLDER, room
from helpers.machine.waiting import SPINS, YIELD_FOR, Yielding, until
from helpers.torch_mpi.handles import Announced
from helpers.torch_mpi.transport import CLOSED, DepartedError, differ

LINE = 64  # bytes: one cache line for each rank's flag, so that polling does not slow the others
WORDS = LINE // 8  # of a line: the flag, the signatures of two steps, the mark of who has left
LEFT = 3
SEGMENT = 2 << 20  # bytes in a slot: larger means fewer waits, smaller stays nearer to the cores
SMALLEST = 128 << 10  # bytes in a slot where there is little shared memory
KEPT = 64  # views of the slots that are kept for messages of the same type and length


def _segment(comm: MPI.Intracomm) -> int:
    """Return how many bytes a slot has: what takes no more than half of what is free (collective).

    More would be ended by a bus error, at the first touch of memory that is not there.
    """
    slots, segment = 2 * comm.Get_size(), SEGMENT
    free = comm.bcast(room())
    while segment > SMALLEST and slots * segment > free // 2:
        segment //= 2
    if slots * segment > free:
        raise MemoryError(
            f"{comm.Get_size()} ranks need {slots * segment / 1e6:.1f} MB of shared memory for "
            f"torch.distributed, and {free / 1e6:.1f} MB are free in {FOLDER}"
        )
    return segment


class SharedMemory:
    """One rank's side of the memory (collective); ``token`` is a name that no other memory has."""

    def __init__(self, comm: MPI.Intracomm, token: str):
        self.token = token
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        header = LINE * self.size
        self.segment = _segment(comm)
        total = header + 2 * self.segment * self.size
        self._win = MPI.Win.Allocate_shared(total if self.rank == 0 else 0, 1, comm=comm)
        memory = memoryview(self._win.Shared_query(0)[0]).cast("B")  # type: ignore[arg-type]
        if self.rank == 0:
            memory[:header] = bytes(header)
        self._win.Lock_all(MPI.MODE_NOCHECK)  # Win.Sync is a memory fence, but only in an epoch
        self._flags = memory[:header].cast("Q")
        data = torch.frombuffer(memory, dtype=torch.uint8, offset=header)
        slots = data.view(2, self.size, self.segment)  # (parity, rank, byte)
        self._slots = [[slots[parity, rank] for rank in range(self.size)] for parity in range(2)]
        self._views: dict[tuple, list[list[torch.Tensor]]] = {}
        self._others = [rank for rank in range(self.size) if rank != self.rank]
        self._all = range(self.size)
        self._crowded = self.size > usable_cores()
        self._yielding = Yielding()
        self._step = 0
        self._said: int | None = None  # this rank's signature of this step
        self._closed = False
        self.call = ""  # which collective is under way
        self.dtype: torch.dtype | None = None  # of the caller's tensors
        self.patient = False  # whether this process computes meanwhile: then waiting means sleeping
        comm.Barrier()
        self._win.Sync()

    def join(self, comm: MPI.Intracomm) -> None:
        """Start serving a communicator: all ranks resume from one step number (collective)."""
        self._comm = comm
        self._progress = MPI.Intracomm(comm).Iprobe  # a look that nobody watches or records
        self._closed = False
        self._flags[self.rank * WORDS + LEFT] = 0
        self._said = None
        self._step = comm.allreduce(self._flags[self.rank * WORDS], MPI.MAX)
        self._flags[self.rank * WORDS] = self._step
        comm.Barrier()

    def close(self) -> None:
        """Leave: see :class:`Transport`. The memory stays for a later group of the same ranks."""
        self._closed = True
        self._win.Sync()  # what was published, before the mark
        self._flags[self.rank * WORDS + LEFT] = 1

    def departed(self) -> list[int]:
        """Return the ranks that have left."""
        return [rank for rank in self._others if self._flags[rank * WORDS + LEFT]]

    def views(self, numel: int, dtype: torch.dtype) -> list[list[torch.Tensor]]:
        """Return the beginning of every slot: ``views[parity][rank]``, each (numel,)."""
        found = self._views.get((numel, dtype))
        if found is None:
            if len(self._views) >= KEPT:
                self._views.clear()
            nbytes = numel * dtype.itemsize
            found = [[slot[:nbytes].view(dtype) for slot in slots] for slots in self._slots]
            self._views[numel, dtype] = found
        return found

    def _wait(self, step: int, ranks: Sequence[int], deadline: float) -> None:
        flags = self._flags
        for rank in ranks:
            if flags[rank * WORDS] < step:
                self._wait_for(rank * WORDS, step, deadline)

    def _wait_for(self, line: int, step: int, deadline: float) -> None:
        flags = self._flags
        until(
            lambda: flags[line] >= step,
            deadline,
            lambda: TimeoutError(
                "rank(s) "
                + ", ".join(str(r) for r in self._all if flags[r * WORDS] < step)
                + " of this group did not arrive in time"
            ),
            lambda: Announced(self._comm, self.call),
            progress=self._progress,
            closed=lambda: CLOSED if self._closed else self._left(line, step),
            spins=0 if self._crowded or self.patient else SPINS,
            yield_for=0.0 if self.patient else YIELD_FOR,
            yielding=self._yielding,
        )

    def _left(self, line: int, step: int) -> str:
        """Raise if the rank of this line has left; else nothing speaks against waiting."""
        if self._flags[line + LEFT]:
            self._win.Sync()
            if self._flags[line] < step:  # it may have raised its flag, and then left
                raise DepartedError(f"rank {line // WORDS} of this group has left it")
        return ""

    def open(self, deadline: float) -> int:
        """Begin a step: wait until one of this rank's two slots is free, and return which."""
        self._wait(self._step, self._others, deadline)
        self._compare(self._others)  # a root that waited for nobody looks here
        self._step += 1
        return self._step & 1

    def publish(self, signature: int = 0) -> None:
        """Show what was written in this step; ``signature`` must agree between ranks."""
        line, self._said = self.rank * WORDS, signature
        self._flags[line + 1 + (self._step & 1)] = signature
        self._win.Sync()
        self._flags[line] = self._step

    def collect(self, ranks: Sequence[int], deadline: float) -> None:
        """Wait until others have published this step: MismatchError if one published another."""
        self._wait(self._step, ranks, deadline)
        self._win.Sync()
        self._compare(ranks)

    def _compare(self, ranks: Sequence[int]) -> None:
        """Raise a MismatchError if one of them published another signature in this step."""
        at = 1 + (self._step & 1)
        for rank in ranks:
            if self._flags[rank * WORDS + at] != self._said and self._said is not None:
                differ(self.rank, self._said, rank, self._flags[rank * WORDS + at])
