"""What a group's collectives ask of the path that its data takes: one contract, two keepers.

:class:`~helpers.torch_mpi.window.Window` goes through memory that the ranks of one host share,
:class:`~helpers.torch_mpi.network.Network` through MPI. :mod:`helpers.torch_mpi.collectives` brings
torch's tensors, of any shape and stride, into the form that this contract names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from helpers.torch_mpi.reductions import Reduction

CLOSED = "what this operation waited for was given up meanwhile"


class MismatchError(RuntimeError):
    """The ranks of a group called different collectives, or with different sizes."""


class DepartedError(RuntimeError):
    """A rank that this one waits for has left the group: it ended, or destroyed the group."""


class Transport(Protocol):
    """Moves and adds up what the ranks of one group bring, one collective at a time.

    All ranks call the same operations in the same order. Tensors lie in this machine's memory, are
    one-dimensional and of stride 1; *bytes* means dtype ``uint8``. Results are written in place. An
    operation returns when this rank's part is done: its inputs may change, its outputs are
    complete. N is the number of ranks. A ``patient`` process computes meanwhile: it sleeps where it
    waits.

    Every operation takes a ``deadline`` in seconds on ``time.monotonic``'s clock, and raises

    - ``TimeoutError`` when the other ranks have not arrived by then,
    - ``ClosedError`` (:mod:`helpers.machine.waiting`) when the group was closed meanwhile,
    - ``DepartedError`` when a rank that this one waits for has left the group,
    - ``MismatchError`` when the ranks turn out to have called different things.

    After any of them the ranks are out of step, and the transport must not be used again.
    """

    kind: str
    rank: int
    size: int
    call: str
    dtype: torch.dtype | None
    patient: bool

    def close(self) -> None:
        """Leave: this rank's waiting raises ``ClosedError``, the others' ``DepartedError``."""

    def departed(self) -> list[int]:
        """Return the ranks that are known to have left."""

    def barrier(self, deadline: float) -> None:
        """Return once every rank has called this."""

    def all_reduce(self, flat: torch.Tensor, op: Reduction, deadline: float) -> None:
        """Replace every rank's numbers by their reduction over ranks, the same bits on each."""

    def reduce(self, flat: torch.Tensor, op: Reduction, root: int, deadline: float) -> None:
        """Replace the root's numbers by the reduction over ranks; the others' stay as they are."""

    def broadcast(self, data: torch.Tensor, root: int, deadline: float) -> None:
        """Replace every rank's bytes by the root's."""

    def all_gather(
        self, outputs: Sequence[torch.Tensor], data: torch.Tensor, deadline: float
    ) -> None:
        """Give every rank the bytes that each brings: ``outputs[r]`` becomes rank r's ``data``.

        Lengths may differ between r, and agree between ranks.
        """

    def gather(
        self, outputs: Sequence[torch.Tensor], data: torch.Tensor, root: int, deadline: float
    ) -> None:
        """Give the root what each rank brings; elsewhere ``outputs`` is empty."""

    def scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], root: int, deadline: float
    ) -> None:
        """Give each rank its part of what the root brings; elsewhere ``inputs`` is empty."""

    def reduce_scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], op: Reduction, deadline: float
    ) -> None:
        """Give each rank the reduction of all ranks' ``inputs[rank]``."""

    def all_to_all(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], deadline: float
    ) -> None:
        """Give each rank what every rank brings for it: ``outputs[r]`` becomes r's
        ``inputs[rank]``.

        All lengths may differ.
        """


def lengths_of(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return (2N,): how many bytes a rank sends to each, and how many it expects from each."""
    return torch.tensor([len(part) for part in (*inputs, *outputs)])


def check_lengths(table: torch.Tensor) -> None:
    """Raise a MismatchError on every rank unless each gets what it expects.

    ``table``, (N, 2N), has in each row what :func:`lengths_of` says on a rank.
    """
    sent, expected = table.chunk(2, dim=1)
    for source, target in (sent != expected.T).nonzero().tolist()[:1]:
        raise MismatchError(
            f"rank {source} sends {sent[source, target]} bytes to rank {target}, which expects "
            f"{expected[target, source]} from it"
        )
