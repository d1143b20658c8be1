"""How a group runs its operations: in order, each with a time limit, until one of them fails.

What is asked for with ``async_op`` runs on a thread. A future's callbacks may call collectives, and
wait for them (PowerSGD's hook does). Its operation is the last that the thread has run, and what
the callbacks call comes next, before whatever the caller has called since: the same order on every
rank, however the ranks' threads are scheduled. While the callbacks run, another thread moves the
messages that they wait for.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from helpers.machine.waiting import ClosedError
from helpers.torch_mpi.handles import Announced, Done, Pending
from helpers.torch_mpi.layout import refuse_overlaps
from helpers.torch_mpi.transport import DepartedError, Transport

FINISH = 3.0  # seconds that a group which is destroyed gives to what it has been asked for
KEPT, SMALL = 16, 64  # handles, bytes: what DDP keeps in C++ alone, see `run`


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


class CollectiveThread:
    """Runs one group's collectives in the order of their calls.

    A call that its caller waits for anyway runs at once, on the caller's thread (no hand-over: that
    costs more than a small message). The others are run by one thread, begun with the first of
    them, while the caller computes: torch and NumPy release the interpreter in their loops.
    """

    def __init__(self, name: str):
        self._name = name
        self._lock = threading.RLock()
        self._queue: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._ident: int | None = None
        self._kept: deque[Pending] = deque(maxlen=KEPT)
        self._callbacks: CollectiveThread | None = None  # while an operation's callbacks run here

    def run(
        self,
        call: Callable[[], None],
        tensors: Sequence,
        later: bool,
        label: str,
        announce: Callable[[], Announced],
    ) -> dist.Work:
        """Run ``call()`` now, or later on the thread; return a handle, ended unless ``later``.

        ``announce`` makes what says that the main thread waits for it.
        """
        if self._callbacks is not None and (inner := self._level()) is not self:
            return inner.run(call, tensors, later, label, announce)
        if not later:
            with self._lock:
                if self._waiting == 0:
                    call()
                    return Done(tensors)
        work = Pending(call, tensors, label, announce, self._help)
        # Under `Join`, DDP keeps its vote's handle from the forward pass to the backward in C++,
        # which does not keep the Python half: without it, C++ would wait for the half that is left.
        if sum(getattr(tensor, "nbytes", SMALL) for tensor in tensors) < SMALL:
            self._kept.append(work)
        with self._lock:
            self._waiting += 1
            self._queue.put(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
        if not later:
            work.wait()
        return work

    def _level(self) -> CollectiveThread:
        """Return what runs the calls of this thread: if it runs callbacks, a thread beside it."""
        me, level = threading.get_ident(), self
        while (inner := level._callbacks) is not None:
            if level._ident == me:
                return inner
            level = inner
        return self

    def _serve(self) -> None:
        self._ident = threading.get_ident()
        while (work := self._queue.get()) is not None:
            self._execute(work)
            del work  # or this frame would keep the tensors of the last operation alive

    def _execute(self, work: Pending) -> None:
        work.run()
        if work.owed:
            outer, self._callbacks = self._callbacks, CollectiveThread(self._name)
            work.settle()
            self._callbacks.close()  # what they called without waiting for it ends first
            self._callbacks = outer
        with self._lock:
            self._waiting -= 1

    def _help(self, work: Pending) -> None:
        """Run what is queued up to ``work``, if a callback on this very thread waits for it."""
        if self._callbacks is None or threading.get_ident() != self._ident:
            return
        self._callbacks.close()
        while not work.is_completed() and (following := self._queue.get()) is not None:
            self._execute(following)

    def close(self, timeout: float | None = None) -> None:
        """Let the thread finish what is queued; the next operation begins another."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._queue.put(None)
            self._thread.join(timeout)
            if not self._thread.is_alive():
                self._thread = None

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or running on the thread."""
        return self._waiting == 0
