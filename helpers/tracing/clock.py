"""How far apart the clocks of the ranks are, measured by messages.

Cristian (1989), "Probabilistic clock synchronization"; NTP does the same. A rank notes its time,
asks rank 0 for its time, and notes its own again: the answer was given somewhere in between. Its
best guess is the middle, wrong by at most half the round trip, so of several rounds the quickest
counts. Ranks of one computer read the same clock: their offset is 0 unless the round trips say no.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.machine.waiting import until

if TYPE_CHECKING:
    from mpi4py import MPI

ROUNDS = 30
PATIENCE = 30.0  # seconds
SPIN = 50  # polls, of about a microsecond
NAP = 1e-4  # seconds between two looks for a rank that has not joined yet
_TAG = 1


@dataclass(frozen=True)
class Clock:
    """One rank's clock against rank 0's.

    ``readings`` have (local time, offset, uncertainty) of each measurement, in ns. The offset is
    this rank's ``time.perf_counter_ns()`` minus rank 0's at the same moment; the uncertainty is
    half the round trip of the question: the offset is not further off than that.

    >>> ahead = Clock(((1_000, 200, 10),))
    >>> ahead.to_root(1_500)
    1300
    """

    readings: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)

    @property
    def offset(self) -> int:
        """The offset of the most certain reading, in ns."""
        return min(self.readings, key=lambda reading: reading[2])[1]

    @property
    def uncertainty(self) -> int:
        """The largest uncertainty among the readings, in ns."""
        return max(reading[2] for reading in self.readings)

    def __add__(self, later: Clock) -> Clock:
        """Both clocks' readings: between them the offset is taken to drift evenly."""
        return Clock(tuple(sorted(self.readings + later.readings)))

    def to_root(self, local: int) -> int:
        """Translate this rank's ``time.perf_counter_ns()`` to rank 0's at that moment, in ns."""
        first, last = self.readings[0], self.readings[-1]
        span = last[0] - first[0]
        # A drift that lies within the uncertainty of its measurement is none.
        if span <= 0 or abs(last[1] - first[1]) <= first[2] + last[2]:
            return local - self.offset
        share = min(max((local - first[0]) / span, 0.0), 1.0)
        return local - round(first[1] + share * (last[1] - first[1]))


def measure_offset(comm: MPI.Intracomm) -> Clock:
    """Measure this rank's clock against that of rank 0; every rank must call it.

    Takes about a millisecond for each rank: of 30 questions the quickest counts.
    TimeoutError if a rank has not joined in 30 seconds.
    """
    from mpi4py import MPI

    deadline = time.monotonic() + PATIENCE
    # Messages of a communicator of its own cannot be taken for the reader's. MPI.Intracomm.Dup
    # would wait inside MPI for a rank that never joins; a request can be given up.
    private, request = MPI.Intracomm(comm).Idup()
    _wait(request.Test, deadline)
    now = time.perf_counter_ns  # looked up late: a test shifts it
    clock = Clock()
    if private.rank == 0:
        for peer in range(1, private.size):
            private.send(_booted(), peer, _TAG)  # your turn
            for _ in range(ROUNDS):
                _receive(private, peer)
                private.send(now(), peer, _TAG)
    else:
        # Ranks that share cores must not spin while others measure.
        _wait(lambda: private.iprobe(source=0, tag=_TAG), deadline)
        one_computer = private.recv(source=0, tag=_TAG) == _booted()
        readings: list[tuple[int, int, int]] = []
        for _ in range(ROUNDS):
            begin = now()
            private.send(None, 0, _TAG)
            root = _receive(private, 0)
            end = now()
            readings.append(((end - begin + 1) // 2, (begin + end) // 2 - root, end))
        uncertainty, offset, at = min(readings)
        if one_computer and abs(offset) <= uncertainty:
            uncertainty = offset = 0
        clock = Clock(((at, offset, uncertainty),))
    # Nor spin in their own work already, and the work begins together.
    _wait(private.Ibarrier().Test, deadline)
    private.Free()
    return clock


def _booted() -> str:
    """Return what all processes of one running computer have in common, and no others."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:  # no Linux
        return socket.gethostname()


def _receive(comm: MPI.Intracomm, source: int) -> Any:
    """Receive, spinning for a moment only: two ranks may have one core between them."""
    polls = 0
    while not comm.iprobe(source=source, tag=_TAG):
        polls += 1
        if polls > SPIN:
            os.sched_yield()
    return comm.recv(source=source, tag=_TAG)


def _wait(ready: Callable[[], bool], deadline: float) -> None:
    late = f"not all ranks joined in measuring the clocks within {PATIENCE} s"
    until(ready, deadline, lambda: TimeoutError(late), spins=1, yield_for=0.0, nap=NAP)
