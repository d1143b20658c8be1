"""torch.distributed's collectives: each is flattened here and handed to the group's transport.

The methods have torch's names and take what torch hands over: lists of one tensor, and an options
object with the time limit and whether the caller waits (older parts of torch pass a root, a reduce
operation or a time limit in its place). What torch checks before it calls is not checked again.
"""

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
from helpers.torch_mpi.layout import (
    Receiving,
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
from helpers.torch_mpi.runner import Runner
from helpers.torch_mpi.sparse import all_reduce_sparse
from helpers.torch_mpi.transport import Transport

_SUM = dist.ReduceOp.SUM
Tensors: TypeAlias = Sequence[torch.Tensor]


class Collectives(Identity):
    """The collectives of a process group.

    Parameters
    ----------
    name
        The group's name.
    store
        Where its ranks have met.
    transport
        What moves the data.
    runner
        What runs each operation, now or later, with a time limit.
    """

    def __init__(self, name: str, store: dist.Store | None, transport: Transport, runner: Runner):
        super().__init__(transport.rank, transport.size, name, store)
        self.transport, self._runner = transport, runner
        self._run = runner.run

    def allreduce(
        self, tensors: Tensors, opts: Any = None, timeout: timedelta | None = None
    ) -> dist.Work:
        """Replace a tensor by its reduction over ranks.

        Parameters
        ----------
        tensors
            The tensor, dense or sparse (COO, for which the operation is the sum).
        opts
            Torch's options, or a reduce operation.
        timeout
            The call's own time limit, where ``opts`` says nothing of it.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            The reduce operation does not fit the dtype.
        """
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

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        """Replace several tensors by their reductions over ranks, in one operation.

        Parameters
        ----------
        tensors
            Tensors of one dtype.
        opts
            Torch's options.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            The dtypes differ, or the reduce operation does not fit.
        """
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

    def reduce(
        self,
        tensors: Tensors,
        opts: Any = None,
        op: dist.ReduceOp = _SUM,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Replace the root's tensor by the reduction over ranks.

        Parameters
        ----------
        tensors
            The tensor.
        opts
            Torch's options, or the root's rank.
        op
            What to reduce with, where ``opts`` is a rank.
        timeout
            The call's own time limit, where ``opts`` says nothing of it.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            The reduce operation does not fit the dtype.
        """
        opts = opts if isinstance(opts, c10d.ReduceOptions) else rooted(opts, op, timeout)
        (tensor,) = checked(tensors)
        how = reduction(opts.reduceOp, tensor.dtype)

        def call(deadline: float) -> None:
            flat = flatten(tensor)
            self.transport.reduce(flat, how, opts.rootRank, deadline)
            put_back(flat, tensor)

        return self._run("reduce", call, tensors, opts)

    def broadcast(
        self, tensors: Tensors, opts: Any = None, timeout: timedelta | None = None
    ) -> dist.Work:
        """Replace every rank's tensor by the root's.

        Parameters
        ----------
        tensors
            The tensor.
        opts
            Torch's options, or the root's rank.
        timeout
            The call's own time limit, where ``opts`` says nothing of it.

        Returns
        -------
        dist.Work
            Its handle.
        """
        opts = opts if isinstance(opts, c10d.BroadcastOptions) else rooted(opts, None, timeout)
        (tensor,) = checked(tensors)

        def call(deadline: float) -> None:
            flat = flatten(tensor)
            self.transport.broadcast(flat.view(torch.uint8), opts.rootRank, deadline)
            put_back(flat, tensor)

        return self._run("broadcast", call, tensors, opts)

    def allgather(
        self,
        outputs: Sequence,
        inputs: Tensors,
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Give every rank the tensor of each.

        Parameters
        ----------
        outputs
            A list of N tensors, or that list in another: the r-th becomes rank r's input.
        inputs
            The tensor.
        opts
            Torch's options.
        timeout
            The call's own time limit, where ``opts`` says nothing of it.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            There are not N outputs.
        """
        opts = options_of(c10d.AllgatherOptions, opts, timeout)
        outputs = outputs[0] if isinstance(outputs[0], (list, tuple)) else outputs
        (tensor,) = checked(inputs)
        outputs_ = self._one_each(outputs, "all_gather")

        def call(deadline: float) -> None:
            with Receiving(outputs_) as views:
                self.transport.all_gather(views, as_bytes(tensor), deadline)

        return self._run("all_gather", call, [outputs], opts)

    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> dist.Work:
        """Give every rank the tensors of all, in one.

        Parameters
        ----------
        output
            Of N times as many elements: rank r's are the r-th part.
        tensor
            What this rank brings.
        opts
            Torch's options.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            The sizes or dtypes do not fit.
        """
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> dist.Work:
        """Do what ``all_gather_single`` does with several tensors, in one operation.

        Parameters
        ----------
        outputs
            One for each input, of N times as many elements.
        inputs
            What this rank brings.
        opts
            Torch's options.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            The sizes or dtypes do not fit.
        """
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

        return self._run("all_gather_into_tensor", call, outputs, opts)

    def allgather_coalesced(
        self, output_lists: Sequence[Tensors], inputs: Tensors, opts: Any = None
    ) -> dist.Work:
        """Do what ``allgather`` does with several tensors, in one operation.

        Parameters
        ----------
        output_lists
            ``output_lists[r][i]`` becomes rank r's i-th input; ``[i][r]`` is taken as well.
        inputs
            What this rank brings.
        opts
            Torch's options.

        Returns
        -------
        dist.Work
            Its handle.
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

        return self._run("all_gather_coalesced", call, output_lists, opts)

    def gather(
        self,
        outputs: Sequence,
        inputs: Tensors,
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Give the root the tensor of each rank.

        Parameters
        ----------
        outputs
            On the root a list of N tensors, or that list in another; elsewhere empty.
        inputs
            The tensor.
        opts
            Torch's options, or the root's rank.
        timeout
            The call's own time limit, where ``opts`` says nothing of it.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            There are not N outputs on the root.
        """
        opts = opts if isinstance(opts, c10d.GatherOptions) else rooted(opts, None, timeout)
        (tensor,) = checked(inputs)
        root = opts.rootRank == self.rank()
        outputs_ = self._one_each(innermost(outputs), "gather") if root else []

        def call(deadline: float) -> None:
            with Receiving(outputs_) as views:
                self.transport.gather(views, as_bytes(tensor), opts.rootRank, deadline)

        return self._run("gather", call, outputs, opts)

    def scatter(
        self,
        outputs: Tensors,
        inputs: Sequence,
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Give each rank its tensor of those that the root brings.

        Parameters
        ----------
        outputs
            The tensor to receive into.
        inputs
            On the root a list of N tensors, or that list in another; elsewhere empty.
        opts
            Torch's options, or the root's rank.
        timeout
            The call's own time limit, where ``opts`` says nothing of it.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            There are not N inputs on the root.
        """
        opts = opts if isinstance(opts, c10d.ScatterOptions) else rooted(opts, None, timeout)
        (output,) = checked(outputs)
        root = opts.rootRank == self.rank()
        inputs_ = self._one_each(innermost(inputs), "scatter") if root else []

        def call(deadline: float) -> None:
            with Receiving([output]) as (view,):
                parts = [as_bytes(tensor) for tensor in inputs_]
                self.transport.scatter(view, parts, opts.rootRank, deadline)

        return self._run("scatter", call, outputs, opts)

    def reduce_scatter(
        self,
        outputs: Tensors,
        inputs: Sequence,
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Give each rank the reduction over ranks of what they bring for it.

        Parameters
        ----------
        outputs
            The tensor to receive into.
        inputs
            A list of N tensors, or that list in another: the r-th is for rank r.
        opts
            Torch's options, or a reduce operation.
        timeout
            The call's own time limit, where ``opts`` says nothing of it.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            There are not N inputs, or the reduce operation does not fit the dtype.
        """
        opts = options_of(c10d.ReduceScatterOptions, opts, timeout)
        (output,) = checked(outputs)
        inputs_ = self._one_each(innermost(inputs), "reduce_scatter")
        return self._reduce_scatter([(output, inputs_)], outputs, opts)

    def reduce_scatter_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> dist.Work:
        """Give each rank its part of the reduction of one tensor over ranks.

        Parameters
        ----------
        output
            The part.
        tensor
            Of N times as many elements: the r-th part is for rank r.
        opts
            Torch's options.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            The sizes, dtypes or the reduce operation do not fit.
        """
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> dist.Work:
        """Do what ``reduce_scatter_single`` does with several tensors, in one operation.

        Parameters
        ----------
        outputs
            The parts.
        inputs
            One for each output, of N times as many elements.
        opts
            Torch's options.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            The sizes, dtypes or the reduce operation do not fit.
        """
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

    def alltoall(
        self,
        outputs: Tensors,
        inputs: Tensors,
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """Give each rank the tensor that every rank brings for it.

        Parameters
        ----------
        outputs
            N tensors: the r-th becomes what rank r brings for this one.
        inputs
            N tensors: the r-th goes to rank r.
        opts
            Torch's options.
        timeout
            The call's own time limit, where ``opts`` says nothing of it.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            There are not N of each.
        """
        opts = options_of(c10d.AllToAllOptions, opts, timeout)
        outputs_ = self._one_each(outputs, "all_to_all")
        inputs_ = self._one_each(inputs, "all_to_all")

        def call(deadline: float) -> None:
            with Receiving(outputs_) as views:
                self.transport.all_to_all(views, [as_bytes(t) for t in inputs_], deadline)

        return self._run("all_to_all", call, outputs, opts)

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

        Parameters
        ----------
        output
            What comes, in the order of the ranks that it comes from.
        tensor
            What goes, in the order of the ranks that it goes to.
        out_splits
            N numbers of rows of ``output``; empty: equal parts.
        in_splits
            N numbers of rows of ``tensor``; empty: equal parts.
        opts
            Torch's options.
        timeout
            The call's own time limit, where ``opts`` says nothing of it.

        Returns
        -------
        dist.Work
            Its handle.

        Raises
        ------
        ValueError
            The splits do not fit the rows.
        """
        opts = options_of(c10d.AllToAllOptions, opts, timeout)
        outputs = self._split(checked([output])[0], out_splits, "output")
        inputs = self._split(checked([tensor])[0], in_splits, "input")

        def call(deadline: float) -> None:
            with Receiving(outputs) as views:
                self.transport.all_to_all(views, [as_bytes(part) for part in inputs], deadline)

        return self._run("all_to_all_single", call, [output], opts)

    def barrier(self, opts: Any = None, timeout: timedelta | None = None) -> dist.Work:
        """Wait for every rank.

        Parameters
        ----------
        opts
            Torch's options.
        timeout
            The call's own time limit, where ``opts`` says nothing of it.

        Returns
        -------
        dist.Work
            Its handle.
        """
        opts = options_of(c10d.BarrierOptions, opts, timeout)
        return self._run("barrier", self.transport.barrier, [], opts)

    # Older names of the same operations, which parts of torch still call.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _one_each(self, tensors: Tensors, name: str) -> list[torch.Tensor]:
        if len(tensors) != self.size():
            raise ValueError(
                f"{name} on {self.size()} ranks expects a list of {self.size()} tensors, one for "
                f"each rank; got {len(tensors)}"
            )
        return checked(tensors, None)

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
