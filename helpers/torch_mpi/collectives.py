"""torch.distributed's collectives that combine what ranks have: allreduce, reduce, reduce-scatter.

They take what those in :mod:`helpers.torch_mpi.moving` take.
"""

# mypy: disable-error-code="override, assignment"
# Torch declares two overloads of most methods; one method here takes what both bring.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from helpers.torch_mpi.layout import (
    checked,
    flatten,
    innermost,
    options_of,
    put_back,
    spell,
)
from helpers.torch_mpi.moving import Moving, Tensors
from helpers.torch_mpi.reductions import reduction
from helpers.torch_mpi.transport import Transport

_SUM = dist.ReduceOp.SUM


class Collectives(Moving):
    """The collectives of a process group: those that move data, and here those that reduce it."""

    def allreduce(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        """Replace a tensor, dense or sparse (COO: by the sum), by its reduction over ranks."""
        opts = options_of(c10d.AllreduceOptions, opts)
        (tensor,) = checked(tensors)
        if tensor.is_sparse:
            return self._run(
                "all_reduce",
                lambda deadline: all_reduce_sparse(self.transport, tensors[0], deadline),
                tensors,
                opts,
            )
        op = reduction(opts.reduceOp, tensor.dtype)

        def call(deadline: float) -> None:
            flat = flatten(tensor)
            self.transport.all_reduce(flat, op, deadline)
            put_back(flat, tensor)

        return self._run("all_reduce", call, tensors, opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        """Replace several tensors of one dtype by their reductions over ranks, in one operation."""
        opts = options_of(c10d.AllreduceCoalescedOptions, opts)
        parts = checked(tensors, count=None)
        if len({part.dtype for part in parts}) > 1:
            kinds = ", ".join(str(part.dtype) for part in parts)
            raise ValueError(f"all_reduce_coalesced expects tensors of one dtype; got {kinds}")
        op = reduction(opts.reduceOp, parts[0].dtype)

        def call(deadline: float) -> None:
            flat = torch.cat([flatten(part) for part in parts])
            self.transport.all_reduce(flat, op, deadline)
            for part, new in zip(parts, flat.split([p.numel() for p in parts]), strict=True):
                part.copy_(new.view_as(part))

        return self._run("all_reduce_coalesced", call, tensors, opts)

    def reduce(self, tensors: Tensors, opts: Any = None, op: dist.ReduceOp = _SUM) -> dist.Work:
        """Replace the root's tensor by the reduction over ranks."""
        opts = options_of(c10d.ReduceOptions, opts, op)
        (tensor,) = checked(tensors)
        how = reduction(opts.reduceOp, tensor.dtype)

        def call(deadline: float) -> None:
            flat = flatten(tensor)
            self.transport.reduce(flat, how, opts.rootRank, deadline)
            put_back(flat, tensor)

        return self._run("reduce", call, tensors, opts)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence, opts: Any = None) -> dist.Work:
        """Give each rank the reduction over ranks of what they bring for it: N tensors."""
        opts = options_of(c10d.ReduceScatterOptions, opts)
        (output,) = checked(outputs)
        inputs_ = self._one_each(innermost(inputs), "reduce_scatter", output)
        return self._reduce_scatter([(output, inputs_)], outputs, opts)

    def reduce_scatter_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> dist.Work:
        """Give each rank its part of the reduction of one tensor of N times as many elements."""
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> dist.Work:
        """Do what ``reduce_scatter_single`` does with several tensors, in one operation."""
        opts = options_of(c10d.ReduceScatterOptions, opts)
        jobs: list[tuple[torch.Tensor, Tensors]] = []
        for output, tensor in zip(checked(outputs, None), checked(inputs, None), strict=True):
            if tensor.numel() != output.numel() * self.size() or output.dtype != tensor.dtype:
                raise ValueError(
                    f"reduce_scatter_tensor on {self.size()} ranks expects an input "
                    f"{self.size()} times as large as an output {spell(output)}; got "
                    f"{spell(tensor)}"
                )
            jobs.append((output, tensor.reshape(self.size(), -1).unbind(0)))
        return self._reduce_scatter(jobs, outputs, opts)

    # Older names of the same operations, which parts of torch still call.
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(
        self, jobs: Sequence[tuple[torch.Tensor, Tensors]], outputs: Sequence, opts: Any
    ) -> dist.Work:
        ops = [reduction(opts.reduceOp, output.dtype) for output, _ in jobs]

        def call(deadline: float) -> None:
            for (output, inputs), op in zip(jobs, ops, strict=True):
                flat = flatten(output)
                parts = [flatten(part) for part in inputs]
                self.transport.reduce_scatter(flat, parts, op, deadline)
                put_back(flat, output)

        return self._run("reduce_scatter", call, outputs, opts)


def all_reduce_sparse(transport: Transport, tensor: torch.Tensor, deadline: float) -> None:
    """Replace a sparse tensor by its sum over ranks; indices and values of all are gathered."""
    mine = tensor.detach().coalesce()
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(transport.size)]
    here = torch.tensor([mine._nnz()])
    transport.all_gather([c.view(torch.uint8) for c in counts], here.view(torch.uint8), deadline)
    numbers = [int(count) for count in counts]
    gathered = []
    for part in (mine.indices().t().contiguous(), mine.values().contiguous()):  # (nnz, ...)
        outputs = [part.new_empty((n, *part.shape[1:])) for n in numbers]
        flat = [output.reshape(-1).view(torch.uint8) for output in outputs]
        transport.all_gather(flat, part.reshape(-1).view(torch.uint8), deadline)
        gathered.append(torch.cat(outputs))  # (sum of all ranks' nnz, ...)
    indices, values = gathered
    total = torch.sparse_coo_tensor(indices.t(), values, tensor.shape).coalesce()
    with torch.no_grad():
        tensor.copy_(total)
