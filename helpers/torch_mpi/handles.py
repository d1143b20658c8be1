"""The handles that collectives return: of one that has ended, and of one that is under way."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import Work

_WAITING = ("torch/autograd/graph.py", "torch/futures/__init__.py")


class Announced:
    """Says of a wait whom it is for, while its block lasts, where someone watches.

    :mod:`helpers.tracing` watches through communicators that have a ``recorder``; on others this
    does nothing. The main thread's waits alone, and those that it waits for inside torch (DDP's, in
    ``backward``): beside the others the rank computes.
    """

    def __init__(self, comm: Any, call: str, peer: int | str = "all", tag: int | None = None):
        self._recorder = getattr(comm, "recorder", None)
        self._beside = threading.current_thread() is not threading.main_thread()
        if self._recorder is not None:
            self._what = comm.waiting(call, peer, tag)

    def renew(self) -> None:
        """Say it again: polling MPI meanwhile has overwritten it."""
        if self._recorder is not None and (not self._beside or _main_thread_is_in_torch()):
            self._recorder.current = self._what

    def __enter__(self) -> Announced:
        self.renew()
        return self

    def __exit__(self, *error: object) -> None:
        if self._recorder is not None and self._recorder.current is self._what:
            self._recorder.current = None


def _main_thread_is_in_torch() -> bool:
    """Tell whether it is in the C++ of ``backward`` or of a future's ``wait``."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and frame.f_code.co_filename.endswith(_WAITING)


_NONE = timedelta(0)


class Handle(Work):
    """What the handles of all operations have in common: ``wait`` and ``is_completed`` differ."""

    _tensors: Sequence = ()
    _error: BaseException | None = None

    def synchronize(self) -> None:
        """Return once the operation has ended; raise what it raised."""
        self.wait()

    def exception(self) -> BaseException | None:
        """Return what the operation raised, if it did."""
        return self._error

    def result(self) -> list:
        """Return the operation's tensors once it has ended."""
        self.wait()
        return list(self._tensors)


class Done(Handle):
    """The handle of an operation that ended before its call returned: what fails raises there."""

    def __init__(self, tensors: Sequence):
        super().__init__()
        self._tensors = tensors

    def wait(self, timeout: timedelta = _NONE) -> bool:
        """Return at once."""
        return True

    def is_completed(self) -> bool:
        """Return True."""
        return True

    def get_future(self) -> torch.futures.Future:
        """Return a future that holds the tensors already."""
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(self._tensors)
        return future


class Pending(Handle):
    """The handle of an operation that the group's thread runs.

    ``announce`` makes what says that the main thread waits for it. ``help_on`` is called with this
    handle before a wait: on the thread that is to run the operation, and that runs a callback now,
    it runs what is queued up to this operation.
    """

    def __init__(
        self,
        call: Callable[[], None],
        tensors: Sequence,
        label: str,
        announce: Callable[[], Announced],
        help_on: Callable[[Pending], None],
    ):
        super().__init__()
        self._call: Callable[[], None] | None = call
        self._tensors, self._label = tensors, label
        self._announce, self._help_on = announce, help_on
        self._ended = threading.Event()
        self._promise: torch.futures.Future | None = None
        self._future: torch.futures.Future | None = None  # the promise's value, or the error
        self._owed = False  # whether the future was asked for before the end
        self._lock = threading.Lock()

    def run(self) -> None:
        """Execute the operation on the calling thread and wake those who wait."""
        assert self._call is not None, "an operation runs once"
        try:
            self._call()
        except BaseException as error:
            self._error = error
        self._call = None
        with self._lock:
            self._owed = self._future is not None
            self._ended.set()

    @property
    def owed(self) -> bool:
        """Whether a future was asked for before the end, and :meth:`settle` is to complete it."""
        return self._owed

    def settle(self) -> None:
        """Complete the future that was asked for before the end; its callbacks run here."""
        assert self._promise is not None, "owed says whether there is one"
        self._promise.set_result(None)

    def _outcome(self, _: object) -> Sequence:
        """Return the tensors, or raise: what raises here is an error to C++, too.

        ``Future.set_exception`` hands C++ the exception as a value, and DDP reads memory there.
        """
        if self._error is not None:
            raise self._error
        return self._tensors

    def wait(self, timeout: timedelta = _NONE) -> bool:
        """Return once the operation has ended; raise what it raised, or after ``timeout``
        RuntimeError.

        A ``timeout`` of zero waits as long as the operation takes.
        """
        seconds = timeout.total_seconds() if timeout else 0
        if not self._ended.is_set():
            self._help_on(self)
        if not self._ended.is_set():
            with self._announce():
                self._ended.wait(seconds if seconds > 0 else None)
        if not self._ended.is_set():
            raise RuntimeError(f"{self._label}: not finished within {seconds} s")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Return whether the operation has ended."""
        return self._ended.is_set()

    def get_future(self) -> torch.futures.Future:
        """Return the future of the operation's tensors; it is always the same."""
        with self._lock:
            late = self._future is None and self._ended.is_set()
            if self._future is None:
                self._promise = torch.futures.Future()
                self._future = self._promise.then(self._outcome)
            if late:  # nobody has it yet, so no callback of theirs runs
                self.settle()
        return self._future
