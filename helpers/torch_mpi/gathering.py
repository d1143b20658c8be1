"""Collectives after which ranks have more than before: broadcast and allgather."""

# mypy: disable-error-code="override, assignment"
# Torch declares two overloads of most methods; one method here takes what both bring.

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from helpers.torch_mpi.layout import (
    Receiving,
    as_bytes,
    checked,
    flatten,
    options_of,
    put_back,
    rooted,
    spell,
)
from helpers.torch_mpi.operations import Operations, Tensors


class Gathering(Operations):
    """The collectives of a process group that give every rank the same."""

    def broadcast(
        self, tensors: Tensors, opts: Any = None, timeout: timedelta | None = None
    ) -> dist.Work:
        """Replace every rank's tensor by the root's."""
        opts = opts if isinstance(opts, c10d.BroadcastOptions) else rooted(opts, None, timeout)
        (tensor,) = checked(tensors)

        def call(deadline: float) -> None:
            flat = flatten(tensor)
            self.transport.broadcast(flat.view(torch.uint8), opts.rootRank, deadline)
            put_back(flat, tensor)

        return self._run("broadcast", call, tensors, opts, tensor.dtype)

    def allgather(
        self,
        outputs: Sequence,
        inputs: Tensors,
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Give every rank the tensor of each: N ``outputs``, or a list with that list."""
        opts = options_of(c10d.AllgatherOptions, opts, timeout)
        outputs = outputs[0] if isinstance(outputs[0], (list, tuple)) else outputs
        (tensor,) = checked(inputs)
        outputs_ = self._one_each(outputs, "all_gather", tensor)

        def call(deadline: float) -> None:
            with Receiving(outputs_) as views:
                self.transport.all_gather(views, as_bytes(tensor), deadline)

        return self._run("all_gather", call, [outputs], opts, tensor.dtype)

    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> dist.Work:
        """Give every rank the tensors of all, in rank order, in one of N times as many elements."""
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> dist.Work:
        """Do what ``all_gather_single`` does with several tensors, in one operation."""
        opts = options_of(c10d.AllgatherOptions, opts)
        outputs_, inputs_ = checked(outputs, None), checked(inputs, None)
        for output, tensor in zip(outputs_, inputs_, strict=True):
            if output.numel() != tensor.numel() * self.size() or output.dtype != tensor.dtype:
                raise ValueError(
                    f"all_gather_into_tensor on {self.size()} ranks expects an output "
                    f"{self.size()} times as large as an input {spell(tensor)}; got {spell(output)}"
                )

        def call(deadline: float) -> None:
            for output, tensor in zip(outputs_, inputs_, strict=True):
                with Receiving([output]) as (view,):
                    data = as_bytes(tensor)
                    parts = [view[r * len(data) :][: len(data)] for r in range(self.size())]
                    self.transport.all_gather(parts, data, deadline)

        return self._run("all_gather_into_tensor", call, outputs, opts, inputs_[0].dtype)

    def allgather_coalesced(
        self, output_lists: Sequence[Tensors], inputs: Tensors, opts: Any = None
    ) -> dist.Work:
        """Do what ``allgather`` does with several tensors, in one operation.

        ``output_lists[r][i]`` becomes rank r's i-th input; ``[i][r]`` is taken as well.
        """
        opts = options_of(c10d.AllgatherOptions, opts)
        inputs_ = checked(inputs, None)
        lists = [checked(outputs, None) for outputs in output_lists]
        if len(lists) == self.size() and all(len(o) == len(inputs_) for o in lists):
            lists = [list(outputs) for outputs in zip(*lists, strict=True)]  # [input][rank]

        def call(deadline: float) -> None:
            for outputs, tensor in zip(lists, inputs_, strict=True):
                with Receiving(outputs) as views:
                    self.transport.all_gather(views, as_bytes(tensor), deadline)

        return self._run("all_gather_coalesced", call, output_lists, opts, inputs_[0].dtype)

    # Older names of the same operations, which parts of torch still call.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
