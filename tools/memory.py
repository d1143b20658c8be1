"""The memory and the processor's time of a program and of all that it starts, while it runs.

Added up four times a second: the proportional set sizes (what processes share counts once) of all
that inherited a mark from the program's environment, whoever their parent has become. Linux only;
elsewhere everything is 0.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MARK = "COURSE_MEMORY_OF"  # in the environment of all that counts
EVERY = 0.25  # seconds from one look to the next
TICK = os.sysconf("SC_CLK_TCK")  # of the processor's time in /proc


@dataclass
class Use:
    """What was seen of the processes with a mark: the greatest memory, and each one's time."""

    peak: int = 0  # bytes
    processes: int = 0  # at the peak
    ticks: dict[str, int] = field(default_factory=dict)  # of each process, when last seen

    @property
    def busy(self) -> float:
        """Seconds of the processor, of all processes; what they had after the last look is lost."""
        return sum(self.ticks.values()) / TICK

    def look(self, mark: str) -> int:
        """Look at all processes with this mark; return the bytes that they have now."""
        total = count = 0
        wanted = f"{MARK}={mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                    continue
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                self.ticks[f"{folder.name} since {stat[19]}"] = int(stat[11]) + int(stat[12])
                text = (folder / "smaps_rollup").read_text()
                total += int(text.split("\nPss:")[1].split()[0]) << 10
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
