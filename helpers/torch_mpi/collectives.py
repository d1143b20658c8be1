"""torch.distributed's collectives: each is flattened here and handed to the group's transport.

The transport (a window or MPI) sees contiguous one-dimensional tensors, and bytes where no
arithmetic is done.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from helpers.torch_mpi.identity import Identity
from helpers.torch_mpi.layout import (
    Landing,
    as_bytes,
    checked,
    flatten,
    innermost,
    options_of,
    put_back,
    rooted,
    spell,
)
from helpers.torch_mpi.reductions import reduction
from helpers.torch_mpi.sparse import all_reduce_sparse

_SUM = dist.ReduceOp.SUM


class Collectives(Identity):
    """The collectives of a process group that has a ``transport`` and a method ``_run``."""

    def allreduce(self, tensors, opts=None, timeout=None):
        opts = options_of(c10d.AllreduceOptions, opts, timeout)
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

    def allreduce_coalesced(self, tensors, opts=None):
        opts = options_of(c10d.AllreduceCoalescedOptions, opts)
        parts = checked(tensors, count=None)
        if len({part.dtype for part in parts}) > 1:
            raise ValueError("all_reduce_coalesced needs tensors of one dtype")
        op = reduction(opts.reduceOp, parts[0].dtype)

        def call(deadline: float) -> None:
            flat = torch.cat([flatten(part) for part in parts])
            self.transport.all_reduce(flat, op, deadline)
            for part, new in zip(parts, flat.split([p.numel() for p in parts]), strict=True):
                part.copy_(new.view_as(part))

        return self._run("all_reduce_coalesced", call, tensors, opts)

    def reduce(self, tensors, opts=None, op=_SUM, timeout=None):
        opts = opts if isinstance(opts, c10d.ReduceOptions) else rooted(opts, op, timeout)
        (tensor,) = checked(tensors)
        op = reduction(opts.reduceOp, tensor.dtype)

        def call(deadline: float) -> None:
            flat = flatten(tensor)
            self.transport.reduce(flat, op, opts.rootRank, deadline)
            put_back(flat, tensor)

        return self._run("reduce", call, tensors, opts)

    def broadcast(self, tensors, opts=None, timeout=None):
        opts = opts if isinstance(opts, c10d.BroadcastOptions) else rooted(opts, None, timeout)
        (tensor,) = checked(tensors)

        def call(deadline: float) -> None:
            flat = flatten(tensor)
            self.transport.broadcast(flat.view(torch.uint8), opts.rootRank, deadline)
            put_back(flat, tensor)

        return self._run("broadcast", call, tensors, opts)

    def allgather(self, outputs, inputs, opts=None, timeout=None):
        opts = options_of(c10d.AllgatherOptions, opts, timeout)
        outputs = outputs[0] if isinstance(outputs[0], (list, tuple)) else outputs
        (tensor,) = checked(inputs)
        outputs_ = self._one_each(outputs, "all_gather")

        def call(deadline: float) -> None:
            with Landing(outputs_) as landing:
                self.transport.all_gather(landing, as_bytes(tensor), deadline)

        return self._run("all_gather", call, [outputs], opts)

    def all_gather_single(self, output, tensor, opts=None):
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        opts = options_of(c10d.AllgatherOptions, opts)
        outputs_, inputs_ = checked(outputs, None), checked(inputs, None)
        for output, tensor in zip(outputs_, inputs_, strict=True):
            if output.numel() != tensor.numel() * self.size() or output.dtype != tensor.dtype:
                raise ValueError(
                    f"all_gather_into_tensor on {self.size()} ranks: an input {spell(tensor)} "
                    f"needs an output {self.size()} times as large; got {spell(output)}"
                )

        def call(deadline: float) -> None:
            for output, tensor in zip(outputs_, inputs_, strict=True):
                with Landing([output]) as (landing,):
                    data = as_bytes(tensor)
                    parts = [landing[r * len(data) :][: len(data)] for r in range(self.size())]
                    self.transport.all_gather(parts, data, deadline)

        return self._run("all_gather_into_tensor", call, outputs, opts)

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        opts = options_of(c10d.AllgatherOptions, opts)
        inputs_ = checked(inputs, None)
        lists = [checked(outputs, None) for outputs in output_lists]
        if len(lists) == self.size() and all(len(o) == len(inputs_) for o in lists):
            lists = [list(outputs) for outputs in zip(*lists, strict=True)]  # [input][rank]

        def call(deadline: float) -> None:
            for outputs, tensor in zip(lists, inputs_, strict=True):
                with Landing(outputs) as landing:
                    self.transport.all_gather(landing, as_bytes(tensor), deadline)

        return self._run("all_gather_coalesced", call, output_lists, opts)

    def gather(self, outputs, inputs, opts=None, timeout=None):
        opts = opts if isinstance(opts, c10d.GatherOptions) else rooted(opts, None, timeout)
        (tensor,) = checked(inputs)
        root = opts.rootRank == self.rank()
        outputs_ = self._one_each(innermost(outputs), "gather") if root else []

        def call(deadline: float) -> None:
            with Landing(outputs_) as landing:
                self.transport.gather(landing, as_bytes(tensor), opts.rootRank, deadline)

        return self._run("gather", call, outputs, opts)

    def scatter(self, outputs, inputs, opts=None, timeout=None):
        opts = opts if isinstance(opts, c10d.ScatterOptions) else rooted(opts, None, timeout)
        (output,) = checked(outputs)
        root = opts.rootRank == self.rank()
        inputs_ = self._one_each(innermost(inputs), "scatter") if root else []

        def call(deadline: float) -> None:
            with Landing([output]) as (landing,):
                parts = [as_bytes(tensor) for tensor in inputs_]
                self.transport.scatter(landing, parts, opts.rootRank, deadline)

        return self._run("scatter", call, outputs, opts)

    def reduce_scatter(self, outputs, inputs, opts=None, timeout=None):
        opts = options_of(c10d.ReduceScatterOptions, opts, timeout)
        (output,) = checked(outputs)
        inputs_ = self._one_each(innermost(inputs), "reduce_scatter")
        return self._reduce_scatter([(output, inputs_)], outputs, opts)

    def reduce_scatter_single(self, output, tensor, opts=None):
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        opts = options_of(c10d.ReduceScatterOptions, opts)
        jobs = []
        for output, tensor in zip(checked(outputs, None), checked(inputs, None), strict=True):
            if tensor.numel() != output.numel() * self.size() or output.dtype != tensor.dtype:
                raise ValueError(
                    f"reduce_scatter_tensor on {self.size()} ranks: an output {spell(output)} "
                    f"needs an input {self.size()} times as large; got {spell(tensor)}"
                )
            jobs.append((output, tensor.reshape(self.size(), -1).unbind(0)))
        return self._reduce_scatter(jobs, outputs, opts)

    def _reduce_scatter(self, jobs, outputs, opts):
        ops = [reduction(opts.reduceOp, output.dtype) for output, _ in jobs]

        def call(deadline: float) -> None:
            for (output, inputs), op in zip(jobs, ops, strict=True):
                flat = flatten(output)
                parts = [flatten(part) for part in inputs]
                self.transport.reduce_scatter(flat, parts, op, deadline)
                put_back(flat, output)

        return self._run("reduce_scatter", call, outputs, opts)

    def alltoall(self, outputs, inputs, opts=None, timeout=None):
        opts = options_of(c10d.AllToAllOptions, opts, timeout)
        outputs_ = self._one_each(outputs, "all_to_all")
        inputs_ = self._one_each(inputs, "all_to_all")

        def call(deadline: float) -> None:
            with Landing(outputs_) as landing:
                self.transport.all_to_all(landing, [as_bytes(t) for t in inputs_], deadline)

        return self._run("all_to_all", call, outputs, opts)

    def all_to_all_single(self, output, tensor, out_splits, in_splits, opts=None, timeout=None):
        opts = options_of(c10d.AllToAllOptions, opts, timeout)
        outputs = self._split(checked([output])[0], out_splits, "output")
        inputs = self._split(checked([tensor])[0], in_splits, "input")

        def call(deadline: float) -> None:
            with Landing(outputs) as landing:
                self.transport.all_to_all(landing, [as_bytes(part) for part in inputs], deadline)

        return self._run("all_to_all_single", call, [output], opts)

    def barrier(self, opts=None, timeout=None):
        opts = options_of(c10d.BarrierOptions, opts, timeout)
        return self._run("barrier", self.transport.barrier, [], opts)

    # Older names of the same operations, which parts of torch still call.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _one_each(self, tensors, name: str) -> list[torch.Tensor]:
        if len(tensors) != self.size():
            raise ValueError(
                f"{name} on {self.size()} ranks needs a list of {self.size()} tensors, one for "
                f"each rank; got {len(tensors)}"
            )
        return checked(tensors, None)

    def _split(self, tensor: torch.Tensor, splits, which: str) -> list[torch.Tensor]:
        rows = tensor.shape[0] if tensor.dim() else 1
        if not splits:
            if rows % self.size():
                raise ValueError(
                    f"all_to_all_single on {self.size()} ranks: {which} of {rows} rows does not "
                    "divide evenly; pass split sizes"
                )
            splits = [rows // self.size()] * self.size()
        if len(splits) != self.size() or sum(splits) != rows:
            raise ValueError(
                f"all_to_all_single on {self.size()} ranks: {which} split sizes {list(splits)} "
                f"must be {self.size()} numbers with sum {rows}"
            )
        return list(tensor.split(splits))
