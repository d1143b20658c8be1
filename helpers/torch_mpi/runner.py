"""How a group runs its operations: in order, each with a time limit, until one of them fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from helpers.machine.waiting import ClosedError
from helpers.torch_mpi.announced import Announced
from helpers.torch_mpi.collective_thread import CollectiveThread
from helpers.torch_mpi.handles import Done
from helpers.torch_mpi.layout import refuse_overlaps
from helpers.torch_mpi.transport import DepartedError, Transport

FINISH = 3.0  # seconds that a group which is destroyed gives to what it has been asked for


def deadline_after(seconds: float) -> float:
    """Return the moment so many seconds from now, in seconds on ``time.monotonic``'s clock."""
    return time.monotonic() + seconds


class Runner:
    """Runs the operations of one group.

    Waits are announced on ``comm``, where someone watches it. ``broken`` says why the group cannot
    be used any more, or is None; ``sequence`` counts the operations that have been called.
    """

    def __init__(self, name: str, transport: Transport, seconds: float, comm: Any = None):
        self.name, self.seconds = name, seconds
        self.broken: str | None = None
        self.sequence = 0
        self._transport, self._comm = transport, comm
        self._thread = CollectiveThread(f"torch_mpi {name}")

    def run(
        self,
        name: str,
        call: Callable[[float], None],
        tensors: Sequence,
        opts: Any,
        dtype: torch.dtype | None = None,
    ) -> dist.Work:
        """Run an operation now, or on the thread if the caller does not want to wait.

        ``call`` is handed its deadline. Torch's ``opts`` say ``timeout`` (zero: the group's) and
        ``asyncOp``; ``dtype`` is that of what is moved as bytes. DistBackendError if the group is
        broken, if the other ranks did not come in time, or one of them has left; ValueError if
        elements of a tensor that is to be written to share memory, or there is no such root.
        """
        limit = opts.timeout.total_seconds()
        seconds = limit if limit > 0 else self.seconds
        if self.broken:
            raise dist.DistBackendError(
                f"{name} on group {self.name!r}: the group is {self.broken}; call "
                "destroy_process_group() and init_process_group() on all ranks"
            )
        refuse_overlaps(tensors)
        root, size = getattr(opts, "rootRank", 0), self._transport.size
        if not 0 <= root < size:
            raise ValueError(f"{name} expects a root from 0 to {size - 1}; got {root}")
        self.sequence += 1
        if size == 1:
            self._guarded(name, dtype, call, seconds)
            return Done(tensors)
        later = opts.asyncOp
        guarded = partial(self._guarded, name, dtype, call, seconds, later)
        announce = partial(Announced, self._comm, name)
        return self._thread.run(guarded, tensors, later, name, announce)

    def _guarded(
        self,
        name: str,
        dtype: torch.dtype | None,
        call: Callable[[float], None],
        seconds: float,
        patient: bool = False,
    ) -> None:
        self._transport.call, self._transport.dtype = name, dtype
        self._transport.patient = patient
        try:
            call(deadline_after(seconds))
        except TimeoutError as error:
            self.broken = self.broken or "out of step after a time-out"
            raise dist.DistBackendError(
                f"{name} on group {self.name!r}: Timed out after {seconds:g} s on rank "
                f"{self._transport.rank}: {error}"
            ) from error
        except DepartedError as error:
            self.broken = self.broken or f"out of step: {error}"
            raise dist.DistBackendError(
                f"{name} on group {self.name!r}: on rank {self._transport.rank}: {error}"
            ) from error
        except ClosedError as error:
            raise ClosedError("the process group was destroyed during this operation") from error
        except BaseException as error:
            cause = "an error" if isinstance(error, Exception) else "an interrupt"
            self.broken = self.broken or f"out of step after {cause}"
            raise

    def set_timeout(self, timeout: timedelta) -> None:
        """Change the time limit of operations that have none of their own."""
        self.seconds = timeout.total_seconds()

    def close(self) -> bool:
        """Refuse further operations, end those under way, and return whether nothing runs now."""
        self.broken = "destroyed"
        self._thread.close(timeout=FINISH)
        self._transport.close()  # what still waits for other ranks raises now
        self._thread.close(timeout=1.0)
        return self._thread.idle
