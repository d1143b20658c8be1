"""Collectives through MPI itself: between hosts, or wherever memory cannot be shared.

MPI's blocking collectives have no time limit, and compare nothing. Before each one here all ranks
show each other their signatures, in an allgather that can be polled: once everyone has arrived with
the same call, the blocking call is certain to end. What each operation takes and raises is in
:class:`~helpers.torch_mpi.transport.Transport`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from mpi4py import MPI

from helpers.machine.waiting import YIELD_FOR, ClosedError, Yielding, until
from helpers.torch_mpi.handles import Announced
from helpers.torch_mpi.reductions import WIDER, Reduction
from helpers.torch_mpi.transport import (
    CLOSED,
    DepartedError,
    Transport,
    check_lengths,
    differ,
    lengths_of,
    sign,
)
from helpers.torch_mpi.two_level import TwoLevel, hosts_of, memory

_TYPES = {
    torch.float32: MPI.FLOAT,
    torch.float64: MPI.DOUBLE,
    torch.int8: MPI.INT8_T,
    torch.int16: MPI.INT16_T,
    torch.int32: MPI.INT32_T,
    torch.int64: MPI.INT64_T,
    torch.uint8: MPI.UINT8_T,
    torch.uint16: MPI.UINT16_T,
    torch.uint32: MPI.UINT32_T,
    torch.uint64: MPI.UINT64_T,
    torch.bool: MPI.C_BOOL,
    torch.complex64: MPI.C_FLOAT_COMPLEX,
    torch.complex128: MPI.C_DOUBLE_COMPLEX,
}
_OPS = {"SUM": MPI.SUM, "AVG": MPI.SUM, "PREMUL_SUM": MPI.SUM, "PRODUCT": MPI.PROD}
_OPS |= {"MIN": MPI.MIN, "MAX": MPI.MAX, "BAND": MPI.BAND, "BOR": MPI.BOR, "BXOR": MPI.BXOR}
_BOOLEAN = {"SUM": MPI.LOR, "MAX": MPI.LOR, "BOR": MPI.LOR, "PRODUCT": MPI.LAND}
_BOOLEAN |= {"MIN": MPI.LAND, "BAND": MPI.LAND, "BXOR": MPI.LXOR}
# Between hosts these travel as they are, and we add them up; elsewhere MPI does, in 32 bits.
_HALVES = torch.float16, torch.bfloat16
GRACE = 1.0  # seconds in which a rank's last messages arrive once it has said that it leaves
ONE_LEVEL = 2 << 10  # bytes: between hosts, below, fewer messages count for more


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    """Return what MPI can add up: the tensor itself, or its numbers with more bits."""
    return tensor.to(WIDER.get(tensor.dtype, tensor.dtype))


class Network(Transport):
    """The transport that calls MPI."""

    kind = "network"

    def __init__(self, comm: MPI.Intracomm):
        self._comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._closed = False
        self._yielding = Yielding()
        self.call, self.dtype, self.patient = "", None, False
        self._abandoned: list = []  # what MPI may still write to after a time-out
        self._goodbyes = comm.Dup()  # never freed: a late word would reach the next of its number
        self._hosts = hosts_of(comm)
        self._rings = comm.Dup() if len(self._hosts.members) > 1 else None  # freed as little
        self._gone: dict[int, float] = {}  # rank → when its word came, on the clock of deadlines

    def close(self) -> None:
        if not self._closed:
            self._abandoned += [
                (self._goodbyes.Isend([None, MPI.BYTE], rank), None)
                for rank in range(self.size)
                if rank != self.rank
            ]
        self._closed = True

    def departed(self) -> list[int]:
        status = MPI.Status()
        while self._goodbyes.Iprobe(status=status):
            self._goodbyes.Recv([None, MPI.BYTE], status.source)
            self._gone[status.source] = time.monotonic()
        return sorted(self._gone)

    def _no_use(self) -> str:
        """Say or raise why waiting is in vain; a rank's last messages get time to arrive."""
        if self._closed:
            return CLOSED
        late = time.monotonic() - GRACE
        for rank in self.departed():
            if self._gone[rank] < late:
                raise DepartedError(f"rank {rank} of this group has left it")
        return ""

    def barrier(self, deadline: float) -> None:
        self._agree(sign("barrier", 0), deadline)

    def _agree(self, signature: int, deadline: float) -> None:
        """Return once every rank has arrived, if all bring the same signature."""
        said = np.full(self.size, signature, np.uint64)
        request = self._comm.Iallgather(MPI.IN_PLACE, said)
        self._finish(request.Test, said, deadline)
        for rank, theirs in enumerate(said.tolist()):
            if theirs != signature:
                differ(self.rank, signature, rank, theirs)

    def _finish(
        self, test: Callable[[], object], buffer: torch.Tensor | np.ndarray, deadline: float
    ) -> None:
        try:
            until(
                test,
                deadline,
                lambda: TimeoutError("not every rank of this group arrived in time"),
                lambda: Announced(self._comm, self.call),
                closed=self._no_use,
                yield_for=0.0 if self.patient else YIELD_FOR,
                yielding=self._yielding,
            )
        except (TimeoutError, ClosedError, DepartedError):
            self._abandoned.append((test, buffer))
            raise

    def _typed(self, tensor: torch.Tensor) -> list:
        return [memory(tensor), _TYPES[tensor.dtype]]

    def _mpi_op(self, op: Reduction) -> MPI.Op:
        return _BOOLEAN[op.name] if op.dtype is torch.bool else _OPS[op.name]

    def all_reduce(self, flat: torch.Tensor, op: Reduction, deadline: float) -> None:
        tensor = flat if self._as_halves(flat) else _widened(flat)
        op.before(tensor)
        self._agree(sign("all_reduce", flat.nbytes, op.dtype, op.name), deadline)
        if self._rings is not None and flat.nbytes > ONE_LEVEL:
            under_way = TwoLevel(self._rings, self._hosts, tensor, op)
            self._finish(under_way.test, tensor, deadline)
        else:
            self._comm.Allreduce(MPI.IN_PLACE, self._typed(tensor), self._mpi_op(op))
            op.after(tensor, self.size)
        if tensor is not flat:
            flat.copy_(tensor)

    def _as_halves(self, tensor: torch.Tensor) -> bool:
        """Whether these are 16-bit floats that travel as such: not within a host, nor a few."""
        return tensor.dtype in _HALVES and self._rings is not None and tensor.nbytes > ONE_LEVEL

    def _added(self, joined: torch.Tensor, counts: Sequence[int], op: Reduction) -> torch.Tensor:
        """Exchange halves as they are, and add up this rank's part of what each rank brings."""
        size, own = joined.element_size(), counts[self.rank]
        into = torch.empty(self.size, own, dtype=joined.dtype)
        self._comm.Alltoallv(
            [memory(joined), [size * count for count in counts], None, MPI.BYTE],
            [memory(into), [size * own] * self.size, None, MPI.BYTE],
        )
        parts = _widened(into).unbind()
        op.fold(parts, parts[0])
        op.after(parts[0], self.size)
        return parts[0].to(joined.dtype)

    def reduce(self, flat: torch.Tensor, op: Reduction, root: int, deadline: float) -> None:
        self._agree(sign("reduce", flat.nbytes, op.dtype, op.name, root=root), deadline)
        halves = self._as_halves(flat)
        brought = flat.clone() if halves else flat.to(WIDER.get(flat.dtype, flat.dtype), copy=True)
        op.before(brought)
        if halves:
            counts = [len(part) for part in brought.tensor_split(self.size)]
            part = self._added(brought, counts, op)
            whole = [flat.element_size() * count for count in counts]
            into = [memory(flat), whole, None, MPI.BYTE] if self.rank == root else None
            self._comm.Gatherv([memory(part), MPI.BYTE], into, root)
        elif self.rank == root:
            self._comm.Reduce(MPI.IN_PLACE, self._typed(brought), self._mpi_op(op), root)
            op.after(brought, self.size)
            flat.copy_(brought)
        else:
            self._comm.Reduce(self._typed(brought), None, self._mpi_op(op), root)

    def broadcast(self, data: torch.Tensor, root: int, deadline: float) -> None:
        self._agree(sign("broadcast", len(data), self.dtype, root=root), deadline)
        self._comm.Bcast([memory(data), MPI.BYTE], root)

    def all_gather(
        self, outputs: Sequence[torch.Tensor], data: torch.Tensor, deadline: float
    ) -> None:
        whole = sum(map(len, outputs))
        self._agree(sign("all_gather", whole, self.dtype, parts=outputs), deadline)
        counts = [len(output) for output in outputs]
        joined = torch.empty(sum(counts), dtype=torch.uint8)
        self._comm.Allgatherv([memory(data), MPI.BYTE], [memory(joined), counts, None, MPI.BYTE])
        _deal(joined, outputs)

    def gather(
        self, outputs: Sequence[torch.Tensor], data: torch.Tensor, root: int, deadline: float
    ) -> None:
        self._agree(sign("gather", len(data) * self.size, self.dtype, root=root), deadline)
        if self.rank == root:
            counts = [len(output) for output in outputs]
            joined = torch.empty(sum(counts), dtype=torch.uint8)
            into = [memory(joined), counts, None, MPI.BYTE]
            self._comm.Gatherv([memory(data), MPI.BYTE], into, root)
            _deal(joined, outputs)
        else:
            self._comm.Gatherv([memory(data), MPI.BYTE], None, root)

    def scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], root: int, deadline: float
    ) -> None:
        self._agree(sign("scatter", len(output), self.dtype, root=root), deadline)
        brought = None
        if self.rank == root:
            joined = torch.cat(tuple(inputs))
            brought = [memory(joined), [len(part) for part in inputs], None, MPI.BYTE]
        self._comm.Scatterv(brought, [memory(output), MPI.BYTE], root)

    def reduce_scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], op: Reduction, deadline: float
    ) -> None:
        whole = sum(part.nbytes for part in inputs)
        self._agree(sign("reduce_scatter", whole, op.dtype, op.name, inputs), deadline)
        joined = torch.cat(tuple(inputs))
        counts = [len(part) for part in inputs]
        if self._as_halves(joined):
            op.before(joined)
            output.copy_(self._added(joined, counts, op))
            return
        joined = _widened(joined)
        op.before(joined)
        into = torch.empty(len(output), dtype=joined.dtype)
        self._comm.Reduce_scatter(self._typed(joined), self._typed(into), counts, self._mpi_op(op))
        op.after(into, self.size)
        output.copy_(into)

    def all_to_all(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], deadline: float
    ) -> None:
        mine = lengths_of(inputs, outputs)
        table = torch.empty(self.size, len(mine), dtype=mine.dtype)
        self._agree(sign("all_to_all", 0, self.dtype), deadline)
        self._comm.Allgather(self._typed(mine), self._typed(table))
        check_lengths(table)
        joined = torch.cat(tuple(inputs))
        counts = [len(output) for output in outputs]
        into = torch.empty(sum(counts), dtype=torch.uint8)
        self._comm.Alltoallv(
            [memory(joined), [len(part) for part in inputs], None, MPI.BYTE],
            [memory(into), counts, None, MPI.BYTE],
        )
        _deal(into, outputs)


def _deal(joined: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
    """Cut what has come from all ranks into each one's."""
    for output, part in zip(outputs, joined.split(list(map(len, outputs))), strict=True):
        output.copy_(part)
