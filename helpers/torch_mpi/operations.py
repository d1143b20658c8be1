"""What every collective of torch.distributed has in common, and the barrier, which has no data."""

# mypy: disable-error-code="override, assignment"
# Torch declares two overloads of most methods; one method here takes what both bring.

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from helpers.torch_mpi.identity import Identity
from helpers.torch_mpi.layout import checked, options_of, spell
from helpers.torch_mpi.runner import Runner
from helpers.torch_mpi.transport import Transport

Tensors: TypeAlias = Sequence[torch.Tensor]


class Operations(Identity):
    """A process group with a transport and what runs operations on it."""

    def __init__(self, name: str, store: dist.Store | None, transport: Transport, runner: Runner):
        super().__init__(transport.rank, transport.size, name, store)
        self.transport, self._runner = transport, runner
        self._run = runner.run

    def barrier(self, opts: Any = None, timeout: timedelta | None = None) -> dist.Work:
        """Wait for every rank."""
        opts = options_of(c10d.BarrierOptions, opts, timeout)
        return self._run("barrier", self.transport.barrier, [], opts)

    def _one_each(
        self, tensors: Tensors, name: str, own: torch.Tensor | None = None, equal: bool = False
    ) -> list[torch.Tensor]:
        """Check a list with a tensor for each rank: this rank's, or all, as large as ``own``."""
        if len(tensors) != self.size():
            raise ValueError(
                f"{name} on {self.size()} ranks expects a list of {self.size()} tensors, one for "
                f"each rank; got {len(tensors)}"
            )
        sizes = [tensor.numel() for tensor in tensors]
        if own is not None and {own.numel()} != set(sizes if equal else sizes[self._rank :][:1]):
            which = "all of them" if equal else f"tensor {self._rank} of the list"
            raise ValueError(
                f"{name} on rank {self._rank} expects {which} to have {own.numel()} elements, as "
                f"{spell(own)} has; got {sizes}"
            )
        return checked(tensors, None)

    # torch numbers a group's collectives.

    def _set_sequence_number_for_group(self) -> None:
        self._runner.sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._runner.sequence
