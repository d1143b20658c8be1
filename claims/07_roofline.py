"""What notebook 07 concludes: ceilings, loops and their causes, fusion, convolutions, layers."""

from __future__ import annotations

import functools

from helpers.claims import PROCESSOR, in_turn, with_defaults

SEEDS = range(5)


# ------------------------------------------------------------------------------------- the ceilings


def peak_of(seed: int, dtype: str, width: int = -1) -> tuple[float, float]:
    """flop/s of one core with its widest registers, and with one number in each."""
    from helpers.roofline import probes
    from helpers.roofline.system import instruction_sets

    sets = instruction_sets()
    wide, narrow = ([], [])
    for _ in range(3):
        wide += probes.flops(sets[width], dtype, 1, sample=0.01, repeats=2)
        narrow += probes.flops(sets[0], dtype, 1, sample=0.01, repeats=2)
    return max(wide), max(narrow)


def triad_against_read(seed: int, size: int) -> tuple[float, float]:
    """Bytes/s of a triad and of reading, one thread, over so many bytes."""
    from helpers.roofline import probes

    made: dict[str, list] = {"triad": [], "read": []}
    for _ in range(3):
        for kind, rates in made.items():
            rates += probes.bandwidth(kind, size, 1, sample=0.01, repeats=2)
    return max(made["triad"]), max(made["read"])


# -------------------------------------------------------------------------------------------- roofs


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


def gru_shares(seed: int, batch: int, hidden: int) -> tuple[float, float]:
    """flop/s of one GRU step of torch, and of one product of two matrices with as many flop."""
    import torch

    from helpers.roofline import kernels

    torch.manual_seed(seed)
    _, call, flops, _, _ = kernels.gru_step(batch, hidden, hidden)
    x, w = torch.rand(batch, 2 * hidden), torch.rand(2 * hidden, 3 * hidden)
    step, product = in_turn(
        lambda: [call() for _ in range(5)], lambda: [x @ w for _ in range(5)], rounds=6
    )
    return 5 * flops / step, 5 * 2 * batch * 2 * hidden * 3 * hidden / product


# ---------------------------------------------------------------------------------- loops and tiles


@functools.cache
def _matrices(seed: int, n: int):
    import numpy as np

    rng = np.random.default_rng(seed)
    return tuple(rng.random((n, n), dtype=np.float32) for _ in range(2))


def loops(seed: int, n: int, ours: str, rival: str, rounds: int = 3) -> tuple[float, float]:
    """Seconds of two products in C, one thread's own time."""
    from helpers.roofline.matmul import causes, versions

    made, (a, b) = versions(n) | causes(n), _matrices(seed, n)
    return in_turn(lambda: made[ours](a, b), lambda: made[rival](a, b), rounds)


def per_operation(seed: int, n: int, beside: int) -> tuple[float, float]:
    """Seconds an operation of ijk, for sides n and n + ``beside``."""
    from helpers.roofline.matmul import flops, versions

    pair = []
    for side in (n, n + beside):
        multiply, (a, b) = versions(side)["ijk"], _matrices(seed, side)
        pair.append(lambda f=multiply, a=a, b=b: f(a, b))
    ours, rival = in_turn(*pair, rounds=3)
    return ours / flops(n), rival / flops(n + beside)


def _side_of_tile(level: int) -> int:
    """The side of three tiles that fill a cache: a multiple of 16."""
    from helpers.roofline.system import reported_caches

    reported = [one.size for one in reported_caches()] or [32 << 10, 512 << 10]
    return int((reported[min(level, len(reported)) - 1] / 12) ** 0.5) // 16 * 16


def tiles(seed: int, n: int, ours: int, rival: int, rounds: int = 2) -> tuple[float, float]:
    """Seconds of the blocked product with the tile of one cache and of another; 0: not blocked."""
    from helpers.roofline.matmul import versions

    a, b = _matrices(seed, n)

    def product(level: int):
        if not level:
            return versions(n)["ikj"]
        side = _side_of_tile(min(level, 2)) * (2 if level == 3 else 1)
        return versions(n, block=side)["blocked"]

    first, second = product(ours), product(rival)
    return in_turn(lambda: first(a, b), lambda: second(a, b), rounds)


# ------------------------------------------------------------------------ convolutions and PageRank


