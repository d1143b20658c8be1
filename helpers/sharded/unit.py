"""One part of a model, of which each rank keeps a shard: gather, use, free, reduce-scatter.

The part's parameters lie in one buffer, its gradients in another
(:class:`helpers.data_parallel.flat.Flat`). To free a buffer is to give its memory back while every
view of it stays what it is; to gather is to get memory, write the own shard into it, and let the
ring bring the others' (Zhao et al., 2023, *PyTorch FSDP*, section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from helpers.collectives.parts import split
from helpers.data_parallel.flat import Flat
from helpers.sharded.arrays import array_of
from helpers.sharded.messages import Channel, gather_into, reduce_into
from helpers.sharded.zero import STAGES


class Unit:
    """Parameters that are gathered, freed and reduced together, at one of :data:`zero.STAGES`."""

    def __init__(self, name: str, module: nn.Module, channel: Channel, stage: int):
        if stage not in STAGES:
            raise ValueError(f"ZeRO has stages 0, 1, 2, 3; got {stage!r}")
        self.name, self.channel, self.stage = name, channel, stage
        self.flat = Flat(module)
        self.ranks = channel.comm.Get_size()
        every = split(self.flat.values.numel(), self.ranks)
        self.mine = every[channel.comm.Get_rank()] if stage else slice(0, None)
        kept = self.flat.values[self.mine]
        self.parameter = nn.Parameter(kept.clone() if stage == 3 else kept)
        self.gathering: Future | None = None
        self.reducing: Future | None = None
        if stage >= 2:
            _free(self.flat.gradients)
        if stage == 3:
            _free(self.flat.values)

    @property
    def size(self) -> int:
        """Parameters in it."""
        return self.flat.values.numel()

    def begin_gather(self) -> None:
        """Begin to bring the whole parameters here, unless they are here or on their way."""
        if self.stage < 3 or self.gathering is not None:
            return
        _allocate(self.flat.values)
        array = array_of(self.flat.values)
        array[self.mine] = array_of(self.parameter.detach())
        self.gathering = self._gather(array)

    def _gather(self, array: np.ndarray) -> Future:
        """Begin to fill an array of which each rank has its shard in place."""
        return self.channel.post(f"gather {self.name}", lambda comm: gather_into(array, comm))

    def gather(self) -> None:
        """Have the whole parameters here."""
        self.begin_gather()
        if self.gathering is not None:
            self.gathering.result()

    def free(self) -> None:
        """Give the memory of the whole parameters back; the own shard stays."""
        if self.stage == 3:
            self.gathering = None
            _free(self.flat.values)

    def begin_gradients(self) -> None:
        """Have empty gradients here for the backward pass to fill."""
        if self.stage >= 2 and not _bytes(self.flat.gradients):
            _allocate(self.flat.gradients)
            array_of(self.flat.gradients)[:] = 0

    def begin_reduce(self) -> None:
        """Begin to bring the mean of the ranks' gradients to those who keep it."""
        array = array_of(self.flat.gradients)

        def reduce(comm: Any) -> None:
            reduce_into(array, comm)
            if not self.stage:
                gather_into(array, comm)

        self.reducing = self.channel.post(f"reduce {self.name}", reduce)

    def finish_reduce(self, wait: bool = True) -> None:
        """Leave the own shard's mean gradient in ``parameter.grad``: at once, or if it is there."""
        if self.reducing is None or not (wait or self.reducing.done()):
            return
        self.reducing.result()
        self.reducing = None
        mean = self.flat.gradients[self.mine].div_(self.ranks)
        if self.stage >= 2:
            mean = mean.clone()
            _free(self.flat.gradients)
        self.parameter.grad = mean

    def after_step(self) -> None:
        """Hand the moved shards out again (stages 1 and 2), and forget the gradient."""
        self.parameter.grad = None
        if self.stage in (1, 2):
            self._gather(array_of(self.flat.values)).result()
        if self.stage < 2:
            array_of(self.flat.gradients)[:] = 0

    def collect(self, mine: Tensor) -> Sequence[Tensor]:
        """Gather numbers of which each rank has its shard; return those of each parameter."""
        flat = torch.empty(self.size, dtype=mine.dtype)
        array = array_of(flat)
        array[self.mine] = array_of(mine)
        if self.stage:
            self._gather(array).result()
        return flat.split(self.flat.sizes)

    def resident(self) -> dict[str, int]:
        """Return the bytes that this rank holds right now."""
        found = {"parameter": _bytes(self.flat.values), "gradient": _bytes(self.flat.gradients)}
        if self.stage == 3:
            found["parameter"] += _bytes(self.parameter.detach())
        if self.stage >= 2 and self.parameter.grad is not None:
            found["gradient"] += _bytes(self.parameter.grad)
        return found


def _bytes(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _allocate(tensor: Tensor) -> None:
    tensor.untyped_storage().resize_(tensor.numel() * tensor.element_size())


def _free(tensor: Tensor) -> None:
    with torch.no_grad():
        tensor.untyped_storage().resize_(0)
