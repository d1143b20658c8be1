"""The handles that collectives return, and the thread that runs those asked for with async_op."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import torch
from torch.distributed import Work

from helpers.torch_mpi.waiting import Told

_NONE = timedelta(0)


class Done(Work):
    """The handle of an operation that ended before its call returned."""

    def __init__(self, tensors: list):
        super().__init__()
        self._tensors = tensors

    def wait(self, timeout: timedelta = _NONE) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self):
        return None

    def synchronize(self) -> None:
        pass

    def result(self) -> list:
        return self._tensors

    def get_future(self) -> torch.futures.Future:
        future = torch.futures.Future()
        future.set_result(self._tensors)
        return future


class Pending(Work):
    """The handle of an operation that the group's thread runs; ``wait`` raises what it raised."""

    def __init__(
        self, call: Callable[[], None], tensors: list, label: str, told: Callable[[], Told]
    ):
        super().__init__()
        self._call, self._tensors, self._label, self._told = call, tensors, label, told
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._future: torch.futures.Future | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        """Execute the operation on the calling thread and wake those who wait."""
        try:
            self._call()
        except BaseException as error:
            self._error = error
        self._call = None
        with self._lock:
            self._ended.set()
            future = self._future
        if future is not None:
            self._settle(future)

    def _settle(self, future: torch.futures.Future) -> None:
        if self._error is None:
            future.set_result(self._tensors)
        else:
            future.set_exception(self._error)

    def wait(self, timeout: timedelta = _NONE) -> bool:
        seconds = timeout.total_seconds() if timeout else 0
        if not self._ended.is_set():
            with self._told():
                self._ended.wait(seconds if seconds > 0 else None)
        if not self._ended.is_set():
            raise RuntimeError(f"{self._label}: not finished within {seconds} s")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def is_success(self) -> bool:
        return self._ended.is_set() and self._error is None

    def exception(self):
        return self._error

    def result(self) -> list:
        self.wait()
        return self._tensors

    def get_future(self) -> torch.futures.Future:
        with self._lock:
            if self._future is None:
                self._future = torch.futures.Future()
                settled = self._ended.is_set()
            else:
                settled = False
        if settled:
            self._settle(self._future)
        return self._future


class Engine:
    """Runs one group's collectives in the order of their calls.

    A call that its caller waits for anyway runs at once, on the caller's thread (no hand-over: that
    costs more than a small message). The others are run by one thread, begun with the first of
    them, while the caller computes: torch and NumPy release the interpreter in their loops.
    """

    def __init__(self, name: str):
        self._name = name
        self._lock = threading.RLock()
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._waiting = 0
        self._thread: threading.Thread | None = None

    def run(
        self,
        call: Callable[[], None],
        tensors: list,
        later: bool,
        label: str,
        told: Callable[[], Told],
    ) -> Work:
        """Run ``call()`` now, or ``later`` on the thread; return a handle with ``tensors``."""
        if not later:
            with self._lock:
                if self._waiting == 0:
                    call()
                    return Done(tensors)
        work = Pending(call, tensors, label, told)
        with self._lock:
            self._waiting += 1
            self._queue.put(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
        if not later:
            work.wait()
        return work

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            work.run()
            with self._lock:
                self._waiting -= 1
            del work  # or this frame would keep the tensors of the last operation alive

    def close(self, timeout: float) -> None:
        """Let the thread finish what is queued, at most ``timeout`` seconds."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout)

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or running on the thread."""
        return self._waiting == 0


def deadline_after(seconds: float) -> float:
    """The moment ``seconds`` from now, on the clock that deadlines use."""
    return time.monotonic() + seconds