def convolutions(seed: int, k: int, ours: str, rival: str, side: int = 1024):
    """Seconds of two convolutions in C."""
    import numpy as np

    from helpers.roofline.convolution import convolver

    rng = np.random.default_rng(seed)
    image, weights = rng.random((side, side), np.float32), rng.random((k, k), np.float32)
    out = np.empty_like(image)
    first, second = convolver(ours, weights), convolver(rival, weights)
    return in_turn(lambda: first(image, out), lambda: second(image, out))


def dense_against_csr(seed: int, nodes: int, what: str) -> tuple[float, float]:
    """PageRank's product, dense and in compressed rows: flop/s of both, or seconds of both."""
    from helpers.pagerank.graphs import random_links
    from helpers.pagerank.versions import VERSIONS

    graph = random_links(nodes, 0.01, seed)
    calls, work = [], []
    for name, count in (("dense_scaled", nodes**2), ("csr", graph.edges)):
        version = VERSIONS[name](graph)
        x = version.out * 0 + 1 / nodes
        calls.append(lambda v=version, x=x: [v.product(x) for _ in range(3)])
        work.append(6 * count)
    dense, csr = in_turn(*calls, rounds=10)
    return (dense, csr) if what == "seconds" else (work[0] / dense, work[1] / csr)


def formats(seed: int, rows: int, n: int, ours: str, rival: str) -> tuple[float, float]:
    """Seconds of a layer in two formats, on one thread."""
    import torch

    from helpers.roofline import kernels

    calls = [kernels.layer(rows, n, getattr(torch, dtype), seed)[1] for dtype in (ours, rival)]
    return in_turn(*[lambda f=f: [f() for _ in range(3)] for f in calls], rounds=6)


# ------------------------------------------------------------------------------------------ a layer


def time_against_operations(seed: int, change: str, side: int = 56, rounds: int = 9):
    """The share of the layer's time that a changed one takes, and its share of operations."""
    import torch

    from helpers.roofline.design import Layer, variants

    torch.manual_seed(seed)
    base = Layer(side=side)
    changed = variants(base)[change][0]
    (old, x), (new, y) = base.build(), changed.build()
    ours, rival = in_turn(lambda: new(y), lambda: old(x), rounds)
    return ours / rival, changed.flops / base.flops


def with_shuffle(seed: int, side: int, rounds: int = 25) -> tuple[float, float]:
    """Seconds of a layer in four groups with the channels shuffled after it, and of it alone."""
    import torch

    from helpers.roofline.design import Layer, shuffle

    torch.manual_seed(seed)
    module, x = Layer(groups=4, side=side).build()
    return in_turn(lambda: shuffle(module(x), 4), lambda: module(x), rounds)


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
SMALL = {"n": 32, "rounds": 1}
LAYERS = {"B = 1, n = 4096": {"rows": 1, "n": 4096}, "B = 64, n = 512": {"rows": 64, "n": 512}}


_ratio = with_defaults(seeds=SEEDS, unit="s", scale="ratio")

