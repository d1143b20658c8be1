"""How many threads of a kernel a multiprocessor can hold: NVIDIA's occupancy, from its limits."""

from __future__ import annotations

from dataclasses import dataclass

from helpers.cuda.errors import CudaError, LaunchError

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
