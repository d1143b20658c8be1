"""Collectives between ranks on one host, through a window of memory that they share.

How the ranks keep out of one another's way is in :mod:`helpers.torch_mpi.shared_memory`; what each
operation takes and raises, in :class:`~helpers.torch_mpi.transport.Transport`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from helpers.torch_mpi.reductions import Reduction
from helpers.torch_mpi.shared_memory import SharedMemory
from helpers.torch_mpi.transport import Transport, check_lengths, lengths_of, sign

SMALL = 64 << 10  # bytes up to which every rank adds up everything itself: one step, not two. Two
# ranks always do: for them that moves no more than each adding up a half and showing it.


class Window(SharedMemory, Transport):
    """The transport through memory shared by the ranks of one host (collective).

    ``token`` is a name that no other window has, the same on every rank.
    """

    kind = "window"

    @property
    def piece(self) -> int:
        """Bytes of a long message that are under way at a time; the rest of a slot holds sums."""
        return self.segment // 2

    def barrier(self, deadline: float) -> None:
        self.open(deadline)
        self.publish(sign("barrier", 0))
        self.collect(self._others, deadline)

    def all_reduce(self, flat: torch.Tensor, op: Reduction, deadline: float) -> None:
        op.before(flat)
        signature = sign("all_reduce", flat.nbytes, op.dtype, op.name)
        if flat.nbytes > SMALL and self.size > 2:
            self._stream(flat, op, deadline, signature)
            return
        for piece in (
            (flat,) if flat.nbytes <= self.piece else flat.split(self.piece // flat.itemsize)
        ):
            slots = self.views(piece.numel(), flat.dtype)[self.open(deadline)]
            slots[self.rank].copy_(piece)
            self.publish(signature)
            self.collect(self._others, deadline)
            if self.rank < 2:  # its own part is read before the sums overwrite it, and is nearer
                slots = [*slots[: self.rank], piece, *slots[self.rank + 1 :]]
            op.fold(slots, piece)
        op.after(flat, self.size)

    def _stream(self, flat: torch.Tensor, op: Reduction, deadline: float, signature: int) -> None:
        """Piece by piece: in one step ranks show piece k, and their sums of shares of piece k − 1.

        Each rank adds up its own share of every piece (reduce-scatter) and all read the sums
        (all-gather): two waits for a piece, but those of neighbouring pieces are the same.
        """
        # One turn of this loop is one step: in turn t, of K pieces P of p elements each (the last
        # may be shorter), a rank reads the sums of piece t - 2, adds up its share of piece t - 1,
        # and shows piece t. A slot holds a piece, then a share's sums:
        #     slot[:p]                 piece t as this rank brought it; its own share stays out
        #     slot[first:first + p/N]  the sums of this rank's share of piece t - 1
        pieces = flat.split(self.piece // flat.element_size())  # K × (p,)
        views = self.views(self.segment // flat.element_size(), flat.dtype)  # [parity][rank]
        first = self.piece // flat.element_size()  # where the sums begin in a slot
        slots = views[0]  # [rank] → (SEGMENT / itemsize,): of this turn; `before`: of the last
        for turn in range(len(pieces) + 2):
            if turn:
                self.collect(self._others, deadline)
            before, slots = slots, views[self.open(deadline) if turn <= len(pieces) else 0]
            if turn >= 2:
                piece = pieces[turn - 2]
                for rank in self._all:
                    begin, end = _share(len(piece), rank, self.size)
                    piece[begin:end].copy_(before[rank][first : first + end - begin])
            if 1 <= turn <= len(pieces):
                piece = pieces[turn - 1]
                begin, end = _share(len(piece), self.rank, self.size)
                total = slots[self.rank][first : first + end - begin]  # (end - begin,)
                mine = piece[begin:end]
                for rank in _from(self.rank, self.size):
                    op.combine(mine, before[rank][begin:end], total)
                    mine = total
                op.after(total, self.size)
            if turn < len(pieces):
                piece = pieces[turn]
                begin, end = _share(len(piece), self.rank, self.size)
                slots[self.rank][:begin].copy_(piece[:begin])
                slots[self.rank][end : len(piece)].copy_(piece[end:])
            if turn <= len(pieces):
                self.publish(signature)

    def reduce(self, flat: torch.Tensor, op: Reduction, root: int, deadline: float) -> None:
        signature = sign("reduce", flat.nbytes, op.dtype, op.name, root=root)
        for piece in _pieces(flat, self.segment):
            slots = self.views(len(piece), flat.dtype)[self.open(deadline)]
            slots[self.rank].copy_(piece)
            op.before(slots[self.rank])
            self.publish(signature)
            if self.rank == root:
                self.collect(self._others, deadline)
                op.fold(slots, piece)
                op.after(piece, self.size)

    def broadcast(self, data: torch.Tensor, root: int, deadline: float) -> None:
        signature = sign("broadcast", data.numel(), self.dtype, root=root)
        for piece in _pieces(data, self.segment):
            slot = self._slots[self.open(deadline)][root]
            if self.rank == root:
                slot[: len(piece)].copy_(piece)
            self.publish(signature)
            if self.rank != root:
                self.collect((root,), deadline)
                piece.copy_(slot[: len(piece)])

    def all_gather(
        self, outputs: Sequence[torch.Tensor], data: torch.Tensor, deadline: float
    ) -> None:
        self._spread("all_gather", outputs, data, list(self._all), deadline)

    def gather(
        self, outputs: Sequence[torch.Tensor], data: torch.Tensor, root: int, deadline: float
    ) -> None:
        if self.rank == root:
            self._spread("gather", outputs, data, self._others, deadline, root)
            outputs[root].copy_(data)
        else:
            self._spread("gather", [data] * self.size, data, [], deadline, root)

    def _spread(
        self,
        name: str,
        outputs: Sequence[torch.Tensor],
        data: torch.Tensor,
        readers: list[int],
        deadline: float,
        root: int = 0,
    ) -> None:
        longest = max(len(output) for output in outputs)
        signature = sign(name, sum(map(len, outputs)), self.dtype, parts=outputs, root=root)
        for begin in range(0, longest, self.segment):
            slots = self._slots[self.open(deadline)]
            piece = data[begin : begin + self.segment]
            slots[self.rank][: len(piece)].copy_(piece)
            self.publish(signature)
            for rank in readers:
                self.collect((rank,), deadline)
                piece = outputs[rank][begin : begin + self.segment]
                piece.copy_(slots[rank][: len(piece)])

    def scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], root: int, deadline: float
    ) -> None:
        signature = sign("scatter", len(output), self.dtype, root=root)
        self._deal(inputs, {root: output}, len(output), signature, deadline)

    def _deal(
        self,
        inputs: Sequence[torch.Tensor],
        outputs: Mapping[int, torch.Tensor],
        longest: int,
        signature: int,
        deadline: float,
    ) -> None:
        """Show a part for each rank, or nothing, and take this rank's from those named."""
        per = self.segment // self.size
        for begin in range(0, longest, per):
            slots = self._slots[self.open(deadline)]
            for rank, part in enumerate(inputs):
                piece = part[begin : begin + per]
                slots[self.rank][rank * per : rank * per + len(piece)].copy_(piece)
            self.publish(signature)
            for rank, output in outputs.items():
                if rank != self.rank:
                    self.collect((rank,), deadline)
                piece = output[begin : begin + per]
                piece.copy_(slots[rank][self.rank * per : self.rank * per + len(piece)])

    def reduce_scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], op: Reduction, deadline: float
    ) -> None:
        size = output.element_size()
        total = sum(part.nbytes for part in inputs)
        signature = sign("reduce_scatter", total, op.dtype, op.name, inputs)
        per = self.segment // self.size // size
        for begin in range(0, max(len(part) for part in inputs), per):
            slots = self.views(self.segment // size, output.dtype)[self.open(deadline)]
            for rank in self._all:
                piece = inputs[rank][begin : begin + per]
                view = slots[self.rank][rank * per : rank * per + len(piece)]
                view.copy_(piece)
                op.before(view)
            self.publish(signature)
            self.collect(self._others, deadline)
            piece = output[begin : begin + per]
            mine = [slot[self.rank * per : self.rank * per + len(piece)] for slot in slots]
            op.fold(mine, piece)
            op.after(piece, self.size)

    def all_to_all(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], deadline: float
    ) -> None:
        mine = lengths_of(inputs, outputs)
        table = torch.empty(self.size, len(mine), dtype=mine.dtype)
        self.all_gather(list(table.view(torch.uint8)), mine.view(torch.uint8), deadline)
        check_lengths(table)
        signature = sign("all_to_all", 0, self.dtype)
        self._deal(inputs, dict(enumerate(outputs)), int(table.max()), signature, deadline)


def _pieces(flat: torch.Tensor, nbytes: int) -> Sequence[torch.Tensor]:
    return flat.split(nbytes // flat.element_size()) if len(flat) else ()


def _share(length: int, rank: int, size: int) -> tuple[int, int]:
    return length * rank // size, length * (rank + 1) // size


def _from(rank: int, size: int) -> list[int]:
    """The other ranks, each rank beginning with its neighbour so that they do not all meet."""
    return [(rank + shift) % size for shift in range(1, size)]
