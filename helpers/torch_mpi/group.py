"""``ProcessGroupMPI4Py``: the life of one process group, from the rendezvous to its shutdown."""

from __future__ import annotations

from datetime import timedelta
from types import FunctionType
from typing import Any

import torch.distributed as dist
from mpi4py import MPI
from torch._C import _distributed_c10d as c10d
from torch._C._dynamo import eval_frame

from helpers.machine.waiting import until
from helpers.torch_mpi.collectives import Collectives
from helpers.torch_mpi.handles import Announced
from helpers.torch_mpi.layout import checked
from helpers.torch_mpi.messages import PointToPoint
from helpers.torch_mpi.moving import Moving, Tensors
from helpers.torch_mpi.network import Network
from helpers.torch_mpi.rendezvous import connect, retire, window_for
from helpers.torch_mpi.runner import Runner, deadline_after
from helpers.torch_mpi.transport import Options, Transport


class ProcessGroupMPI4Py(Collectives):
    """One process group of the backend ``"mpi4py"`` (collective); torch makes it.

    TypeError if the options are another backend's; RuntimeError if not all ranks have come, or not
    of one MPI job, or ``Options("window")`` is not to be had.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        name: str = "",
        options: Options | None = None,
    ):
        if not (options is None or isinstance(options, Options)):
            raise TypeError(f"pg_options expects helpers.torch_mpi.Options; got {options!r}")
        path, name = (options or Options()).path, name or "default"
        self._comm, self._ranks, reusable = connect(store, rank, size, timeout, name)
        self._control = self._comm.Dup()
        self._window = None
        if path != "network":
            self._window = window_for(self._comm, reusable, needed=path == "window")
        if path == "window" and self._window is None:
            raise RuntimeError(
                "path='window' expects all ranks on one host, with memory to share; got none: "
                "use path='network' or 'auto'"
            )
        if reusable is not None and self._window is None:
            retire(self._ranks, reusable)
        transport: Transport = self._window or Network(self._comm)
        seconds = timeout.total_seconds()
        runner = Runner(name, transport, seconds, self._comm)
        super().__init__(name, store, transport, runner)
        self._messages = PointToPoint(self._comm, "torch_mpi", seconds, transport.departed)
        self._barriers = 0

    def set_timeout(self, timeout: timedelta) -> None:
        """Change the time limit of operations that have none of their own."""
        self._runner.set_timeout(timeout)
        self._messages.set_timeout(timeout)

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Release the group on this rank; what is unfinished raises there."""
        if self._runner.broken == "destroyed":
            return
        idle = self._runner.close()
        self._messages.close()
        if idle and self._window is not None:
            retire(self._ranks, self._window)
        if idle:
            self._comm.Free()
            self._control.Free()

    abort = shutdown

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Wait for every rank; see :func:`helpers.torch_mpi.monitored_barrier`."""
        seconds = self._runner.seconds if timeout is None else timeout
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        ranks = list(dist.get_process_group_ranks(self))
        self._barriers += 1
        monitored_barrier(self._control, ranks, self._barriers, seconds, wait_all_ranks)

    def send(self, tensors: Tensors, rank: int, tag: int) -> dist.Work:
        """Begin to send a tensor."""
        (tensor,) = checked(tensors)
        return self._messages.send(tensor, rank, tag)

    def recv(self, tensors: Tensors, rank: int, tag: int) -> dist.Work:
        """Begin to receive into a tensor."""
        (tensor,) = checked(tensors)
        return self._messages.receive(tensor, rank, tag)

    def recv_anysource(self, tensors: Tensors, tag: int) -> dist.Work:
        """Begin to receive into a tensor from whoever sends first, the handle's ``source_rank``."""
        return self.recv(tensors, MPI.ANY_SOURCE, tag)

    # Coalescing as a bracket: operations run as they come, and the end waits for all of them.

    def start_coalescing(self, device: Any = None) -> None:
        """Open the bracket."""

    def end_coalescing(self, device: Any = None) -> dist.Work:
        """Close the bracket: return a handle that ends after all operations in it."""
        return self._run("coalesced", lambda deadline: None, [], c10d.BarrierOptions())

    _start_coalescing, _end_coalescing = start_coalescing, end_coalescing


def monitored_barrier(
    comm: MPI.Intracomm, ranks: list[int], turn: int, timeout: float, wait_all_ranks: bool = False
) -> None:
    """Return once every rank has called this; after ``timeout`` seconds raise RuntimeError.

    Rank 0's names those that have not come, by their numbers in the default group, ``ranks``.
    ``comm`` is a communicator that nothing else uses. ``turn`` counts the calls, so that a rank
    that comes too late is not taken for one that comes to the next barrier.
    """
    token, deadline = bytearray(1), deadline_after(timeout)
    arrive, leave = 2 * turn % 32_000, 2 * turn % 32_000 + 1  # tags: every MPI has 32 767

    def finish(request: MPI.Request, other: int) -> bool:
        try:
            until(
                request.Test,
                deadline,
                lambda: TimeoutError("missing"),
                lambda: Announced(comm, "monitored_barrier", other),
            )
        except TimeoutError:
            request.Cancel()
            return False
        return True

    rank = comm.Get_rank()
    if rank != 0:
        comm.Isend([token, MPI.BYTE], 0, arrive)
        if not finish(comm.Irecv([token, MPI.BYTE], 0, leave), 0):
            raise RuntimeError(
                f"Rank {ranks[rank]} successfully reached monitoredBarrier, but received errors "
                f"while waiting for send/recv from rank {ranks[0]}: no answer in {timeout:g} s. "
                f"Please check rank {ranks[0]}'s report for the rank that did not arrive"
            )
        return
    if timeout <= 0:
        raise RuntimeError(f"Rank {ranks[0]} timed out in monitoredBarrier after {timeout:g} s")
    waiting = {r: comm.Irecv([bytearray(1), MPI.BYTE], r, arrive) for r in range(1, len(ranks))}
    missing: list[int] = []
    for other, request in waiting.items():
        if missing and not wait_all_ranks:
            request.Cancel()
        elif not finish(request, other):
            missing.append(ranks[other])
    if missing:
        names = ", ".join(map(str, missing))
        raise RuntimeError(
            f"Rank{'s' if wait_all_ranks else ''} {names} failed to pass monitoredBarrier in "
            f"{timeout:g} s"
        )
    for other in waiting:
        comm.Isend([token, MPI.BYTE], other, leave)


def _leave_untraced(group: type) -> None:
    """Tell TorchDynamo to run the group's methods as they are, and what they call.

    In a compiled program torch calls them as Python functions: without this they are traced too.
    """
    skip = eval_frame._FrameAction.SKIP
    for kind in group.__mro__[: group.__mro__.index(Moving) + 1]:
        for function in vars(kind).values():
            if isinstance(function, FunctionType):
                strategy = eval_frame._FrameExecStrategy(skip, skip)
                eval_frame.set_code_exec_strategy(function.__code__, strategy)


_leave_untraced(ProcessGroupMPI4Py)
