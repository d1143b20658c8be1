"""What notebook 09 concludes: fusion and recomputation.

The margin, a tenth of the time, was fixed before the recorded runs: less is not worth a pass, and
a claim that holds by less on one machine may fail on the next.
"""

from __future__ import annotations

from helpers.claims import apart, in_turn, with_defaults

SEEDS = range(10)
TIME = 0.1  # the margin

COEFFICIENTS = (0.5, -1.0, 2.0, 0.25)
BLOCK = 8192  # numbers of a block, 64 kB: it stays in cache


def fused_seconds(seed: int, numbers: int, rounds: int = 7) -> tuple[float, float]:
    """Seconds of eight elementwise operators: one loop in C against NumPy in blocks."""
    import numpy as np

    from helpers import autodiff
    from helpers.autodiff import passes

    x = autodiff.variable("x", shape=("n",))
    y = x
    for coefficient in COEFFICIENTS:
        y = y * x + coefficient
    fused = autodiff.function([x], [y], passes=[passes.fuse])
    values = np.random.default_rng(seed).uniform(-1, 1, numbers)
    room = np.empty_like(values)

    def in_blocks():
        for i in range(0, numbers, BLOCK):
            x, y = values[i : i + BLOCK], room[i : i + BLOCK]
            np.copyto(y, x)
            for coefficient in COEFFICIENTS:
                np.multiply(y, x, out=y)
                np.add(y, coefficient, out=y)

    return in_turn(lambda: fused(values), in_blocks, rounds)


def segments_seconds(seed: int, steps: int, side: int, rounds: int = 6) -> tuple[float, float]:
    """Seconds of forward and backward over a chain: √n segments against all kept."""
    import numpy as np

    from helpers import autodiff
    from helpers.autodiff import checkpoint

    x = autodiff.variable("x", shape=(1, 4, side, side))
    k = autodiff.variable("k", shape=(4, 4, 3, 3))
    g = autodiff.variable("g", shape=(1, 4, side, side))
    y = autodiff.conv2d(x, k, padding=1)
    forward = autodiff.function([x, k], [y])
    backward = autodiff.function([x, k, g], autodiff.gradients(y, [x, k], seed=g))
    rng = np.random.default_rng(seed)
    kernels = rng.normal(size=(steps + 1, 4, 4, 3, 3)) / 6
    start = rng.normal(size=x.shape)

    def walk(schedule):
        return checkpoint.run_chain(
            schedule, start, np.ones_like(start),
            forward=lambda i, x: forward(x, kernels[i])[0],
            backward=lambda i, x, g: backward(x, kernels[i], g)[0],
        )  # fmt: skip

    segments, everything = checkpoint.in_segments(steps), checkpoint.keep_all(steps)
    return in_turn(lambda: walk(segments), lambda: walk(everything), rounds)


NUMBERS = {
    "400 numbers": {"numbers": 400, "rounds": 50},
    "40 thousand numbers": {"numbers": 40_000},
    "4 million numbers": {"numbers": 4_000_000},
}

_ratio = with_defaults(seeds=SEEDS, unit="s", scale="ratio")

CLAIMS = [
    _ratio(
        "09-fused-blocks",
        "Eight elementwise operators fused into one loop in C take less time than in "
        "NumPy, block by block over one array.",
        fused_seconds,
        NUMBERS,
        "depends on how many numbers there are",
        TIME,
        "fused",
        "NumPy in blocks",
        larger=False,
        axis="how many numbers there are",
        smallest={"numbers": 100, "rounds": 1},
    ),
    _ratio(
        "09-segments-time",
        "Recomputing in √n segments lengthens the way forward and back through a chain.",
        apart(segments_seconds),
        {
            "64 convolutions, 32 × 32": {"steps": 64, "side": 32},
            "144 convolutions, 16 × 16": {"steps": 144, "side": 16},
        },
        "depends on the chain",
        TIME,
        "√n segments",
        "all kept",
        axis="the chain",
        smallest={"steps": 4, "side": 4, "rounds": 1},
    ),
]
