"""The thread that runs the collectives asked for with ``async_op``, and the order of all of them.

A future's callbacks may call collectives, and wait for them (PowerSGD's hook does). Its operation
is the last that the thread has run, and what the callbacks call comes next, before whatever the
caller has called since: the same order on every rank, however the ranks' threads are scheduled.
While the callbacks run, another thread moves the messages that they wait for.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence

from torch.distributed import Work

from helpers.torch_mpi.announced import Announced
from helpers.torch_mpi.handles import Done, Pending

KEPT, SMALL = 16, 64  # handles, bytes: what DDP keeps in C++ alone, see `run`


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
    ) -> Work:
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
