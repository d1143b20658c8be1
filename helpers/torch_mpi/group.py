"""``ProcessGroupMPI4Py``: the life of one process group, from the rendezvous to its shutdown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import torch.distributed as dist
from mpi4py import MPI
from torch._C import _distributed_c10d as c10d

from helpers.torch_mpi import point_to_point
from helpers.torch_mpi.collectives import Collectives
from helpers.torch_mpi.handles import Done, Engine, deadline_after
from helpers.torch_mpi.layout import checked
from helpers.torch_mpi.network import Network
from helpers.torch_mpi.rendezvous import connect, retire, window_for
from helpers.torch_mpi.waiting import Told

_PATHS = ("auto", "window", "network")


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


class ProcessGroupMPI4Py(Collectives):
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

    def _run(self, name: str, call: Callable[[float], None], tensors: list, opts) -> dist.Work:
        """Run ``call(deadline)`` now, or on the thread if the caller does not want to wait."""
        limit = opts.timeout.total_seconds()
        seconds = limit if limit > 0 else self._timeout
        if self._broken:
            raise dist.DistBackendError(
                f"{name} on group {self._name!r}: the group is {self._broken}; call "
                "destroy_process_group() and init_process_group() on all ranks"
            )
        self._sequence += 1
        if self.transport.size == 1:
            self._guarded(name, call, seconds)
            return Done(tensors)
        later = opts.asyncOp
        guarded = partial(self._guarded, name, call, seconds, later)
        return self._engine.run(guarded, tensors, later, name, partial(Told, self._comm, name))

    def _guarded(
        self, name: str, call: Callable[[float], None], seconds: float, patient: bool = False
    ) -> None:
        self.transport.call, self.transport.patient = name, patient
        try:
            call(deadline_after(seconds))
        except TimeoutError as error:
            self._broken = self._broken or "out of step after a time-out"
            raise dist.DistBackendError(
                f"{name} on group {self._name!r}: Timed out after {seconds:g} s on rank "
                f"{self.rank()}: {error}"
            ) from error
        except BaseException as error:
            cause = "an error" if isinstance(error, Exception) else "an interrupt"
            self._broken = self._broken or f"out of step after {cause}"
            raise

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

    def send(self, tensors, rank: int, tag: int):
        (tensor,) = checked(tensors)
        return self._messages.send(tensor, rank, tag)

    def recv(self, tensors, rank: int, tag: int):
        (tensor,) = checked(tensors)
        return self._messages.receive(tensor, rank, tag)

    def recv_anysource(self, tensors, tag: int):
        return self.recv(tensors, MPI.ANY_SOURCE, tag)

    # Coalescing as a bracket: operations run as they come, and the end waits for all of them.

    def _start_coalescing(self, device=None) -> None:
        pass

    def _end_coalescing(self, device=None):
        return self._run("coalesced", lambda deadline: None, [], c10d.BarrierOptions())

    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing
