"""Collectives between ranks on one host, through a window of memory that they share.

Each rank owns two slots of the window and one flag. An operation is a row of numbered *steps*: in
step k a rank writes to its slot k mod 2, raises its flag to k, waits for the flags it depends on,
and reads the others' slots. A flag at k says that its rank has finished reading step k − 1, so
slot k mod 2, last used in step k − 2, is free once every flag is at k − 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mpi4py import MPI

from .reductions import Reduction
from .waiting import until

LINE = 64  # bytes: one cache line for each rank's flag, so that polling does not slow the others
WORDS = LINE // 8
SEGMENT = 1 << 20  # bytes in a slot: two slots for each rank stay near the cores' caches
SMALL = 16 << 10  # bytes below which every rank adds up everything itself: one step, not two


class MismatchError(RuntimeError):
    """The ranks of a group called different collectives, or with different sizes."""


class Window:
    """The shared-memory transport of one group; ``comm`` must span a single host."""

    kind = "window"

    def __init__(self, comm: MPI.Intracomm, token: str):
        self.token = token
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        header = LINE * self.size
        total = header + 2 * SEGMENT * self.size
        self._win = MPI.Win.Allocate_shared(total if self.rank == 0 else 0, 1, comm=comm)
        memory = memoryview(self._win.Shared_query(0)[0]).cast("B")
        if self.rank == 0:
            memory[:header] = bytes(header)
        self._win.Lock_all(MPI.MODE_NOCHECK)  # Win.Sync is a memory fence, but only in an epoch
        self._flags = memory[:header].cast("Q")
        data = torch.frombuffer(memory, dtype=torch.uint8, offset=header)
        slots = data.view(2, self.size, SEGMENT)
        self._slots = [[slots[parity, rank] for rank in range(self.size)] for parity in range(2)]
        self._others = [rank for rank in range(self.size) if rank != self.rank]
        self._all = range(self.size)
        self._step = 0
        self._closed = False
        comm.Barrier()
        self._win.Sync()

    def join(self, comm: MPI.Intracomm) -> None:
        """Start serving ``comm``: all ranks resume from one step number (collective)."""
        self._comm = comm
        self._closed = False
        self._step = comm.allreduce(self._flags[self.rank * WORDS], MPI.MAX)
        self._flags[self.rank * WORDS] = self._step
        comm.Barrier()

    def close(self) -> None:
        """End this rank's waiting. The memory stays for a later group of the same ranks."""
        self._closed = True

    def _wait(self, step: int, ranks: Sequence[int], deadline: float) -> None:
        flags = self._flags
        for rank in ranks:
            line = rank * WORDS
            if flags[line] < step:
                until(
                    lambda line=line: flags[line] >= step,
                    deadline,
                    lambda: TimeoutError(
                        "rank(s) "
                        + ", ".join(str(r) for r in self._all if flags[r * WORDS] < step)
                        + " of this group did not arrive in time"
                    ),
                    progress=self._comm.Iprobe,
                    closed=lambda: self._closed,
                )

    def _open(self, deadline: float) -> list[torch.Tensor]:
        """Begin a step: wait until this rank's slot is free; return every rank's slot."""
        self._wait(self._step, self._others, deadline)
        self._step += 1
        return self._slots[self._step & 1]

    def _publish(self, signature: int = 0) -> None:
        """Show what was written in this step, with a number that must agree between ranks."""
        line = self.rank * WORDS
        self._flags[line + 1 + (self._step & 1)] = signature
        self._win.Sync()
        self._flags[line] = self._step

    def _collect(self, ranks: Sequence[int], deadline: float, signature: int = 0) -> None:
        """Wait until ``ranks`` have published this step."""
        self._wait(self._step, ranks, deadline)
        self._win.Sync()
        for rank in ranks:
            theirs = self._flags[rank * WORDS + 1 + (self._step & 1)]
            if theirs != signature:
                raise MismatchError(
                    f"rank {self.rank} called {_spell(signature)} while rank {rank} "
                    f"called {_spell(theirs)}"
                )

    def barrier(self, deadline: float) -> None:
        self._open(deadline)
        self._publish(_sign("barrier", 0))
        self._collect(self._others, deadline, _sign("barrier", 0))

    def all_reduce(self, flat: torch.Tensor, op: Reduction, deadline: float) -> None:
        """``flat`` (n,) becomes the reduction over ranks, bit for bit the same on every rank."""
        nbytes = flat.numel() * flat.element_size()
        signature = _sign("all_reduce", nbytes)
        op.before(flat)
        if nbytes <= SMALL:
            slots = [slot[:nbytes].view(flat.dtype) for slot in self._open(deadline)]
            slots[self.rank].copy_(flat)
            self._publish(signature)
            self._collect(self._others, deadline, signature)
            flat.copy_(slots[0])
            for slot in slots[1:]:
                op.into(flat, slot)
            op.after(flat, self.size)
            return
        for piece in _pieces(flat, SEGMENT):
            self._reduce_piece(piece, op, deadline, signature)
            slots = [slot[: piece.nbytes].view(flat.dtype) for slot in self._open(deadline)]
            begin, end = _share(len(piece), self.rank, self.size)
            slots[self.rank][begin:end].copy_(piece[begin:end])
            self._publish(signature)
            for rank in _from(self.rank, self.size):
                self._collect((rank,), deadline, signature)
                begin, end = _share(len(piece), rank, self.size)
                piece[begin:end].copy_(slots[rank][begin:end])

    def _reduce_piece(self, piece, op: Reduction, deadline: float, signature: int) -> None:
        """Reduce-scatter: each rank adds up its share of ``piece``, in place."""
        slots = [slot[: piece.nbytes].view(piece.dtype) for slot in self._open(deadline)]
        begin, end = _share(len(piece), self.rank, self.size)
        slots[self.rank][:begin].copy_(piece[:begin])
        slots[self.rank][end:].copy_(piece[end:])
        self._publish(signature)
        for rank in _from(self.rank, self.size):
            self._collect((rank,), deadline, signature)
            op.into(piece[begin:end], slots[rank][begin:end])
        op.after(piece[begin:end], self.size)

    def reduce(self, flat: torch.Tensor, op: Reduction, root: int, deadline: float) -> None:
        """The root's ``flat`` (n,) becomes the reduction; the other ranks' stay as they are."""
        signature = _sign("reduce", flat.nbytes)
        for piece in _pieces(flat, SEGMENT):
            slots = [slot[: piece.nbytes].view(flat.dtype) for slot in self._open(deadline)]
            slots[self.rank].copy_(piece)
            op.before(slots[self.rank])
            self._publish(signature)
            if self.rank == root:
                self._collect(self._others, deadline, signature)
                piece.copy_(slots[0])
                for slot in slots[1:]:
                    op.into(piece, slot)
                op.after(piece, self.size)

    def broadcast(self, data: torch.Tensor, root: int, deadline: float) -> None:
        """Every rank's ``data`` (bytes) becomes the root's."""
        signature = _sign("broadcast", data.numel())
        for piece in _pieces(data, SEGMENT):
            slot = self._open(deadline)[root]
            if self.rank == root:
                slot[: len(piece)].copy_(piece)
            self._publish(signature)
            if self.rank != root:
                self._collect((root,), deadline, signature)
                piece.copy_(slot[: len(piece)])

    def all_gather(self, outputs: list[torch.Tensor], data: torch.Tensor, deadline: float) -> None:
        """``outputs[r]`` (bytes) becomes rank r's ``data``; lengths may differ between ranks."""
        self._spread("all_gather", outputs, data, list(self._all), deadline)

    def gather(self, outputs, data: torch.Tensor, root: int, deadline: float) -> None:
        """On the root, ``outputs[r]`` (bytes, all of one length) becomes rank r's ``data``."""
        if self.rank == root:
            self._spread("gather", outputs, data, self._others, deadline)
            outputs[root].copy_(data)
        else:
            self._spread("gather", [data] * self.size, data, [], deadline)

    def _spread(self, name, outputs, data, readers: list[int], deadline: float) -> None:
        longest = max(len(output) for output in outputs)
        signature = _sign(name, sum(len(output) for output in outputs))
        for begin in range(0, longest, SEGMENT):
            slots = self._open(deadline)
            piece = data[begin : begin + SEGMENT]
            slots[self.rank][: len(piece)].copy_(piece)
            self._publish(signature)
            for rank in readers:
                self._collect((rank,), deadline, signature)
                piece = outputs[rank][begin : begin + SEGMENT]
                piece.copy_(slots[rank][: len(piece)])

    def scatter(self, output: torch.Tensor, inputs, root: int, deadline: float) -> None:
        """``output`` (bytes) becomes ``inputs[rank]`` of the root."""
        signature = _sign("scatter", len(output))
        per = SEGMENT // self.size
        for begin in range(0, len(output), per):
            slot = self._open(deadline)[root]
            if self.rank == root:
                for rank in self._all:
                    piece = inputs[rank][begin : begin + per]
                    slot[rank * per : rank * per + len(piece)].copy_(piece)
            self._publish(signature)
            if self.rank != root:
                self._collect((root,), deadline, signature)
            piece = output[begin : begin + per]
            piece.copy_(slot[self.rank * per : self.rank * per + len(piece)])

    def reduce_scatter(self, output, inputs, op: Reduction, deadline: float) -> None:
        """``output`` (n,) becomes the reduction over ranks of their ``inputs[rank]``."""
        size = output.element_size()
        signature = _sign("reduce_scatter", sum(part.nbytes for part in inputs))
        per = SEGMENT // self.size // size
        for begin in range(0, max(len(part) for part in inputs), per):
            slots = [slot.view(output.dtype) for slot in self._open(deadline)]
            for rank in self._all:
                piece = inputs[rank][begin : begin + per]
                view = slots[self.rank][rank * per : rank * per + len(piece)]
                view.copy_(piece)
                op.before(view)
            self._publish(signature)
            self._collect(self._others, deadline, signature)
            piece = output[begin : begin + per]
            mine = [slot[self.rank * per : self.rank * per + len(piece)] for slot in slots]
            piece.copy_(mine[0])
            for other in mine[1:]:
                op.into(piece, other)
            op.after(piece, self.size)

    def all_to_all(self, outputs, inputs, deadline: float) -> None:
        """``outputs[r]`` (bytes) becomes rank r's ``inputs[rank]``; all lengths may differ."""
        per = SEGMENT // self.size
        longest = torch.tensor([max(len(part) for part in (*inputs, *outputs))])
        self.all_reduce(longest, Reduction("MAX", None, torch.int64), deadline)
        signature = _sign("all_to_all", 0)
        for begin in range(0, int(longest), per):
            slots = self._open(deadline)
            for rank in self._all:
                piece = inputs[rank][begin : begin + per]
                slots[self.rank][rank * per : rank * per + len(piece)].copy_(piece)
            self._publish(signature)
            for rank in self._all:
                self._collect((rank,), deadline, signature)
                piece = outputs[rank][begin : begin + per]
                piece.copy_(slots[rank][self.rank * per : self.rank * per + len(piece)])


_NAMES = ("barrier", "all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter")
_NAMES += ("reduce_scatter", "all_to_all")


def _sign(name: str, nbytes: int) -> int:
    return (_NAMES.index(name) + 1) << 56 | nbytes


def _spell(signature: int) -> str:
    name = _NAMES[(signature >> 56) - 1] if signature >> 56 else "something else"
    return f"{name} of {signature & (1 << 56) - 1} bytes"


def _pieces(flat: torch.Tensor, nbytes: int) -> Sequence[torch.Tensor]:
    return flat.split(nbytes // flat.element_size()) if len(flat) else ()


def _share(length: int, rank: int, size: int) -> tuple[int, int]:
    return length * rank // size, length * (rank + 1) // size


def _from(rank: int, size: int) -> list[int]:
    """The other ranks, each rank beginning with its neighbour so that they do not all meet."""
    return [(rank + shift) % size for shift in range(1, size)]
