"""``ProcessGroupMPI4Py``: torch.distributed's collectives, handed to a window or to MPI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from mpi4py import MPI
from torch._C import _distributed_c10d as c10d

from . import point_to_point
from .network import Network
from .reductions import reduction
from .rendezvous import connect, retire, window_for
from .sparse import all_reduce_sparse
from .work import Done, Engine, deadline_after

_PATHS = ("auto", "window", "network")
_SUM = dist.ReduceOp.SUM


@dataclass(frozen=True)
class Options:
    """What ``init_process_group(..., pg_options=Options(...))`` and ``new_group`` accept.

    ``path`` is the way of the collectives: ``"window"`` (memory shared by the ranks of one host),
    ``"network"`` (MPI's own collectives), or ``"auto"``: the window if all ranks share a host.
    """

    path: str = "auto"

    def __post_init__(self):
        if self.path not in _PATHS:
            raise ValueError(f"path must be one of {', '.join(_PATHS)}; got {self.path!r}")


class ProcessGroupMPI4Py(dist.ProcessGroup):
    """One process group of the backend ``"mpi4py"``; torch makes it, users see only its methods."""

    def __init__(self, store, rank: int, size: int, timeout: timedelta, name: str, options):
        super().__init__(rank, size)
        if not (options is None or isinstance(options, Options)):
            raise TypeError(f"pg_options must be helpers.torch_mpi.Options; got {options!r}")
        path = (options or Options()).path
        self._store = store
        self._name = self._description = name or "default"
        self._timeout = timeout.total_seconds()
        self._comm, self._ranks, reusable = connect(store, rank, size, timeout, self._name)
        self._control = self._comm.Dup()
        window = window_for(self._comm, reusable) if path != "network" else None
        if path == "window" and window is None:
            raise RuntimeError(
                "path='window' needs all ranks on one host, with memory to share; "
                "use path='network' or 'auto'"
            )
        self.transport = window or Network(self._comm)
        if reusable is not None and window is None:
            retire(self._ranks, reusable)
        self._engine = Engine(f"torch_mpi {self._name}")
        self._messages = point_to_point.PointToPoint(self._comm, "torch_mpi", self._timeout)
        self._broken: str | None = None
        self._sequence = self._barriers = 0

    # What torch asks of a process group besides communication.

    def getBackendName(self) -> str:  # noqa: N802 (torch's own spelling, here and below)
        return "mpi4py"

    def getRank(self) -> int:  # noqa: N802
        return self._comm.Get_rank()

    def getSize(self) -> int:  # noqa: N802
        return self._comm.Get_size()

    def rank(self) -> int:
        return self.transport.rank

    def size(self) -> int:
        return self.transport.size

    def name(self) -> str:
        return "mpi4py"

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        self._description = description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> ProcessGroupMPI4Py:
        return self

    def _get_backend_name(self) -> str:
        return "mpi4py"

    def get_group_store(self) -> dist.Store:
        return self._store

    def _has_hooks(self) -> bool:
        return False

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def set_timeout(self, timeout: timedelta) -> None:
        """Change the time limit of this group's operations."""
        self._timeout = timeout.total_seconds()
        self._messages._timeout = self._timeout

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Release the group on this rank; what is unfinished raises there."""
        if self._broken == "destroyed":
            return
        self._broken = "destroyed"
        self._engine.close(timeout=5.0)
        self.transport.close()  # what still waits for other ranks raises now
        self._engine.close(timeout=1.0)
        self._messages.close()
        if self._engine.idle and not isinstance(self.transport, Network):
            retire(self._ranks, self.transport)
        if self._engine.idle:
            self._comm.Free()
            self._control.Free()

    abort = shutdown

    # Collectives. Each is flattened here; the transport sees contiguous one-dimensional tensors.

    def _run(self, name: str, call: Callable, tensors: list, opts) -> dist.Work:
        later = bool(getattr(opts, "asyncOp", False)) and self.size() > 1
        limit = opts.timeout.total_seconds() if opts is not None else -1
        seconds = limit if limit > 0 else self._timeout
        if self._broken:
            raise dist.DistBackendError(
                f"{name} on group {self._name!r}: the group is {self._broken}; call "
                "destroy_process_group() and init_process_group() on all ranks"
            )
        self._sequence += 1

        def guarded() -> None:
            try:
                call(deadline_after(seconds))
            except TimeoutError as error:
                self._broken = self._broken or "out of step after a time-out"
                raise dist.DistBackendError(
                    f"{name} on group {self._name!r}: Timed out after {seconds:g} s on rank "
                    f"{self.rank()}: {error}"
                ) from error
            except Exception:
                self._broken = self._broken or "out of step after an error"
                raise

        if self.size() == 1:
            guarded()
            return Done(tensors)
        return self._engine.run(guarded, tensors, later, name)

    def allreduce(self, tensors, opts=None, timeout=None):
        opts = _options(c10d.AllreduceOptions, opts, timeout)
        (tensor,) = _checked(tensors)
        if tensor.is_sparse:
            return self._run(
                "all_reduce",
                lambda deadline: all_reduce_sparse(self.transport, tensors[0], deadline),
                tensors,
                opts,
            )
        op = reduction(opts.reduceOp, tensor.dtype)

        def call(deadline: float) -> None:
            flat = _flat(tensor)
            self.transport.all_reduce(flat, op, deadline)
            _back(flat, tensor)

        return self._run("all_reduce", call, tensors, opts)

    def allreduce_coalesced(self, tensors, opts=None):
        opts = _options(c10d.AllreduceCoalescedOptions, opts)
        parts = _checked(tensors, count=None)
        if len({part.dtype for part in parts}) > 1:
            raise ValueError("all_reduce_coalesced needs tensors of one dtype")
        op = reduction(opts.reduceOp, parts[0].dtype)

        def call(deadline: float) -> None:
            flat = torch.cat([_flat(part) for part in parts])
            self.transport.all_reduce(flat, op, deadline)
            for part, new in zip(parts, flat.split([p.numel() for p in parts]), strict=True):
                part.copy_(new.view_as(part))

        return self._run("all_reduce_coalesced", call, tensors, opts)

    def reduce(self, tensors, opts=None, op=_SUM, timeout=None):
        opts = opts if isinstance(opts, c10d.ReduceOptions) else _rooted(opts, op, timeout)
        (tensor,) = _checked(tensors)
        op = reduction(opts.reduceOp, tensor.dtype)

        def call(deadline: float) -> None:
            flat = _flat(tensor)
            self.transport.reduce(flat, op, opts.rootRank, deadline)
            _back(flat, tensor)

        return self._run("reduce", call, tensors, opts)

    def broadcast(self, tensors, opts=None, timeout=None):
        opts = opts if isinstance(opts, c10d.BroadcastOptions) else _rooted(opts, None, timeout)
        (tensor,) = _checked(tensors)

        def call(deadline: float) -> None:
            flat = _flat(tensor)
            self.transport.broadcast(flat.view(torch.uint8), opts.rootRank, deadline)
            _back(flat, tensor)

        return self._run("broadcast", call, tensors, opts)

    def allgather(self, outputs, inputs, opts=None, timeout=None):
        opts = _options(c10d.AllgatherOptions, opts, timeout)
        outputs = outputs[0] if isinstance(outputs[0], (list, tuple)) else outputs
        (tensor,) = _checked(inputs)
        outputs_ = self._one_each(outputs, "all_gather")

        def call(deadline: float) -> None:
            with _Landing(outputs_) as landing:
                self.transport.all_gather(landing, _bytes(tensor), deadline)

        return self._run("all_gather", call, [outputs], opts)

    def all_gather_single(self, output, tensor, opts=None):
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        opts = _options(c10d.AllgatherOptions, opts)
        outputs_, inputs_ = _checked(outputs, None), _checked(inputs, None)
        for output, tensor in zip(outputs_, inputs_, strict=True):
            if output.numel() != tensor.numel() * self.size() or output.dtype != tensor.dtype:
                raise ValueError(
                    f"all_gather_into_tensor on {self.size()} ranks: an input {_spell(tensor)} "
                    f"needs an output {self.size()} times as large; got {_spell(output)}"
                )

        def call(deadline: float) -> None:
            for output, tensor in zip(outputs_, inputs_, strict=True):
                with _Landing([output]) as (landing,):
                    data = _bytes(tensor)
                    parts = [landing[r * len(data) :][: len(data)] for r in range(self.size())]
                    self.transport.all_gather(parts, data, deadline)

        return self._run("all_gather_into_tensor", call, outputs, opts)

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        opts = _options(c10d.AllgatherOptions, opts)
        inputs_ = _checked(inputs, None)
        lists = [_checked(outputs, None) for outputs in output_lists]
        if len(lists) == self.size() and all(len(o) == len(inputs_) for o in lists):
            lists = [list(outputs) for outputs in zip(*lists, strict=True)]  # [input][rank]

        def call(deadline: float) -> None:
            for outputs, tensor in zip(lists, inputs_, strict=True):
                with _Landing(outputs) as landing:
                    self.transport.all_gather(landing, _bytes(tensor), deadline)

        return self._run("all_gather_coalesced", call, output_lists, opts)

    def gather(self, outputs, inputs, opts=None, timeout=None):
        opts = opts if isinstance(opts, c10d.GatherOptions) else _rooted(opts, None, timeout)
        (tensor,) = _checked(inputs)
        root = opts.rootRank == self.rank()
        outputs_ = self._one_each(_nested(outputs), "gather") if root else []

        def call(deadline: float) -> None:
            with _Landing(outputs_) as landing:
                self.transport.gather(landing, _bytes(tensor), opts.rootRank, deadline)

        return self._run("gather", call, outputs, opts)

    def scatter(self, outputs, inputs, opts=None, timeout=None):
        opts = opts if isinstance(opts, c10d.ScatterOptions) else _rooted(opts, None, timeout)
        (output,) = _checked(outputs)
        root = opts.rootRank == self.rank()
        inputs_ = self._one_each(_nested(inputs), "scatter") if root else []

        def call(deadline: float) -> None:
            with _Landing([output]) as (landing,):
                parts = [_bytes(tensor) for tensor in inputs_]
                self.transport.scatter(landing, parts, opts.rootRank, deadline)

        return self._run("scatter", call, outputs, opts)

    def reduce_scatter(self, outputs, inputs, opts=None, timeout=None):
        opts = _options(c10d.ReduceScatterOptions, opts, timeout)
        (output,) = _checked(outputs)
        inputs_ = self._one_each(_nested(inputs), "reduce_scatter")
        return self._reduce_scatter([(output, inputs_)], outputs, opts)

    def reduce_scatter_single(self, output, tensor, opts=None):
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        opts = _options(c10d.ReduceScatterOptions, opts)
        jobs = []
        for output, tensor in zip(_checked(outputs, None), _checked(inputs, None), strict=True):
            if tensor.numel() != output.numel() * self.size() or output.dtype != tensor.dtype:
                raise ValueError(
                    f"reduce_scatter_tensor on {self.size()} ranks: an output {_spell(output)} "
                    f"needs an input {self.size()} times as large; got {_spell(tensor)}"
                )
            jobs.append((output, tensor.reshape(self.size(), -1).unbind(0)))
        return self._reduce_scatter(jobs, outputs, opts)

    def _reduce_scatter(self, jobs, outputs, opts):
        ops = [reduction(opts.reduceOp, output.dtype) for output, _ in jobs]

        def call(deadline: float) -> None:
            for (output, inputs), op in zip(jobs, ops, strict=True):
                flat = _flat(output)
                parts = [_flat(part) for part in inputs]
                self.transport.reduce_scatter(flat, parts, op, deadline)
                _back(flat, output)

        return self._run("reduce_scatter", call, outputs, opts)

    def alltoall(self, outputs, inputs, opts=None, timeout=None):
        opts = _options(c10d.AllToAllOptions, opts, timeout)
        outputs_ = self._one_each(outputs, "all_to_all")
        inputs_ = self._one_each(inputs, "all_to_all")

        def call(deadline: float) -> None:
            with _Landing(outputs_) as landing:
                self.transport.all_to_all(landing, [_bytes(t) for t in inputs_], deadline)

        return self._run("all_to_all", call, outputs, opts)

    def all_to_all_single(self, output, tensor, out_splits, in_splits, opts=None, timeout=None):
        opts = _options(c10d.AllToAllOptions, opts, timeout)
        outputs = self._split(_checked([output])[0], out_splits, "output")
        inputs = self._split(_checked([tensor])[0], in_splits, "input")

        def call(deadline: float) -> None:
            with _Landing(outputs) as landing:
                self.transport.all_to_all(landing, [_bytes(part) for part in inputs], deadline)

        return self._run("all_to_all_single", call, [output], opts)

    def barrier(self, opts=None, timeout=None):
        opts = _options(c10d.BarrierOptions, opts, timeout)
        return self._run("barrier", self.transport.barrier, [], opts)

    def monitored_barrier(self, timeout=None, wait_all_ranks: bool = False) -> None:
        """See :func:`helpers.torch_mpi.monitored_barrier`."""
        seconds = self._timeout if timeout is None else timeout
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        ranks = list(dist.get_process_group_ranks(self))
        self._barriers += 1
        point_to_point.monitored_barrier(
            self._control, ranks, self._barriers, seconds, wait_all_ranks
        )

    # Older names of the same operations, which parts of torch still call.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def send(self, tensors, rank: int, tag: int):
        (tensor,) = _checked(tensors)
        return self._messages.send(tensor, rank, tag)

    def recv(self, tensors, rank: int, tag: int):
        (tensor,) = _checked(tensors)
        return self._messages.receive(tensor, rank, tag)

    def recv_anysource(self, tensors, tag: int):
        return self.recv(tensors, MPI.ANY_SOURCE, tag)

    # Coalescing as a bracket: operations run as they come, and the end waits for all of them.

    def _start_coalescing(self, device=None) -> None:
        pass

    def _end_coalescing(self, device=None):
        return self._run("coalesced", lambda deadline: None, [], c10d.BarrierOptions())

    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing

    def _one_each(self, tensors, name: str) -> list[torch.Tensor]:
        if len(tensors) != self.size():
            raise ValueError(
                f"{name} on {self.size()} ranks needs a list of {self.size()} tensors, one for "
                f"each rank; got {len(tensors)}"
            )
        return _checked(tensors, None)

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


class _Landing:
    """Byte views of tensors to receive into; those that are not contiguous are filled at exit."""

    def __init__(self, tensors: list[torch.Tensor]):
        self._tensors = tensors
        self._parts = [_flat(tensor) for tensor in tensors]

    def __enter__(self) -> list[torch.Tensor]:
        return [flat.view(torch.uint8) for flat in self._parts]

    def __exit__(self, kind, error, trace) -> None:
        if kind is None:
            for flat, tensor in zip(self._parts, self._tensors, strict=True):
                _back(flat, tensor)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """One-dimensional, of stride 1: a view where possible, else a copy."""
    dense = tensor.contiguous()
    return dense.as_strided((dense.numel(),), (1,))  # one element may claim any stride


def _back(flat: torch.Tensor, tensor: torch.Tensor) -> None:
    """Write ``flat`` back where reshaping had to copy."""
    if flat.data_ptr() != tensor.data_ptr():
        tensor.copy_(flat.view(tensor.shape))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return _flat(tensor).view(torch.uint8)


def _nested(tensors):
    return tensors[0] if tensors and isinstance(tensors[0], (list, tuple)) else tensors


def _spell(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)} of {tensor.dtype}"


def _checked(tensors, count: int | None = 1) -> list[torch.Tensor]:
    """The tensors without their autograd history; refuses those not in this machine's memory."""
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
    if count is not None and len(tensors) != count:
        raise ValueError(f"expected {count} tensor per rank, got {len(tensors)}")
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise ValueError(
                f"the backend mpi4py moves tensors in the memory of the CPU; got one on "
                f"{tensor.device}. Use init_process_group('nccl') for CUDA tensors, or send "
                "tensor.cpu()"
            )
    return [tensor.detach() for tensor in tensors]


def _options(kind, opts, timeout=None):
    """Torch calls with an options object; its older signatures pass a reduce op, or nothing."""
    if isinstance(opts, kind):
        return opts
    made = kind()
    if opts is not None and hasattr(made, "reduceOp"):
        made.reduceOp = opts
    made.asyncOp = False
    if timeout is not None:
        made.timeout = timeout
    return made


def _rooted(root, op, timeout):
    made = c10d.ReduceOptions()
    made.rootRank = root or 0
    made.reduceOp = op or _SUM
    made.asyncOp = False
    if timeout is not None:
        made.timeout = timeout
    return made
