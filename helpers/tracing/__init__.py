"""Watch and record MPI calls: in any script under ``mpiexec``, or on the ranks of a notebook.

    from mpi4py import MPI
    from helpers.tracing import gather, record, save_chrome

    with record(MPI.COMM_WORLD) as comm:
        work(comm)  # every call on comm, and on what is made from it, is kept
    trace = gather(comm)  # a Trace on rank 0, None elsewhere
    if trace is not None:
        print(trace.bytes_sent(), trace.steps())
        save_chrome(trace, "trace.json")  # for ui.perfetto.dev

``trace.to_json()`` keeps the whole trace, for ``Trace.from_json`` elsewhere. What one process does
right now stands in ``comm.recorder.current``; :func:`install` watches ``MPI.COMM_WORLD`` itself,
for libraries that take no communicator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.tracing.activity import Call, Recorder
from helpers.tracing.chrome import save_chrome, to_chrome
from helpers.tracing.clock import Clock, measure_offset
from helpers.tracing.recording import build, gather, record
from helpers.tracing.trace import Event, Message, Trace

if TYPE_CHECKING:
    from helpers.tracing.communicator import TracedComm, install, uninstall

__all__ = [
    "Call",
    "Clock",
    "Event",
    "Message",
    "Recorder",
    "Trace",
    "TracedComm",
    "build",
    "gather",
    "install",
    "measure_offset",
    "record",
    "save_chrome",
    "to_chrome",
    "uninstall",
]


def __getattr__(name: str) -> object:
    """Import what needs mpi4py when it is asked for: to import mpi4py starts MPI."""
    if name in ("TracedComm", "install", "uninstall"):
        from helpers.tracing import communicator

        return getattr(communicator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
