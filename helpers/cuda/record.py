"""What a launch touched: every access counted per line, and kept one by one for chosen blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

EVENT = np.dtype(
    [
        ("block", "u4"),  # linear: x + X (y + Y z)
        ("occurrence", "u4"),  # how often this thread had run this access before
        ("interval", "u4"),  # barriers that the block had passed
        ("thread", "u2"),  # linear in the block
        ("access", "u2"),  # which of AccessRecord.accesses
        ("offset", "i8"),  # bytes from the array's first element
    ]
)
READ, WRITE, ATOMIC = "read", "write", "atomic"
KINDS = (READ, WRITE, ATOMIC)
SPACES = ("global", "shared", "constant")
SECTOR = 32  # bytes: the least that a GPU's memory moves


@dataclass(frozen=True)
class Access:
    """One load or store of the source, summed over all threads of the launch."""

    line: int | None
    array: str
    kind: str  # "read", "write" or "atomic"
    space: str  # "global", "shared" or "constant"
    size: int  # bytes per thread
    count: int  # accesses by threads
    requests: int  # by warps: up to 32 threads at once
    sectors: int  # of 32 bytes touched by those requests (global and constant memory)
    wavefronts: int  # passes through the 32 banks (shared memory)
    ideal: int  # passes if no two lanes wanted different words of one bank
    worst: int  # sectors (or passes) of the costliest request

    @property
    def bytes(self) -> int:
        """Bytes that threads asked for."""
        return self.count * self.size

    @property
    def efficiency(self) -> float:
        """Bytes asked for over bytes moved in sectors (1: coalesced; 0.125: every 4 of 32)."""
        return self.bytes / (self.sectors * SECTOR) if self.sectors else float("nan")

    @property
    def conflicts(self) -> int:
        """Extra passes that bank conflicts cost."""
        return self.wavefronts - self.ideal


@dataclass(frozen=True)
class AccessRecord:
    """The record of one launch.

    ``accesses`` sums every access of every block. ``events`` (dtype EVENT) holds single accesses,
    of the recorded blocks, in the order in which the CPU ran them; ``complete`` is False when the
    limit cut them off. ``touched`` gives, per global array, the bytes (read, written) at least
    once: what a perfect cache would move.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    accesses: tuple[Access, ...]
    events: np.ndarray
    touched: dict[str, tuple[int, int]]
    itemsizes: dict[str, int]
    shapes: dict[str, tuple[int, ...]]
    seconds: float
    complete: bool

    def select(self, *, array=None, kind=None, space=None, line=None) -> list[Access]:
        """Return the accesses that match all that is given."""
        wanted = {"array": array, "kind": kind, "space": space, "line": line}
        return [
            access
            for access in self.accesses
            if all(value is None or getattr(access, key) == value for key, value in wanted.items())
        ]

    def count(self, **wanted) -> int:
        """Return how many single accesses match (see :meth:`select`)."""
        return sum(access.count for access in self.select(**wanted))

    def requested_bytes(self, **wanted) -> int:
        """Return the bytes that the threads asked for."""
        return sum(access.bytes for access in self.select(**wanted))

    def sector_bytes(self, **wanted) -> int:
        """Return the bytes of all 32-byte sectors moved, one request at a time, without a cache."""
        return SECTOR * sum(access.sectors for access in self.select(**wanted))

    def compulsory_bytes(self) -> int:
        """Return the bytes read and written at least once: the least any kernel must move."""
        return sum(read + written for read, written in self.touched.values())

    def intensity(self, flops: float, *, cached: bool = False) -> float:
        """Return ``flops`` per byte of global memory: asked for, or (``cached``) compulsory."""
        moved = self.compulsory_bytes() if cached else self.requested_bytes(space="global")
        return flops / moved

    def picked(self, *, block=None, **wanted) -> np.ndarray:
        """Return the events of the matching accesses, of one ``block`` (linear) or of all."""
        numbers = [i for i, access in enumerate(self.accesses) if access in self.select(**wanted)]
        chosen = np.isin(self.events["access"], numbers)
        if block is not None:
            chosen &= self.events["block"] == block
        return self.events[chosen]

    def elements(self, events: np.ndarray) -> np.ndarray:
        """Return which element of its array each event touches (flat index)."""
        sizes = np.array(
            [self.itemsizes.get(a.array) or a.size for a in self.accesses] or [1], np.int64
        )
        return events["offset"] // sizes[events["access"]]

    def threads(self, events: np.ndarray) -> np.ndarray:
        """Return (x, y, z) of each event's thread: shape (events, 3)."""
        return np.stack(np.unravel_index(events["thread"], self.block[::-1])[::-1], axis=1)

    def blocks(self, events: np.ndarray) -> np.ndarray:
        """Return (x, y, z) of each event's block: shape (events, 3)."""
        return np.stack(np.unravel_index(events["block"], self.grid[::-1])[::-1], axis=1)

    def table(self) -> str:
        """Return one row per access of the source, as text."""
        head = (
            f"{'line':>4}  {'space':8} {'array':12} {'kind':6} {'count':>10} {'bytes':>11} "
            f"{'requests':>9} {'sectors':>9} {'conflicts':>9}"
        )
        rows = [
            f"{a.line or '?':>4}  {a.space:8} {a.array:12} {a.kind:6} {a.count:10d} {a.bytes:11d} "
            f"{a.requests:9d} {a.sectors or '':>9} "
            f"{a.conflicts if a.space == 'shared' else '':>9}"
            for a in sorted(self.accesses, key=lambda a: (a.line or 0, a.space, a.kind))
        ]
        return "\n".join([head, *rows])

    def __str__(self) -> str:
        return f"{self.kernel}: grid {self.grid}, block {self.block}\n{self.table()}"


def merge(accesses: list[Access], events: np.ndarray) -> tuple[tuple[Access, ...], np.ndarray]:
    """Join code addresses of one line, array and kind that the compiler made of one access.

    Unrolled or inlined copies become one row only when they cannot be told apart in the source.
    """
    order: dict[tuple, int] = {}
    merged: list[Access] = []
    numbers = []
    for a in accesses:
        key = (a.line, a.array, a.kind, a.space, a.size)
        if a.line is None or key not in order:
            order[key] = len(merged)
            merged.append(a)
        else:
            b = merged[order[key]]
            sums = [
                getattr(a, f) + getattr(b, f)
                for f in ("count", "requests", "sectors", "wavefronts", "ideal")
            ]
            merged[order[key]] = Access(*key[:1], a.array, a.kind, a.space, a.size, *sums,
                                        max(a.worst, b.worst))  # fmt: skip
        numbers.append(order[key])
    events = events.copy()
    if len(events):
        events["access"] = np.array(numbers, np.uint16)[events["access"]]
    return tuple(merged), events
