"""torch.distributed's collectives that only move data: each is flattened and handed to a transport.

The methods have torch's names and take what torch hands over: lists of one tensor, and an options
object with the time limit and whether the caller waits (older parts of torch pass a root, a reduce
operation or a time limit in its place). What torch checks before it calls is not checked again.
"""

# mypy: disable-error-code="override, assignment, call-arg"
# Torch declares methods of a class that C++ makes, two overloads of most; one here takes what both
# bring.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from helpers.torch_mpi.layout import (
    Receiving,
    as_bytes,
    checked,
    flatten,
    innermost,
    options_of,
    put_back,
    spell,
)
from helpers.torch_mpi.runner import Runner
from helpers.torch_mpi.transport import BACKEND, Transport

Tensors: TypeAlias = Sequence[torch.Tensor]


class Identity(dist.ProcessGroup):
    """A process group's answers about itself, under the names that torch calls."""

    def __init__(self, rank: int, size: int, name: str, store: dist.Store | None):
        super().__init__(rank, size)
        self._store, self._name = store, name
        self._set_group_desc(name)

    def getBackendName(self) -> str:  # noqa: N802 (torch's own spelling, here and below)
        """Return ``"mpi4py"``."""
        return BACKEND

    def getGroupName(self) -> str:  # noqa: N802
        """Return the group's name."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Change the group's name."""
        self._name = name

    _set_group_name = setGroupName
    group_name = property(getGroupName)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> Identity:
        return self

    def get_group_store(self) -> dist.Store | None:
        """Return the store at which the group's ranks have met."""
        return self._store

    def _has_hooks(self) -> bool:
        return False

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False


