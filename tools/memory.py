"""The memory and the processor's time of a program and of all that it starts, while it runs.

Added up four times a second: the proportional set sizes (what processes share counts once) of all
that inherited a mark from the program's environment, whoever their parent has become. Only Linux
knows that memory; elsewhere it is 0.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil

MARK = "COURSE_MEMORY_OF"  # in the environment of all that counts
EVERY = 0.25  # seconds from one look to the next


@dataclass
class Use:
    """What was seen of the processes with a mark: the greatest memory, and each one's time."""

    peak: int = 0  # bytes
    processes: int = 0  # at the peak
    spent: dict[tuple[int, float], float] = field(default_factory=dict)  # seconds, when last seen

    @property
    def busy(self) -> float:
        """Seconds of the processor, of all processes; what they had after the last look is lost."""
        return sum(self.spent.values())

    def look(self, mark: str) -> int:
        """Look at all processes with this mark; return the bytes that they have now."""
        total = count = 0
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == mark:
                    self.spent[process.pid, process.create_time()] = sum(process.cpu_times()[:2])
                    total += getattr(process.memory_full_info(), "pss", 0)
                    count += 1
        if total > self.peak:
            self.peak, self.processes = total, count
        return total


@contextlib.contextmanager
def watched() -> Iterator[tuple[Use, dict[str, str]]]:
    """Look, until the end of the block, at what is started with these variables."""
    use, mark, over = Use(), uuid.uuid4().hex, threading.Event()

    def watch() -> None:
        while not over.wait(EVERY):
            use.look(mark)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield use, {MARK: mark}
    finally:
        over.set()
        thread.join()