CLAIMS = [
    _ratio(
        "07-narrow-registers",
        "The widest registers finish at least twice the operations of a scalar loop.",
        peak_of,
        {"fp32": {"dtype": "float32"}, "fp64": {"dtype": "float64"}},
        "holds",
        1.0,
        "widest",
        "scalar",
        unit="flop/s",
    ),
    _ratio(
        "07-triad-read",
        "A triad shows less bandwidth than reading does.",
        triad_against_read,
        {"L1": {"size": 16 << 10}, "memory": {"size": 128 << 20}},
        PROCESSOR,
        0.05,
        "triad",
        "read",
        larger=False,
        axis="the level",
        unit="bytes/s",
        smallest={"size": 1 << 16},
    ),
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
        "A softmax takes longer than a pass over as many bytes.",
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
        "07-gru-step",
        "A GRU step reaches less than one matrix product with its operations.",
        gru_shares,
        {
            "batch 32, 128 units": {"batch": 32, "hidden": 128},
            "batch 256, 512 units": {"batch": 256, "hidden": 512},
        },
        "holds",
        0.1,
        "GRU step",
        "one product",
        larger=False,
        unit="flop/s",
        smallest={"batch": 2, "hidden": 4},
    ),
    _ratio(
        "07-dependent-sum",
        "Where no addition waits for the one before, the same misses take less time.",
        functools.partial(loops, ours="ijk, B turned", rival="ikj, one lane"),
        SIZES,
        "holds",
        0.25,
        "ijk, B turned",
        "ikj, one lane",
        smallest=SMALL,
    ),
    _ratio(
        "07-vectors",
        "Vectors make ikj at least twice as fast.",
        functools.partial(loops, ours="ikj, one lane", rival="ikj"),
        SIZES,
        "holds",
        1.0,
        "ikj, one lane",
        "ikj",
        smallest=SMALL,
    ),
    _ratio(
        "07-power-of-two",
        "A side that is a power of two costs ijk time for each operation.",
        per_operation,
        {"256, 272": {"n": 256, "beside": 16}, "512, 528": {"n": 512, "beside": 16}},
        PROCESSOR,
        0.1,
        "2^m",
        "2^m + 16",
        smallest={"n": 16},
    ),
    _ratio(
        "07-tile-too-large",
        "Tiles twice as wide as fit the second cache are slower than those that fit.",
        functools.partial(tiles, ours=3, rival=2),
        {"n = 1152": {"n": 1152}, "n = 1536": {"n": 1536, "rounds": 1}},
        "holds",
        0.1,
        "twice L2's tile",
        "L2's tile",
        smallest=SMALL,
    ),
    _ratio(
        "07-register-tile",
        "A tile of C in registers at least doubles the speed of blocks.",
        functools.partial(loops, ours="blocked", rival="tiled"),
        {"n = 384": {"n": 384}, "n = 768": {"n": 768}},
        "holds",
        1.0,
        "blocked",
        "tiled",
        smallest={"n": 48, "rounds": 1},
    ),
    _ratio(
        "07-border-test",
        "The test at each pixel costs a convolution time.",
        functools.partial(convolutions, ours="direct", rival="untested"),
        {"3 × 3": {"k": 3}, "5 × 5": {"k": 5}},
        "holds",
        0.25,
        "direct",
        "untested",
        smallest={"side": 16},
    ),
    _ratio(
        "07-sums-in-registers",
        "Sums that stay in registers make it faster again.",
        functools.partial(convolutions, ours="untested", rival="rows"),
        {"3 × 3": {"k": 3}, "5 × 5": {"k": 5}},
        "depends on the filter",
        0.1,
        "untested",
        "rows",
        axis="the filter",
        smallest={"side": 16},
    ),
    _ratio(
        "07-dense-rate",
        "The dense PageRank does more operations a second than the sparse one.",
        functools.partial(dense_against_csr, what="rate"),
        {"2000 nodes": {"nodes": 2000}, "4000 nodes": {"nodes": 4000}},
        "holds",
        0.1,
        "dense",
        "csr",
        unit="flop/s",
        smallest={"nodes": 64},
    ),
    _ratio(
        "07-dense-time",
        "And it takes longer.",
        functools.partial(dense_against_csr, what="seconds"),
        {"2000 nodes": {"nodes": 2000}, "4000 nodes": {"nodes": 4000}},
        "holds",
        0.5,
        "dense",
        "csr",
        smallest={"nodes": 64},
    ),
    _ratio(
        "07-half-the-bytes",
        "A layer takes at most two thirds of the time in float32 that it takes in float64.",
        functools.partial(formats, ours="float64", rival="float32"),
        LAYERS,
        "holds",
        0.5,
        "float64",
        "float32",
        smallest={"n": 8},
    ),
    _ratio(
        "07-time-operations",
        "A depthwise layer keeps more of its time than of its operations.",
        time_against_operations,
        {f"depthwise, {side}²": {"change": "depthwise", "side": side} for side in (56, 28)},
        "holds",
        0.1,
        "share of time",
        "share of operations",
        unit="1",
        smallest={"side": 8, "rounds": 1},
    ),
    _ratio(
        "07-shuffle",
        "The channel shuffle costs the grouped layer time.",
        with_shuffle,
        {"56 × 56": {"side": 56}, "14 × 14": {"side": 14}},
        "holds",
        0.02,
        "with shuffle",
        "without",
        smallest={"side": 4, "rounds": 1},
    ),
    _ratio(
        "07-unused-result",
        "A sum whose result nobody uses takes no time that grows with it.",
        unused_result,
        {"10⁵ additions": {"n": 10**5}, "3·10⁶ additions": {"n": 3 * 10**6}},
        "holds",
        9.0,
        "used",
        "unused",
        smallest={"n": 1000},
    ),
]
