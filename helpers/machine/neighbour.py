"""Processes that compete for a core while a block runs: a straggler's real cause.

Each compresses text for a while, sleeps for a while, and so on. It ends with the block; and by
itself, within a tenth of a second, if whoever started it is gone.
"""

from __future__ import annotations

import numbers
import os
import subprocess
import sys

# Run by a bare interpreter: no import of ours delays its start.
PROGRAM = """
import os, random, sys, time, zlib
parent, core, seed = map(int, sys.argv[1:4])
work, rest = map(float, sys.argv[4:])
if core >= 0 and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {core})
draw = random.Random(seed)
text = bytes(draw.choices(range(97, 123), k=20_000))
print("ready", flush=True)
while os.getppid() == parent:
    end = time.monotonic() + draw.expovariate(1 / work)
    while time.monotonic() < end and os.getppid() == parent:
        zlib.compress(text)  # about a millisecond
    end = time.monotonic() + (draw.expovariate(1 / rest) if rest else 0)
    while (left := end - time.monotonic()) > 0 and os.getppid() == parent:
        time.sleep(min(left, 0.1))
"""


class Neighbours:
    """Let so many processes compute beside a block, each by fits and starts, on one core or any.

    They compute for ``work`` and sleep for ``rest`` seconds on the average, drawn anew each time,
    exponentially; with ``rest=0`` they never sleep.

    >>> with Neighbours(1, work=0.01, rest=0.01) as neighbours:
    ...     alive = [process.poll() is None for process in neighbours.processes]
    >>> alive, neighbours.processes
    ([True], [])
    """

    def __init__(
        self,
        count: int = 1,
        core: int | None = None,
        work: float = 0.1,
        rest: float = 0.1,
        seed: int = 0,
    ) -> None:
        whole = isinstance(count, numbers.Integral) and not isinstance(count, bool)
        if not whole or count < 0:
            raise ValueError(f"count={count!r}: expected a whole number of processes, 0 or more")
        for name, value, enough in (("work", work, work > 0), ("rest", rest, rest >= 0)):
            if not enough:
                least = "above 0" if name == "work" else "0 or more"
                raise ValueError(f"{name}={value!r}: expected seconds, {least}")
        self.processes: list[subprocess.Popen] = []
        self._count, self._seed = count, seed
        self._core, self._times = -1 if core is None else core, (work, rest)

    def __enter__(self) -> Neighbours:
        try:
            for number in range(self._count):
                told = os.getpid(), self._core, 1000 * self._seed + number, *self._times
                command = [sys.executable, "-I", "-S", "-c", PROGRAM, *map(str, told)]
                self.processes.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                    )
                )
            for process in self.processes:
                assert process.stdout is not None
                if process.stdout.readline() != b"ready\n":
                    _, said = process.communicate()
                    raise RuntimeError(f"a competing process did not start: {said.decode()}")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def _end(self) -> None:
        for process in self.processes:
            process.kill()
        while self.processes:
            self.processes.pop().communicate()
