"""What a group's collectives ask of the path that its data takes: one contract, two keepers.

:class:`~helpers.torch_mpi.window.Window` goes through memory that the ranks of one host share,
:class:`~helpers.torch_mpi.network.Network` through MPI. :mod:`helpers.torch_mpi.collectives` brings
torch's tensors, of any shape and stride, into the form that this contract names. Each call has a
signature, a number by which ranks see whether all made the same call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

import torch

from helpers.torch_mpi.reductions import COMBINE, Reduction

BACKEND = "mpi4py"  # what torch calls it
PATHS = ("auto", "window", "network")
CLOSED = "what this operation waited for was given up meanwhile"
NAMES = ["barrier", "all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter"]
NAMES += ["reduce_scatter", "all_to_all"]
ROOTED = ("reduce", "broadcast", "gather", "scatter")
OPS = ["", *COMBINE]
TYPES = [None, *sorted({t for t in vars(torch).values() if isinstance(t, torch.dtype)}, key=str)]
_CODES: dict[tuple, int] = {}


@dataclass(frozen=True)
class Options:
    """What ``init_process_group(..., pg_options=Options(...))`` and ``new_group`` accept.

    ``path`` is the way of the collectives: ``"window"`` (memory shared by the ranks of one host),
    ``"network"`` (MPI's own collectives), or ``"auto"``: the window if all ranks share a host with
    enough shared memory. ValueError for another.
    """

    path: str = "auto"

    def __post_init__(self) -> None:
        if self.path not in PATHS:
            raise ValueError(f"path expects one of {', '.join(PATHS)}; got {self.path!r}")


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


def sign(
    name: str,
    nbytes: int,
    dtype: torch.dtype | None = None,
    op: str = "",
    parts: Sequence[torch.Tensor] = (),
    root: int = 0,
) -> int:
    """Return the number that stands for one call.

    Bits: 4 for the name, 6 the type, 4 the operation, 10 unequal ``parts`` or root, 40 the bytes.
    """
    key = name, dtype, op
    if key not in _CODES:
        place = NAMES.index(name) + 1, TYPES.index(dtype), OPS.index(op)
        _CODES[key] = place[0] << 60 | place[1] << 54 | place[2] << 50
    lengths = [len(part) for part in parts]
    unequal = 1 + crc32(repr(lengths).encode()) % 1023 if len(set(lengths)) > 1 else root % 1024
    return _CODES[key] | unequal << 40 | nbytes % (1 << 40)


def differ(rank: int, signature: int, other: int, theirs: int) -> None:
    """Raise a MismatchError about two ranks' signatures."""
    raise MismatchError(
        f"rank {rank} called {_spell(signature)} while rank {other} called {_spell(theirs)}"
    )


def _spell(signature: int) -> str:
    if not signature >> 60:
        return "something else"
    name = NAMES[(signature >> 60) - 1]
    dtype, op, more = TYPES[signature >> 54 & 63], OPS[signature >> 50 & 15], signature >> 40 & 1023
    said = f"{name} of {signature % (1 << 40)} bytes"
    said += f" of {dtype}" if dtype else ""
    said += f" with {op}" if op else ""
    if name in ROOTED:
        return f"{said}, root {more}"
    return said + (f" in unequal parts (checksum {more})" if more else "")
