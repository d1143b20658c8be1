"""Ceilings of this machine beside BLAS, a plain OpenMP triad, and what arithmetic promises.

Rates are the best of samples that take turns with the peer's, so that both meet the same neighbours
on a shared machine.
"""

from __future__ import annotations

import time
from ctypes import c_double, c_int64, c_void_p

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
    from helpers import native
    from helpers.roofline import probes

    size = 192 << 20  # bytes of the three arrays together: beyond caches
    plain = native.load_c(PLAIN_TRIAD, native.openmp()).plain
    plain.argtypes = (c_void_p, c_void_p, c_void_p, c_double, c_int64)
    count = size // 24 // 1024 * 1024
    held = [probes.aligned(8 * count, touch=1.0) for _ in range(3)]
    at = [array.ctypes.data for array in held]
    ours, theirs = probes._memory().triad, plain
    own, peer, clock = [], [], _clock(threads)
    with _threads(threads):
        for _ in range(rounds):
            begin = clock()
            ours(*at, 3.0, count // threads, 1, threads)
            own.append(24 * count / (clock() - begin))
            begin = clock()
            theirs(*at, 3.0, count)
            peer.append(24 * count / (clock() - begin))
    parameters = {"threads": threads, "bytes": size, "convention": "24 B a double, no allocate"}
    values = max(own) / 1e9, max(peer) / 1e9
    return [Row("triad", values[0], "GB/s", "plain OpenMP C", values[1], parameters)]


def peaks(threads: int, rounds: int, n: int = 1024) -> list[Row]:
    """The FMA peak beside the library's best product, fp32."""
    import numpy as np

    from helpers.roofline import probes
    from helpers.roofline.system import instruction_sets

    widest = instruction_sets()[-1]
    a = np.random.default_rng(0).random((n, n), dtype=np.float32)
    peak, blas, mkl, clock = [], [], [], _clock(threads)
    import torch

    ta = torch.from_numpy(a)
    with _threads(threads):
        for _ in range(rounds):
            peak += probes.flops(widest, "float32", threads, sample=0.01, repeats=2)
            for product, kept in ((lambda: a @ a, blas), (lambda: ta @ ta, mkl)):
                begin = clock()
                product()
                kept.append(2 * n**3 / (clock() - begin))
    parameters = {"threads": threads, "isa": widest.name, "n": n, "dtype": "float32"}
    best = max(peak) / 1e9
    return [
        Row("FMA peak", best, "Gflop/s", "OpenBLAS sgemm (NumPy)", max(blas) / 1e9, parameters),
        Row("FMA peak", best, "Gflop/s", "sgemm (torch)", max(mkl) / 1e9, parameters),
    ]


def products(n: int) -> list[Row]:
    """The loop orders, blocked and tiled, beside the library, one thread."""
    import numpy as np

    from helpers.roofline.matmul import flops, versions

    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    best: dict[str, float] = {}
    clock = _clock(1)
    with _threads(1):
        made = versions(n)
        for name, multiply in made.items():
            for _ in range(3 if name in ("ijk", "jik", "jki", "kji") else 9):
                begin = clock()
                multiply(a, b)
                spent = clock() - begin
                best[name] = max(best.get(name, 0), flops(n) / spent / 1e9)
    library = best.pop("library")
    parameters = {"n": n, "dtype": "float32", "threads": 1, "flags": "-O3 -march=native"}
    return [
        Row(f"matmul {name}", rate, "Gflop/s", "OpenBLAS", library, parameters)
        for name, rate in best.items()
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
        made.append(Row("peak of a core", values[0], "Gflop/s", "theory", values[1], parameters))
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


def _threads(count: int):
    from threadpoolctl import threadpool_limits

    return threadpool_limits(count)


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
        read = _best(lambda of=x, launch=launch, k=rounds: launch(of, sums, of.numel() // 4, k))
        if sums.double().sum().item() != rounds * x.numel():  # each below 2**24: exact in fp32
            raise AssertionError(f"read_rounds missed some of {x.numel()} elements")
        parameters = {"bytes": size, "rounds": rounds}
        made.append(Row(f"read, {name}", rounds * size / read / 1e9, "GB/s", "", None, parameters))
        if name == "HBM":
            y = torch.empty_like(x)
            copied = 2 * size / _best(lambda to=y, of=x: to.copy_(of))
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
        rate = 2 * n**3 / _best(lambda a=a: a @ a) / 1e9
        made.append(Row(f"matmul, {name}", rate, "Gflop/s", "", None, {"n": n}))
    return made


def _best(call, repeats: int = 20) -> float:
    """Best seconds of one call, five in a row, queued while the GPU sleeps for about 2 ms."""
    import torch

    call()
    best = float("inf")
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(4_000_000)
        begin.record()
        for _ in range(5):
            call()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) / 5e3)
    return best
