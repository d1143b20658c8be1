"""What a launch touched: every access counted per line, and kept one by one for chosen blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

EVENT = np.dtype(
    [
        ("block", "u4"),  # linear: x + X (y + Y z)
        ("occurrence", "u4"),  # which of its warp's requests by this access, from 0
        ("interval", "u4"),  # barriers that the block had passed
        ("thread", "u2"),  # linear in the block
        ("access", "u2"),  # which of AccessRecord.accesses
        ("offset", "i8"),  # bytes from the array's first element
    ]
)
READ, WRITE, ATOMIC = "read", "write", "atomic"
KINDS = (READ, WRITE, ATOMIC)
SPACES = ("global", "shared", "constant")
SUMS = ("count", "requests", "sectors", "wavefronts", "ideal")  # fields of an Access that add up
SECTOR = 32  # bytes: the least that a GPU's memory moves


@dataclass(frozen=True)
class Access:
    """One load or store of the source, summed over all threads of the launch.

    ``size`` is the bytes of one thread's access, ``kind`` "read", "write" or "atomic", ``space``
    one of :data:`SPACES`. ``count`` counts accesses by threads, ``requests`` those by warps: up to
    32 threads at once. Those touched ``sectors`` of 32 bytes (not in shared memory), or took
    ``wavefronts``, passes through the 32 banks of shared memory: ``ideal`` if no two lanes wanted
    different words of one bank. ``worst`` are the sectors, or passes, of the costliest request.
    """

    line: int | None
    array: str
    kind: str
    space: str
    size: int
    count: int
    requests: int
    sectors: int
    wavefronts: int
    ideal: int
    worst: int

    @property
    def bytes(self) -> int:
        """Bytes that threads asked for."""
        return self.count * self.size

    @property
    def conflicts(self) -> int:
        """Extra passes that bank conflicts cost."""
        return self.wavefronts - self.ideal


@dataclass(frozen=True)
class AccessRecord:
    """What one launch touched.

    Parameters
    ----------
    accesses : tuple of Access
        Sums over every access of every block.
    events : numpy.ndarray
        Single accesses of the recorded blocks (dtype :data:`EVENT`), as the CPU ran them.
    touched : dict
        Per global array the bytes (read, written) at least once: what a perfect cache would move.
    itemsizes : dict
        Bytes of an element, per global array.
    seconds : float
        That the kernel ran.
    complete : bool
        False when the limit cut the events off.
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

    def select(
        self,
        *,
        array: str | None = None,
        kind: str | None = None,
        space: str | None = None,
        line: int | None = None,
    ) -> list[Access]:
        """Return the accesses that match all that is given."""
        wanted = {"array": array, "kind": kind, "space": space, "line": line}
        return [
            access
            for access in self.accesses
            if all(value is None or getattr(access, key) == value for key, value in wanted.items())
        ]

    def count(self, **wanted: Any) -> int:
        """Return how many single accesses match, as for :meth:`select`."""
        return sum(access.count for access in self.select(**wanted))

    def requested_bytes(self, **wanted: Any) -> int:
        """Return how many bytes the threads asked for."""
        return sum(access.bytes for access in self.select(**wanted))

    def sector_bytes(self, **wanted: Any) -> int:
        """Return the bytes of all 32-byte sectors, moved one request at a time, without a cache."""
        return SECTOR * sum(access.sectors for access in self.select(**wanted))

    def compulsory_bytes(self) -> int:
        """Return the bytes that are read and written at least once: any kernel must move them."""
        return sum(read + written for read, written in self.touched.values())

    def picked(self, *, block: int | None = None, **wanted: Any) -> np.ndarray:
        """Return the events of accesses that match, as for :meth:`select`, in one block or all."""
        numbers = [i for i, access in enumerate(self.accesses) if access in self.select(**wanted)]
        chosen = np.isin(self.events["access"], numbers)
        if block is not None:
            chosen &= self.events["block"] == block
        return self.events[chosen]

    def elements(self, events: np.ndarray) -> np.ndarray:
        """Return the flat index, in its array, of what each of n events touches."""
        sizes = np.array(
            [self.itemsizes.get(a.array) or a.size for a in self.accesses] or [1], np.int64
        )
        return events["offset"] // sizes[events["access"]]

    def table(self) -> str:
        """Return a table with a row for each access of the source."""
        shared = any(a.space == "shared" for a in self.accesses)  # only these have banks
        head = (
            f"{'line':>4}  {'space':8} {'array':12} {'kind':6} {'count':>10} {'bytes':>11} "
            f"{'requests':>9} {'sectors':>9}{' conflicts' * shared}"
        )
        rows = [
            f"{a.line or '?':>4}  {a.space:8} {a.array:12} {a.kind:6} {a.count:10d} {a.bytes:11d} "
            f"{a.requests:9d} {a.sectors or '':>9} "
            f"{a.conflicts if a.space == 'shared' else '':>9}".rstrip()
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
            merged[order[key]] = replace(
                b,
                worst=max(a.worst, b.worst),
                **{name: getattr(a, name) + getattr(b, name) for name in SUMS},
            )
        numbers.append(order[key])
    events = events.copy()
    if len(events):
        made, rows = events["access"].copy(), np.array(numbers, np.uint16)
        events["access"] = rows[made]
        for row in np.flatnonzero(np.bincount(rows) > 1):  # requests of several addresses in a row
            here = events["access"] == row
            warp = events["block"][here].astype(np.int64) * 32 + events["thread"][here] // 32
            request = np.stack([warp, made[here], events["occurrence"][here]])
            _, first, of = np.unique(request, axis=1, return_index=True, return_inverse=True)
            in_turn = np.lexsort((first, warp[first]))  # in each warp as they came
            begin = np.searchsorted(warp[first][in_turn], warp[first][in_turn])
            number = np.empty(len(first), np.uint32)
            number[in_turn] = np.arange(len(first)) - begin
            events["occurrence"][here] = number[of.ravel()]
    return tuple(merged), events


def serialized(record: AccessRecord, *, array: str) -> int:
    """Return how many atomics of a launch come in sequence if each place takes one at a time.

    A warp's request counts as many as lanes want its most wanted place: 1 to 32. ValueError if the
    record lacks some of the single accesses of all blocks.
    """
    events = record.picked(array=array, kind=ATOMIC)
    if len(events) != record.count(array=array, kind=ATOMIC):
        raise ValueError("the record lacks single accesses: record all blocks, with a higher limit")
    return serialized_of(events)


def serialized_of(events: np.ndarray) -> int:
    """Return how many of some events come in sequence, as :func:`serialized` counts them."""
    if not len(events):
        return 0
    warp = events["block"].astype(np.int64) * 32 + events["thread"] // 32
    request = np.stack([events["access"], events["occurrence"], warp, events["offset"]])
    wanted, lanes = np.unique(request, axis=1, return_counts=True)
    _, number = np.unique(wanted[:3], axis=1, return_inverse=True)
    most = np.zeros(number.max() + 1, np.int64)
    np.maximum.at(most, number.ravel(), lanes)
    return int(most.sum())
