"""What a group's collectives ask of the path that its data takes: one contract, two keepers.

:class:`~helpers.torch_mpi.window.Window` goes through memory that the ranks of one host share,
:class:`~helpers.torch_mpi.network.Network` through MPI. :mod:`helpers.torch_mpi.collectives` brings
torch's tensors, of any shape and stride, into the form that this contract names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

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
    one-dimensional and of stride 1; *bytes* means dtype ``uint8``. Results are written in place.
    An operation returns when this rank's part is done: its inputs may change, its outputs are
    complete. N is the number of ranks.

    Attributes
    ----------
    kind
        ``"window"`` or ``"network"``.
    rank, size
        This rank's number in the group, and N.
    call
        The name of the collective under way, for whoever watches this rank wait.
    dtype
        Of the caller's tensors, where it has some.
    patient
        Whether this process computes meanwhile: then waiting means sleeping.

    Notes
    -----
    Every operation takes a ``deadline`` in seconds on ``time.monotonic``'s clock, and raises

    - ``TimeoutError`` when the other ranks have not arrived by then,
    - ``ClosedError`` (:mod:`helpers.waiting`) when the group was closed meanwhile,
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

    def __init_subclass__(cls, **options: Any) -> None:
        """Give the methods of an implementation the words that stand here."""
        super().__init_subclass__(**options)
        for name, method in vars(cls).items():
            if callable(method) and method.__doc__ is None:
                method.__doc__ = getattr(getattr(Transport, name, None), "__doc__", None)

    def close(self) -> None:
        """Leave: this rank's waiting raises ``ClosedError``, the others' ``DepartedError``."""

    def departed(self) -> list[int]:
        """Return the ranks that are known to have left."""

    def barrier(self, deadline: float) -> None:
        """Return once every rank has called this.

        Parameters
        ----------
        deadline
            When to give up, in seconds on ``time.monotonic``'s clock.
        """

    def all_reduce(self, flat: torch.Tensor, op: Reduction, deadline: float) -> None:
        """Replace every rank's numbers by their reduction over ranks, the same bits on each.

        Parameters
        ----------
        flat
            (n,), of ``op``'s dtype; the same n on every rank.
        op
            What to do with N numbers.
        deadline
            When to give up, in seconds on ``time.monotonic``'s clock.
        """

    def reduce(self, flat: torch.Tensor, op: Reduction, root: int, deadline: float) -> None:
        """Replace the root's numbers by the reduction over ranks; the others' stay as they are.

        Parameters
        ----------
        flat
            (n,), of ``op``'s dtype; the same n on every rank.
        op
            What to do with N numbers.
        root
            The rank that gets the result.
        deadline
            When to give up, in seconds on ``time.monotonic``'s clock.
        """

    def broadcast(self, data: torch.Tensor, root: int, deadline: float) -> None:
        """Replace every rank's bytes by the root's.

        Parameters
        ----------
        data
            (n,) bytes; the same n on every rank.
        root
            The rank whose bytes all get.
        deadline
            When to give up, in seconds on ``time.monotonic``'s clock.
        """

    def all_gather(
        self, outputs: Sequence[torch.Tensor], data: torch.Tensor, deadline: float
    ) -> None:
        """Give every rank what each rank brings.

        Parameters
        ----------
        outputs
            N tensors of bytes: ``outputs[r]`` becomes rank r's ``data``; lengths may differ
            between r, and agree between ranks.
        data
            (n,) bytes, as long as ``outputs[rank]``.
        deadline
            When to give up, in seconds on ``time.monotonic``'s clock.
        """

    def gather(
        self, outputs: Sequence[torch.Tensor], data: torch.Tensor, root: int, deadline: float
    ) -> None:
        """Give the root what each rank brings.

        Parameters
        ----------
        outputs
            On the root N tensors of (n,) bytes: ``outputs[r]`` becomes rank r's ``data``.
            Elsewhere empty.
        data
            (n,) bytes; the same n on every rank.
        root
            The rank that gets them.
        deadline
            When to give up, in seconds on ``time.monotonic``'s clock.
        """

    def scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], root: int, deadline: float
    ) -> None:
        """Give each rank its part of what the root brings.

        Parameters
        ----------
        output
            (n,) bytes that become the root's ``inputs[rank]``.
        inputs
            On the root N tensors of (n,) bytes. Elsewhere empty.
        root
            The rank that brings them.
        deadline
            When to give up, in seconds on ``time.monotonic``'s clock.
        """

    def reduce_scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], op: Reduction, deadline: float
    ) -> None:
        """Give each rank the reduction over ranks of what they bring for it.

        Parameters
        ----------
        output
            (n,), of ``op``'s dtype: becomes the reduction of all ranks' ``inputs[rank]``.
        inputs
            N tensors: ``inputs[r]`` is what rank r is to get a share of, as long as r's output.
        op
            What to do with N numbers.
        deadline
            When to give up, in seconds on ``time.monotonic``'s clock.
        """

    def all_to_all(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], deadline: float
    ) -> None:
        """Give each rank what every rank brings for it.

        Parameters
        ----------
        outputs
            N tensors of bytes: ``outputs[r]`` becomes rank r's ``inputs[rank]``; all lengths may
            differ.
        inputs
            N tensors of bytes: ``inputs[r]`` goes to rank r.
        deadline
            When to give up, in seconds on ``time.monotonic``'s clock.
        """


def lengths_of(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return (2N,): how many bytes a rank sends to each, and how many it expects from each."""
    return torch.tensor([len(part) for part in (*inputs, *outputs)])


def check_lengths(table: torch.Tensor) -> None:
    """Raise a MismatchError on every rank unless each gets what it expects.

    Parameters
    ----------
    table
        (N, 2N): what :func:`lengths_of` says on each rank.
    """
    sent, expected = table.chunk(2, dim=1)
    for source, target in (sent != expected.T).nonzero().tolist()[:1]:
        raise MismatchError(
            f"rank {source} sends {sent[source, target]} bytes to rank {target}, which expects "
            f"{expected[target, source]} from it"
        )
