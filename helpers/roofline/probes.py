"""Single measurements of the processor and its memory, in C (peak.c, memory.c)."""

from __future__ import annotations

import ctypes
import time
from ctypes import c_double, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path

import numpy as np

from helpers import native
from helpers.roofline.system import InstructionSet, instruction_sets

HERE = Path(__file__).parent
WITHOUT_NATIVE = ("-O3", "-fPIC", "-shared", "-ffp-contract=fast")
KINDS = {"read": (1, 1), "copy": (2, 2), "triad": (3, 3), "update": (2, 3)}  # arrays, accesses
PAGE = 1 << 21  # bytes: a huge page, so that address translation costs as little as it can


@cache
def _peak(chosen: InstructionSet, real: str):
    size = {"float": 4, "double": 8}[real]
    flags = (
        *chosen.flags,
        f"-DREAL={real}",
        f"-DSCALAR={int(not chosen.width)}",
        f"-DWIDTH={chosen.width or size}",
        *native.openmp(),
    )
    function = native.load_c((HERE / "peak.c").read_text(), flags, base=WITHOUT_NATIVE).peak
    function.argtypes, function.restype = (c_int64, c_int32, c_double, c_double), c_double
    return function


@cache
def _memory():
    width = max((one.width for one in instruction_sets()), default=16) or 8
    flags = (f"-DWIDTH={width}", "-fno-tree-loop-distribute-patterns", *native.openmp())
    made = native.load_c((HERE / "memory.c").read_text(), flags)
    p = c_void_p
    made.read_sum.argtypes, made.read_sum.restype = (p, c_int64, c_int64, c_int32), c_double
    made.copy.argtypes = (p, p, c_int64, c_int64, c_int32)
    made.triad.argtypes = (p, p, p, c_double, c_int64, c_int64, c_int32)
    made.update.argtypes = (p, p, c_double, c_int64, c_int64, c_int32)
    made.link_cycle.argtypes = (p, c_int64, c_int64, c_int64, c_uint64)
    made.chase.argtypes, made.chase.restype = (p, c_int64), c_void_p
    made.count_cycles.argtypes, made.count_cycles.restype = (c_int64, c_uint64), c_uint64
    made.spread.argtypes = (c_int32, c_int32)
    return made


def samples_of(
    run, work: float, *, threads: int = 1, sample: float = 0.01, repeats: int = 7
) -> list[float]:
    """Call ``run(times)`` so that each sample lasts about ``sample`` seconds; return rates.

    ``work``: what one time does, so a rate is work · times ÷ seconds. Best and spread are for the
    caller to take: on a shared machine the best is the least disturbed. One thread is timed by its
    own processor time, so that waiting for a turn does not count; several, each on a core of its
    own, by the wall clock.
    """
    if threads > 1:
        _memory().spread(threads, 1)
        try:
            return _samples(run, work, threads, sample, repeats)
        finally:
            _memory().spread(threads, 0)
    return _samples(run, work, threads, sample, repeats)


def _samples(run, work: float, threads: int, sample: float, repeats: int) -> list[float]:
    clock = time.thread_time if threads == 1 else time.perf_counter

    def spend(times: int) -> float:
        begin = clock()
        run(times)
        return clock() - begin

    # Four times the work until it is long enough to tell from the clock's own cost and takes longer
    # too: a short run that only waited for a core of a busy machine says nothing of the work.
    times, spent, first = 1, spend(1), time.perf_counter()
    while time.perf_counter() - first < 0.1 + 20 * sample:
        before, times = spent, 4 * times
        spent = spend(times)
        if spent > sample / 2 and spent > 2.5 * before:
            times //= 4 if spent > 4 * sample else 1
            break
    else:
        times = max(1, int(times * sample / max(spent, sample / 64)))
    return [work * times / spend(times) for _ in range(repeats)]


def flops(chosen: InstructionSet, dtype: str, threads: int = 1, **timing) -> list[float]:
    """Measure the peak of an instruction set in flop/s (samples); dtype "float32", "float64"."""
    real, size = {"float32": ("float", 4), "float64": ("double", 8)}[dtype]
    lanes = (chosen.width or size) // size
    function, steps = _peak(chosen, real), 10_000
    work = threads * steps * 12 * lanes * 2
    return samples_of(
        lambda k: function(k * steps, threads, 0.999999, 1e-6), work, threads=threads, **timing
    )


def frequency(**timing) -> list[float]:
    """Measure the clock in Hz (samples): a chain of additions, one each cycle."""
    function = _memory().count_cycles
    return samples_of(lambda k: function(160_000 * k, 3), 160_000, **timing)


def bandwidth(kind: str, working_set: int, threads: int = 1, **timing) -> list[float]:
    """Measure one of ``KINDS`` over ``working_set`` bytes a thread, in bytes/s (samples).

    Bytes are counted as the program asks for them, as STREAM does (McCalpin 1995): copy 16, triad
    24 a double, and so update, y ← y + s·x. The line that a store fetches first (write-allocate) is
    *not* counted; where the processor does fetch it, copy and triad move 24 and 32.
    Raises ValueError for another kind, or a working set below 4 KiB.
    """
    if kind not in KINDS or working_set < 4096:
        raise ValueError(
            f"bandwidth expects a kind of {', '.join(KINDS)} and at least 4096 bytes; got "
            f"kind={kind!r}, working_set={working_set}"
        )
    arrays, accesses = KINDS[kind]
    count = working_set // (8 * arrays) // 128 * 128  # doubles a thread in each array
    held = [aligned(8 * count * threads, touch=1.0) for _ in range(arrays)]
    at, library = [array.ctypes.data for array in held], _memory()
    runs = {
        "read": lambda k: library.read_sum(at[0], count, k, threads),
        "copy": lambda k: library.copy(at[0], at[1], count, k, threads),
        "triad": lambda k: library.triad(at[0], at[1], at[2], 3.0, count, k, threads),
        # so small a factor that the sum stays finite
        "update": lambda k: library.update(at[0], at[1], 1e-9, count, k, threads),
    }
    return samples_of(runs[kind], 8 * count * accesses * threads, threads=threads, **timing)


def latency(working_set: int, stride: int = 64, second: int = 0, **timing) -> list[float]:
    """Measure the time of one dependent load in seconds (samples), over ``working_set`` bytes.

    Slots lie ``stride`` bytes apart. With ``second``, every visit goes on to the word that many
    bytes further, and the time is of the two together.
    """
    count = max(2, working_set // stride)
    buffer = aligned(count * stride + 4096)
    library = _memory()
    library.link_cycle(buffer.ctypes.data, count, stride, second, 1)
    loads, place = 2 if second else 1, [buffer.ctypes.data]
    library.chase(place[0], min(count * loads, 4_000_000) // 8 * 8)  # once round: into the cache

    def run(times: int) -> None:
        place[0] = library.chase(place[0], 4000 * loads * times)

    return [1 / rate for rate in samples_of(run, 4000, **timing)]


def aligned(size: int, touch: float = 0.0) -> np.ndarray:
    """Return ``size`` bytes as float64, on a huge page's boundary where the system has them."""
    raw = np.empty(size + PAGE, dtype=np.uint8)
    start = -raw.ctypes.data % PAGE
    part = raw[start : start + size // 8 * 8].view(np.float64)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "madvise") and size >= PAGE:
        libc.madvise(c_void_p(part.ctypes.data), ctypes.c_size_t(size), 14)  # MADV_HUGEPAGE
    part.fill(touch)
    return part
