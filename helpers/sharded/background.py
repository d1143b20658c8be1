"""Messages that go on while their rank computes, and spans of time for a picture of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple


class Span(NamedTuple):
    """What a rank did, and when."""

    lane: str  # "compute" or "network"
    name: str
    begin: float  # s of perf_counter, which the ranks of one computer share
    end: float


class Channel:
    """A duplicate of a communicator, on which jobs run in order: in a thread if ``background``."""

    def __init__(self, comm: Any, background: bool = False):
        from mpi4py import MPI

        if background and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise RuntimeError("a channel in the background expects MPI with MPI_THREAD_MULTIPLE")
        self.comm = comm.Dup()
        self.background = background
        self.spans: list[Span] = []
        self._thread = ThreadPoolExecutor(1, "channel") if background else None

    def post(self, name: str, job: Callable[[Any], Any]) -> Future:
        """Hand in ``job(comm)``; what it touches is the caller's again once the future is done."""
        if self._thread is not None:
            return self._thread.submit(self._do, name, job)
        done: Future = Future()
        done.set_result(self._do(name, job))
        return done

    def _do(self, name: str, job: Callable[[Any], Any]) -> Any:
        with self.span("network", name):
            return job(self.comm)

    @contextmanager
    def span(self, lane: str, name: str) -> Iterator[None]:
        """Note when a block ran."""
        begin = perf_counter()
        yield
        self.spans.append(Span(lane, name, begin, perf_counter()))

    def close(self) -> None:
        """End the thread, and free the communicator. All ranks call it."""
        if self._thread is not None:
            self._thread.shutdown()
        self.comm.Free()
