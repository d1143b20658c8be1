"""Collectives that carry a part for each rank: gather, scatter, all-to-all."""

# mypy: disable-error-code="override, assignment"
# Torch declares two overloads of most methods; one method here takes what both bring.

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from helpers.torch_mpi.layout import Receiving, as_bytes, checked, innermost, options_of, rooted
from helpers.torch_mpi.operations import Operations, Tensors


class Exchanging(Operations):
    """The collectives of a process group with a part for each rank."""

    def gather(
        self,
        outputs: Sequence,
        inputs: Tensors,
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Give the root the tensor of each rank.

        On the root ``outputs`` are N tensors, or that list in another; elsewhere empty.
        """
        opts = opts if isinstance(opts, c10d.GatherOptions) else rooted(opts, None, timeout)
        (tensor,) = checked(inputs)
        root = opts.rootRank == self.rank()
        outputs_ = self._one_each(innermost(outputs), "gather", tensor, True) if root else []

        def call(deadline: float) -> None:
            with Receiving(outputs_) as views:
                self.transport.gather(views, as_bytes(tensor), opts.rootRank, deadline)

        return self._run("gather", call, outputs, opts, tensor.dtype)

    def scatter(
        self,
        outputs: Tensors,
        inputs: Sequence,
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Give each rank its tensor of those that the root brings.

        On the root ``inputs`` are N tensors, or that list in another; elsewhere empty.
        """
        opts = opts if isinstance(opts, c10d.ScatterOptions) else rooted(opts, None, timeout)
        (output,) = checked(outputs)
        root = opts.rootRank == self.rank()
        inputs_ = self._one_each(innermost(inputs), "scatter", output, True) if root else []

        def call(deadline: float) -> None:
            with Receiving([output]) as (view,):
                parts = [as_bytes(tensor) for tensor in inputs_]
                self.transport.scatter(view, parts, opts.rootRank, deadline)

        return self._run("scatter", call, outputs, opts, output.dtype)

    def alltoall(
        self,
        outputs: Tensors,
        inputs: Tensors,
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Give each rank the tensor that every rank brings for it: N of each, in the order of
        ranks.
        """
        opts = options_of(c10d.AllToAllOptions, opts, timeout)
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
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Do what ``alltoall`` does with parts of two tensors.

        Splits are N numbers of rows; empty: equal parts.
        """
        opts = options_of(c10d.AllToAllOptions, opts, timeout)
        outputs = self._split(checked([output])[0], out_splits, "output")
        inputs = self._split(checked([tensor])[0], in_splits, "input")

        def call(deadline: float) -> None:
            with Receiving(outputs) as views:
                self.transport.all_to_all(views, [as_bytes(part) for part in inputs], deadline)

        return self._run("all_to_all_single", call, [output], opts, output.dtype)

    # Older names of the same operations, which parts of torch still call.
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
