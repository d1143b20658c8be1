"""How many warps of a kernel a multiprocessor can hold, and how well they hide loads."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from helpers.cuda.errors import CudaError, LaunchError
from helpers.cuda.record import AccessRecord

if TYPE_CHECKING:
    from helpers.records import Row

REGISTERS = 65_536  # per multiprocessor, all of these
REGISTER_UNIT = 256  # registers are given to a warp in multiples of this
RESERVED = 1024  # bytes of shared memory that the system keeps per block (sm_80 and later)
BLOCK_SHARED = 166_912  # bytes of shared memory that one block may use on sm_80

# CUDA C++ Programming Guide, "Compute Capabilities": warps, blocks, bytes of shared memory per SM.
LIMITS = {
    "sm_75": (32, 16, 65_536),
    "sm_80": (64, 32, 167_936),
    "sm_86": (48, 16, 102_400),
    "sm_89": (48, 24, 102_400),
    "sm_90": (64, 32, 233_472),
}


@dataclass(frozen=True)
class Occupancy:
    """How much of a multiprocessor a kernel can fill."""

    blocks: int  # resident on a multiprocessor
    warps: int  # of these blocks
    share: float  # of the warps that a multiprocessor can hold
    limit: str  # "threads", "registers", "shared memory" or "blocks"


def most_threads(registers: int) -> int:
    """Return the largest block whose registers a multiprocessor has."""
    return min(1024, 32 * (REGISTERS // _per_warp(registers)))


def _per_warp(registers: int) -> int:
    return max(-(-32 * registers // REGISTER_UNIT), 1) * REGISTER_UNIT


def occupancy(threads: int, registers: int, shared: int, arch: str = "sm_80") -> Occupancy:
    """Return the occupancy of blocks with these needs, as :attr:`Module.resources` gives them.

    Parameters
    ----------
    threads
        Of a block.
    registers
        Of a thread.
    shared
        Bytes of shared memory of a block, static and dynamic.

    Raises
    ------
    CudaError
        For an ``arch`` not in :data:`LIMITS`.
    LaunchError
        For a block that fits nowhere.
    """
    if arch not in LIMITS:
        raise CudaError(f"arch must be one of {', '.join(LIMITS)}; got {arch!r}")
    if not 1 <= threads <= 1024 or registers < 0 or shared < 0:
        raise LaunchError(
            f"expected 1 to 1024 threads and no negative resources; got {threads}, {registers}, "
            f"{shared}"
        )
    most_warps, most_blocks, bytes_ = LIMITS[arch]
    warps = -(-threads // 32)
    shared += 0 if arch == "sm_75" else RESERVED
    fits = {
        "threads": most_warps // warps,
        "registers": REGISTERS // _per_warp(registers) // warps,
        "shared memory": bytes_ // shared if shared else most_blocks,
        "blocks": most_blocks,
    }
    limit = min(fits, key=lambda need: fits[need])
    blocks = fits[limit]
    if not blocks:
        raise LaunchError(f"not one block of {threads} threads fits {arch}: {limit} is too small")
    return Occupancy(blocks, blocks * warps, blocks * warps / most_warps, limit)


def busy(record: AccessRecord, warps: int, latency: int) -> float:
    """Return the share of clocks in which a scheduler starts a request of its resident warps.

    All warps do what the first recorded warp did. In each clock the scheduler starts a request; it
    stays with a warp until that waits, and goes on with the one that has been ready longest. A warp
    waits at a barrier until its loads from global memory have arrived, and not for other warps.

    Parameters
    ----------
    record
        With the events of a block, see :meth:`Launch.record`.
    warps
        Resident on this scheduler; a multiprocessor has four.
    latency
        Clocks from a load's start until its data arrive.

    Raises
    ------
    LaunchError
        For a record without events, no warps or a negative latency.
    """
    if not len(record.events) or warps < 1 or latency < 0:
        raise LaunchError(
            f"expected a record with events, at least 1 warp and a latency of 0 or more; got "
            f"{len(record.events)} events, {warps} and {latency}"
        )
    first = record.events[record.events["block"] == record.events["block"].min()]
    lane = first[first["thread"] == first["thread"].min()]
    accesses = [record.accesses[number] for number in lane["access"]]
    loads = np.array([a.space == "global" and a.kind == "read" for a in accesses])
    # from one wait to the next: how many requests, and until when the last load is under way
    parts, since = [], 0
    for end in [*np.flatnonzero(np.diff(lane["interval"])) + 1, len(loads)]:
        started = np.flatnonzero(loads[since:end])
        if len(started) or end == len(loads):
            parts.append((int(end - since), int(started[-1]) + 1 + latency if len(started) else 0))
            since = end
    clock, waiting = 0, [(0, warp, 0) for warp in range(warps)]  # (until when, warp, part)
    while waiting:
        ready, warp, at = heapq.heappop(waiting)
        begin = max(clock, ready)
        clock = begin + parts[at][0]
        if at + 1 < len(parts):
            heapq.heappush(waiting, (max(clock, begin + parts[at][1]), warp, at + 1))
    return warps * len(loads) / clock


def by_resident_warps(rows: Iterable[Row]) -> dict[str, dict[int, Row]]:
    """Return each kernel's rows "KERNEL, N resident warps" by N, as ``make gpu`` names them."""
    found: dict[str, dict[int, Row]] = {}
    for row in rows:
        if said := re.fullmatch(r"(\S+), (\d+) resident warps", row.name):
            found.setdefault(said[1], {})[int(said[2])] = row
    return found
