"""What notebook 07 concludes: fusion, loops and what slows them, tiles, a benchmark's result."""

from __future__ import annotations

import functools

from helpers.claims import in_turn, with_defaults

SEEDS = range(5)


def fused_against_passes(seed: int, n: int) -> tuple[float, float]:
    """Seconds of four passes in C, and of one, each on one thread."""
    from helpers.roofline import kernels

    passes, fused = kernels.passes(n), kernels.fused(n)
    repeat = max(1, (1 << 18) // n)
    return in_turn(
        lambda: [passes[1]() for _ in range(repeat)], lambda: [fused[1]() for _ in range(repeat)]
    )


def softmax_against_copy(seed: int, rows: int, columns: int) -> tuple[float, float]:
    """Seconds of a softmax in torch, and of a product that reads and writes as much."""
    import torch

    torch.manual_seed(seed)
    x = torch.rand(rows, columns)
    out = torch.empty_like(x)
    return in_turn(lambda: torch.softmax(x, 1, out=out), lambda: torch.mul(x, 2.0, out=out))


@functools.cache
def _matrices(seed: int, n: int):
    import numpy as np

    rng = np.random.default_rng(seed)
    return tuple(rng.random((n, n), dtype=np.float32) for _ in range(2))


def what_turning_gains(seed: int, n: int, rounds: int = 3) -> tuple[float, float]:
    """Speed-up by turning B: of eight sums of vectors, and of one sum of single numbers."""
    from helpers.roofline.matmul import causes

    made = causes(*_matrices(seed, n))
    gains = []
    for sums, wide in ((8, 8), (1, 1)):
        jumps, turned = in_turn(made[False, sums, wide], made[True, sums, wide], rounds)
        gains.append(jumps / turned)
    return gains[0], gains[1]


def blocks_and_registers(seed: int, n: int, rounds: int = 3) -> tuple[float, float]:
    """Seconds of the blocked product and of the one with a tile in registers."""
    from helpers.roofline.matmul import versions

    made, (a, b) = versions(n), _matrices(seed, n)
    return in_turn(lambda: made["blocked"](a, b), lambda: made["tiled"](a, b), rounds)


def _side_of_tile(level: int) -> int:
    """The side of three tiles that fill a cache: a multiple of 16."""
    from helpers.roofline.system import reported_caches

    reported = [one.size for one in reported_caches()] or [32 << 10, 512 << 10]
    return int((reported[min(level, len(reported)) - 1] / 12) ** 0.5) // 16 * 16


def tile_too_large(seed: int, n: int, rounds: int = 2) -> tuple[float, float]:
    """Seconds of the blocked product with twice the side that fits L2, and with what fits."""
    from helpers.roofline.matmul import versions

    a, b = _matrices(seed, n)
    wide, fits = (versions(n, block=k * _side_of_tile(2))["blocked"] for k in (2, 1))
    return in_turn(lambda: wide(a, b), lambda: fits(a, b), rounds)


def unused_result(seed: int, n: int) -> tuple[float, float]:
    """Seconds of a sum whose result is used, and of one whose result is not."""
    from ctypes import c_double, c_int64

    from helpers import native

    loop = "(int64_t n) { double s = 0; for (int64_t i = 0; i < n; i++) s += 1.0 / (i + 1);"
    text = f"#include <stdint.h>\ndouble used{loop} return s; }}\nvoid unused{loop} }}\n"
    library = native.load_c(text)
    library.used.argtypes, library.used.restype = (c_int64,), c_double
    library.unused.argtypes, library.unused.restype = (c_int64,), None
    return in_turn(lambda: library.used(n), lambda: library.unused(n))


SIZES = {"n = 192": {"n": 192}, "n = 384": {"n": 384}, "n = 512": {"n": 512}}

_ratio = with_defaults(seeds=SEEDS, unit="s", scale="ratio")

CLAIMS = [
    _ratio(
        "07-fusion",
        "One loop in place of four, in the same language on one thread, takes at most two "
        "thirds of the time.",
        fused_against_passes,
        {"from memory": {"n": 1 << 23}, "from L2": {"n": 1 << 14}},
        "holds",
        0.5,
        "four passes",
        "one pass",
        smallest={"n": 1 << 14},
    ),
    _ratio(
        "07-softmax",
        "A softmax takes longer than multiplying as many bytes by 2.",
        softmax_against_copy,
        {
            "4096 × 2048": {"rows": 4096, "columns": 2048},
            "64 × 1024": {"rows": 64, "columns": 1024},
        },
        "holds",
        0.25,
        "softmax",
        "x · 2",
        smallest={"rows": 4, "columns": 8},
    ),
    _ratio(
        "07-causes-together",
        "Turning B gains at least twice as much if the inner loop keeps eight sums in vectors "
        "as if it keeps one.",
        what_turning_gains,
        SIZES,
        "holds",
        1.0,
        "eight sums, vectors",
        "one sum",
        unit="speed-up",
        smallest={"n": 64, "rounds": 1},
    ),
    _ratio(
        "07-tile-too-large",
        "A blocked matrix product is slower with tiles twice as wide as fit the second "
        "cache than with tiles that fit.",
        tile_too_large,
        {"n = 1152": {"n": 1152}, "n = 1536": {"n": 1536, "rounds": 1}},
        "holds",
        0.1,
        "twice L2's tile",
        "L2's tile",
        smallest={"n": 32, "rounds": 1},
    ),
    _ratio(
        "07-register-tile",
        "A tile of C in registers at least doubles the speed of a blocked matrix product.",
        blocks_and_registers,
        {"n = 384": {"n": 384}, "n = 768": {"n": 768}},
        "holds",
        1.0,
        "blocked",
        "tiled",
        smallest={"n": 48, "rounds": 1},
    ),
    _ratio(
        "07-unused-result",
        "A sum whose result nobody uses takes under a tenth of the time of one that is used.",
        unused_result,
        {"10⁵ additions": {"n": 10**5}, "3·10⁶ additions": {"n": 3 * 10**6}},
        "holds",
        9.0,
        "used",
        "unused",
        smallest={"n": 1000},
    ),
]
