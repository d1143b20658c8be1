"""Ranks on a mesh: data × pipeline × tensor, each axis with communicators of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

AXES = ("data", "pipeline", "tensor")


@dataclass(frozen=True)
class Layout:
    """How many ranks share what.

    >>> Layout(data=2, pipeline=2, tensor=2).place(5)
    {'data': 1, 'pipeline': 0, 'tensor': 1}

    Parameters
    ----------
    data
        Replicas, each with its part of the batch.
    pipeline
        Stages, each with some of the layers.
    tensor
        Parts of each matrix.
    shard
        ZeRO's stage among the replicas, 0 to 3.
    """

    data: int = 1
    pipeline: int = 1
    tensor: int = 1
    shard: int = 0

    def __post_init__(self) -> None:
        for axis in AXES:
            length = getattr(self, axis)
            if isinstance(length, bool) or not isinstance(length, int) or length < 1:
                raise ValueError(f"{axis}={length!r}: expected a whole number from 1 up")
        if self.shard not in range(4):
            raise ValueError(f"shard={self.shard!r}: ZeRO has stages 0, 1, 2, 3")

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.data * self.pipeline * self.tensor

    def place(self, rank: int) -> dict[str, int]:
        """Return where a rank stands; neighbours in the tensor axis are neighbours in number."""
        rest, tensor = divmod(rank, self.tensor)
        data, pipeline = divmod(rest, self.pipeline)
        return {"data": data, "pipeline": pipeline, "tensor": tensor}

    def groups(self, axis: str) -> list[list[int]]:
        """Return which ranks differ in one axis alone: "data", "pipeline" or "tensor"."""
        found: dict[tuple, list[int]] = {}
        for rank in range(self.ranks):
            others = {k: v for k, v in self.place(rank).items() if k != axis}
            found.setdefault(tuple(others.values()), []).append(rank)
        return list(found.values())

    def __str__(self) -> str:
        shard = f", ZeRO {self.shard}" if self.shard else ""
        return f"{self.data} × {self.pipeline} × {self.tensor}{shard}"


class Mesh:
    """This rank's place on a mesh, and a communicator along each axis."""

    def __init__(self, comm: Any, layout: Layout):
        if comm.Get_size() != layout.ranks:
            raise ValueError(f"a mesh of {layout} has {layout.ranks} ranks; got {comm.Get_size()}")
        self.comm, self.layout = comm, layout
        self.place = layout.place(comm.Get_rank())
        made = {}
        for axis in AXES:
            key = 0
            for other in AXES:
                if other != axis:
                    key = key * getattr(layout, other) + self.place[other]
            made[axis] = comm.Split(key, self.place[axis])
        self.data, self.pipeline, self.tensor = (made[axis] for axis in AXES)

    def free(self) -> None:
        """Free the communicators. All ranks call it."""
        for axis in AXES:
            getattr(self, axis).Free()