class Moving(Identity):
    """A process group with a transport, what runs operations on it, and those that move data."""

    def __init__(self, name: str, store: dist.Store | None, transport: Transport, runner: Runner):
        super().__init__(transport.rank, transport.size, name, store)
        self.transport, self._runner = transport, runner
        self._run = runner.run

    def barrier(self, opts: Any = None) -> dist.Work:
        """Wait for every rank."""
        opts = options_of(c10d.BarrierOptions, opts)
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
        rank, sizes = self.rank(), [tensor.numel() for tensor in tensors]
        if own is not None and {own.numel()} != set(sizes if equal else sizes[rank:][:1]):
            which = "all of them" if equal else f"tensor {rank} of the list"
            raise ValueError(
                f"{name} on rank {rank} expects {which} to have {own.numel()} elements, as "
                f"{spell(own)} has; got {sizes}"
            )
        return checked(tensors, None)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        """Replace every rank's tensor by the root's."""
        opts = options_of(c10d.BroadcastOptions, opts)
        (tensor,) = checked(tensors)

        def call(deadline: float) -> None:
            flat = flatten(tensor)
            self.transport.broadcast(flat.view(torch.uint8), opts.rootRank, deadline)
            put_back(flat, tensor)

        return self._run("broadcast", call, tensors, opts, tensor.dtype)

    def allgather(self, outputs: Sequence, inputs: Tensors, opts: Any = None) -> dist.Work:
        """Give every rank the tensor of each: N ``outputs``, or a list with that list."""
        outputs = innermost(outputs)
        (tensor,) = checked(inputs)
        jobs = [(self._one_each(outputs, "all_gather", tensor), tensor)]
        return self._all_gather("all_gather", jobs, [outputs], opts)

    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> dist.Work:
        """Give every rank the tensors of all, in rank order, in one of N times as many elements."""
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> dist.Work:
        """Do what ``all_gather_single`` does with several tensors, in one operation."""
        jobs = []
        for output, tensor in zip(checked(outputs, None), checked(inputs, None), strict=True):
            if output.numel() != tensor.numel() * self.size() or output.dtype != tensor.dtype:
                raise ValueError(
                    f"all_gather_into_tensor on {self.size()} ranks expects an output "
                    f"{self.size()} times as large as an input {spell(tensor)}; got {spell(output)}"
                )
            jobs.append(([output], tensor))
        return self._all_gather("all_gather_into_tensor", jobs, outputs, opts)

    def allgather_coalesced(
        self, output_lists: Sequence[Tensors], inputs: Tensors, opts: Any = None
    ) -> dist.Work:
        """Do what ``allgather`` does with several tensors, in one operation.

        ``output_lists[r][i]`` becomes rank r's i-th input; ``[i][r]`` is taken as well.
        """
        inputs_ = checked(inputs, None)
        lists = [checked(outputs, None) for outputs in output_lists]
        if len(lists) == self.size() and all(len(o) == len(inputs_) for o in lists):
            lists = [list(outputs) for outputs in zip(*lists, strict=True)]  # [input][rank]
        jobs = list(zip(lists, inputs_, strict=True))
        return self._all_gather("all_gather_coalesced", jobs, output_lists, opts)

    def _all_gather(
        self,
        name: str,
        jobs: Sequence[tuple[list[torch.Tensor], torch.Tensor]],
        written: Sequence,
        opts: Any,
    ) -> dist.Work:
        """Gather each tensor into its list: N tensors, or one for the parts of all ranks."""

        def call(deadline: float) -> None:
            for outputs, tensor in jobs:
                with Receiving(outputs) as views:
                    data = as_bytes(tensor)
                    parts = views
                    if len(outputs) < self.size():
                        parts = [views[0][r * len(data) :][: len(data)] for r in range(self.size())]
                    self.transport.all_gather(parts, data, deadline)

        opts = options_of(c10d.AllgatherOptions, opts)
        return self._run(name, call, written, opts, jobs[0][1].dtype)

    def gather(self, outputs: Sequence, inputs: Tensors, opts: Any = None) -> dist.Work:
        """Give the root the tensor of each rank.

        On the root ``outputs`` are N tensors, or that list in another; elsewhere empty.
        """
        opts = options_of(c10d.GatherOptions, opts)
        (tensor,) = checked(inputs)
        root = opts.rootRank == self.rank()
        outputs_ = self._one_each(innermost(outputs), "gather", tensor, True) if root else []

        def call(deadline: float) -> None:
            with Receiving(outputs_) as views:
                self.transport.gather(views, as_bytes(tensor), opts.rootRank, deadline)

        return self._run("gather", call, outputs, opts, tensor.dtype)

    def scatter(self, outputs: Tensors, inputs: Sequence, opts: Any = None) -> dist.Work:
        """Give each rank its tensor of those that the root brings.

        On the root ``inputs`` are N tensors, or that list in another; elsewhere empty.
        """
        opts = options_of(c10d.ScatterOptions, opts)
        (output,) = checked(outputs)
        root = opts.rootRank == self.rank()
        inputs_ = self._one_each(innermost(inputs), "scatter", output, True) if root else []

        def call(deadline: float) -> None:
            with Receiving([output]) as (view,):
                parts = [as_bytes(tensor) for tensor in inputs_]
                self.transport.scatter(view, parts, opts.rootRank, deadline)

        return self._run("scatter", call, outputs, opts, output.dtype)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        """Give each rank the tensor that every rank brings for it: N of each, in the order of
        ranks.
        """
        opts = options_of(c10d.AllToAllOptions, opts)
        outputs_ = self._one_each(outputs, "all_to_all")
        inputs_ = self._one_each(inputs, "all_to_all")

        def call(deadline: float) -> None:
            with Receiving(outputs_) as views:
                self.transport.all_to_all(views, [as_bytes(t) for t in inputs_], deadline)

        return self._run("all_to_all", call, outputs, opts, outputs_[0].dtype)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        out_splits: Sequence[int],
        in_splits: Sequence[int],
        opts: Any = None,
    ) -> dist.Work:
        """Do what ``alltoall`` does with parts of two tensors.

        Splits are N numbers of rows; empty: equal parts.
        """
        opts = options_of(c10d.AllToAllOptions, opts)
        outputs = self._split(checked([output])[0], out_splits, "output")
        inputs = self._split(checked([tensor])[0], in_splits, "input")

        def call(deadline: float) -> None:
            with Receiving(outputs) as views:
                self.transport.all_to_all(views, [as_bytes(part) for part in inputs], deadline)

        return self._run("all_to_all_single", call, [output], opts, output.dtype)

    # Older names of the same operations, which parts of torch still call.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    alltoall_base = all_to_all_single

    def _split(self, tensor: torch.Tensor, splits: Sequence[int], which: str) -> list[torch.Tensor]:
        rows = tensor.shape[0] if tensor.dim() else 1
        if not splits:
            if rows % self.size():
                raise ValueError(
                    f"all_to_all_single on {self.size()} ranks expects split sizes, or rows that "
                    f"divide evenly; got {which} of {rows} rows"
                )
            splits = [rows // self.size()] * self.size()
        if len(splits) != self.size() or sum(splits) != rows:
            raise ValueError(
                f"all_to_all_single on {self.size()} ranks expects {self.size()} {which} split "
                f"sizes with sum {rows}; got {list(splits)}"
            )
        return list(tensor.split(splits))

    # torch numbers a group's collectives.

    def _set_sequence_number_for_group(self) -> None:
        self._runner.sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._runner.sequence
