"""Our loops compared with BLAS, a plain OpenMP triad and the processor's computed peak.

Rates are the best of samples that take turns with the peer's, so that both meet the same neighbours
on a shared machine.
"""

from __future__ import annotations

import time
from ctypes import c_double, c_int64, c_void_p
from functools import partial

from bench.launch import best, gpu_time, in_turns
from helpers.records import Row

SUITE = "roofline"

PLAIN_TRIAD = r"""
#include <stdint.h>
void plain(double *restrict y, const double *restrict x, const double *restrict z, double s,
           int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) y[i] = x[i] + s * z[i];
}
"""


def rows() -> list[Row]:
    from helpers.machine import usable_cores

    made = []
    for threads in sorted({1, usable_cores()}):
        rounds = 15 if threads == 1 else 60  # several threads wait for the one that is held up
        made += triads(threads, rounds)
        made += peaks(threads, rounds)
    made += products(528)
    made += measured()
    return made


def triads(threads: int, rounds: int) -> list[Row]:
    """Our memory triad beside a plain C triad of the same convention: 24 bytes a double."""
    from threadpoolctl import threadpool_limits

    from helpers import native
    from helpers.roofline import probes

    size = 192 << 20  # bytes of the three arrays together: beyond caches
    plain = native.load_c(PLAIN_TRIAD, native.openmp()).plain
    plain.argtypes = (c_void_p, c_void_p, c_void_p, c_double, c_int64)
    count = size // 24 // 1024 * 1024
    held = [probes.aligned(8 * count, touch=1.0) for _ in range(3)]
    at = [array.ctypes.data for array in held]
    ours, theirs = probes._memory().triad, plain
    ways = {
        "ours": lambda: ours(*at, 3.0, count // threads, 1, threads),
        "peer": lambda: theirs(*at, 3.0, count),
    }
    with threadpool_limits(threads):
        taken = best(in_turns(ways, rounds, clock=_clock(threads)))
    own, peer = (24 * count / taken[name] / 1e9 for name in ways)
    parameters = {"threads": threads, "bytes": size, "convention": "24 B a double, no allocate"}
    return [Row("triad", own, "GB/s", "plain OpenMP C", peer, parameters)]


def peaks(threads: int, rounds: int, n: int = 1024) -> list[Row]:
    """The FMA peak beside the library's best product, fp32."""
    import numpy as np
    import torch
    from threadpoolctl import threadpool_limits

    from helpers.roofline import probes
    from helpers.roofline.system import instruction_sets

    widest = instruction_sets()[-1]
    a = np.random.default_rng(0).random((n, n), dtype=np.float32)
    peak, blas, mkl, clock = [], [], [], _clock(threads)
    ta = torch.from_numpy(a)
    with threadpool_limits(threads):
        for _ in range(rounds):
            peak += probes.flops(widest, "float32", threads, sample=0.01, repeats=2)
            for product, kept in ((lambda: a @ a, blas), (lambda: ta @ ta, mkl)):
                begin = clock()
                product()
                kept.append(2 * n**3 / (clock() - begin))
    parameters = {"threads": threads, "isa": widest.name, "n": n, "dtype": "float32"}
    most = max(peak) / 1e9
    return [
        Row("FMA peak", most, "Gflop/s", "OpenBLAS sgemm (NumPy)", max(blas) / 1e9, parameters),
        Row("FMA peak", most, "Gflop/s", "sgemm (torch)", max(mkl) / 1e9, parameters),
    ]


def products(n: int) -> list[Row]:
    """The loop orders, blocked and tiled, beside the library, one thread."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    from helpers.roofline.matmul import flops, versions

    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    with threadpool_limits(1):
        ways = {name: partial(multiply, a, b) for name, multiply in versions(n).items()}
        taken = best(in_turns(ways, 5, clock=_clock(1)))
    rates = {name: flops(n) / seconds / 1e9 for name, seconds in taken.items()}
    library = rates.pop("library")
    parameters = {"n": n, "dtype": "float32", "threads": 1, "flags": "-O3 -march=native"}
    return [
        Row(f"matmul {name}", rate, "Gflop/s", "OpenBLAS", library, parameters)
        for name, rate in rates.items()
    ]


def measured() -> list[Row]:
    """All ceilings, as notebook 07 draws them, and the time that they took."""
    from helpers.roofline.ceilings import ceilings

    found = ceilings(again=True, progress=False)
    made = [Row("all ceilings measured in", found.seconds, "s", "limit", 60.0)]
    made.append(Row("frequency", found.frequency / 1e9, "GHz"))
    for one in found.theory():
        parameters = {k: one[k] for k in ("isa", "dtype", "lanes", "fma", "per_cycle", "units")}
        values = one["measured"] / 1e9, one["theory"] / 1e9
        made.append(
            Row("peak of a core", values[0], "Gflop/s", "the computed peak", values[1], parameters)
        )
    for one in found.bandwidths:
        parameters = {k: one[k] for k in ("level", "threads", "bytes", "spread")}
        made.append(Row(f"{one['kind']}", one["rate"] / 1e9, "GB/s", "", None, parameters))
    for k, one in enumerate(found.found):
        made.append(Row(f"latency, plateau {k + 1}", one["seconds"] * 1e9, "ns"))
        if k < len(found.reported):
            reported = found.reported[k]["size"] / 1024
            size = one["capacity"] / 1024
            if size != float("inf"):
                made.append(Row(f"size of cache {k + 1}", size, "KiB", "reported", reported))
    return made


def _clock(threads: int):
    """Processor time for one thread, which leaves out waiting for a turn; else the wall's."""
    return time.process_time if threads == 1 else time.perf_counter


def gpu_rows() -> list[Row]:
    """The GPU's ceilings: reading from HBM and L2, copying, and products by dtype."""
    import torch

    from helpers.cuda import Module

    made = []
    module = Module("bandwidth.cu", device="gpu")
    blocks, threads = 8 * torch.cuda.get_device_properties(0).multi_processor_count, 256
    sums = torch.empty(blocks * threads, device="cuda")
    for name, size, rounds in (("HBM", 4 << 30, 1), ("L2", 16 << 20, 64)):
        x = torch.ones(size // 4, device="cuda")
        launch = module["read_rounds"][blocks, threads]
        read = gpu_time(launch, [(x, sums, x.numel() // 4, rounds)]) / 1e6
        if sums.double().sum().item() != rounds * x.numel():  # each below 2**24: exact in fp32
            raise AssertionError(f"read_rounds missed some of {x.numel()} elements")
        parameters = {"bytes": size, "rounds": rounds}
        made.append(Row(f"read, {name}", rounds * size / read / 1e9, "GB/s", "", None, parameters))
        if name == "HBM":
            y = torch.empty_like(x)
            copied = 2 * size / gpu_time(y.copy_, [(x,)]) * 1e6
            made.append(Row(f"copy, {name}", copied / 1e9, "GB/s", "", None, {"bytes": size}))
            del y
        del x
    n = 8192
    for name, dtype, tensor_cores in (
        ("fp32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("bf16", torch.bfloat16, True),
        ("fp64", torch.float64, True),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tensor_cores
        a = torch.rand(n, n, device="cuda").to(dtype)
        rate = 2 * n**3 / gpu_time(torch.matmul, [(a, a)]) / 1e3
        made.append(Row(f"matmul, {name}", rate, "Gflop/s", "", None, {"n": n}))
    return made
