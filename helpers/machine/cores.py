"""Who has a core: the threads of some processes, looked at every few milliseconds (Linux).

The kernel counts for each thread how long it has run, and how long it has stood ready while others
had the cores (``/proc/PID/task/TID/schedstat``), and knows on which core it was last (``stat``).
Two looks at these are a *slice*: what a thread had of the time between them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

PROCESSOR = 36  # in stat, counted from behind the name: the core


@dataclass(frozen=True)
class Slice:
    """What one thread had between two looks, in seconds (``begin``, ``end``: since the first)."""

    process: int
    thread: int
    core: int
    begin: float
    end: float
    ran: float
    waited: float


class Watch:
    """Look at the threads of processes while a block runs.

    Parameters
    ----------
    pids : sequence of int
        The processes.
    interval : float
        Seconds between two looks.

    Attributes
    ----------
    slices : list of Slice
        What was seen, for threads that ran or stood ready; empty where there is no ``/proc``.

    Examples
    --------
    >>> import os
    >>> with Watch([os.getpid()]) as watch:
    ...     total = sum(range(1_000_000))
    >>> all(piece.end > piece.begin for piece in watch.slices)
    True
    """

    def __init__(self, pids: Sequence[int], interval: float = 4e-3) -> None:
        if not pids or interval <= 0:
            raise ValueError(
                f"Watch expects processes and an interval above 0; got {pids!r}, {interval!r}"
            )
        self.pids, self.interval = list(pids), interval
        self.slices: list[Slice] = []
        self._known: dict[int, dict[str, tuple[float, int, int]]] = {pid: {} for pid in self.pids}
        self._numbers: dict[int, dict[str, int]] = {pid: {} for pid in self.pids}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> Watch:
        self._began = time.perf_counter()
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _go_on(self) -> None:
        while not self._over.wait(self.interval):
            self._look()

    def _look(self) -> None:
        for process, pid in enumerate(self.pids):
            try:
                tasks = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
            except OSError:  # it has ended, or there is no /proc
                continue
            for task in tasks:
                self._look_at(process, pid, task)

    def _look_at(self, process: int, pid: int, task: Path) -> None:
        try:
            ran, waited, _ = map(int, (task / "schedstat").read_text().split())
            core = int((task / "stat").read_text().rpartition(")")[2].split()[PROCESSOR])
        except (OSError, ValueError, IndexError):  # it has ended meanwhile
            return
        now = time.perf_counter() - self._began
        before = self._known[pid].get(task.name)
        self._known[pid][task.name] = now, ran, waited
        if before is None or (ran == before[1] and waited == before[2]):
            return
        number = self._numbers[pid].setdefault(task.name, len(self._numbers[pid]))
        had = (ran - before[1]) * 1e-9, (waited - before[2]) * 1e-9
        self.slices.append(Slice(process, number, core, before[0], now, *had))


def shares(slices: Sequence[Slice]) -> tuple[float, float]:
    """Add up how long threads ran and how long they stood ready.

    Parameters
    ----------
    slices : sequence of Slice
        Of a watch.

    Returns
    -------
    tuple of float
        Seconds of all threads together: with a core, and ready without one.
    """
    return sum(piece.ran for piece in slices), sum(piece.waited for piece in slices)
