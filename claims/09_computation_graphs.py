"""What notebook 09 concludes: fusion, order of products, memory in place, recomputation.

The margins were fixed by reasoning, and before the recorded runs. A tenth of the time, for every
claim about time but one: less is not worth a pass, and a claim that holds by less on one machine
may fail on the next. The order of products counts multiplications that differ by factors of 50 and
300: there half the time is asked for. Bytes are counted, and do not vary from run to run: a
twentieth.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise

from helpers.claims import PROCESSOR, apart, in_turn, with_defaults

SEEDS = range(10)
TIME, BYTES = 0.1, 0.05  # margins

# --------------------------------------------------------------------------- section 5: passes

COEFFICIENTS = (0.5, -1.0, 2.0, 0.25)


def fused_seconds(seed: int, numbers: int, rival: str, rounds: int = 7) -> tuple[float, float]:
    """Seconds of eight elementwise operators: one loop in C against NumPy."""
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

    def over_one_array():
        np.copyto(room, values)
        for coefficient in COEFFICIENTS:
            np.multiply(room, values, out=room)
            np.add(room, coefficient, out=room)

    def new_arrays():
        y = values
        for coefficient in COEFFICIENTS:
            y = y * values + coefficient

    other = {"over": over_one_array, "new": new_arrays}[rival]
    return in_turn(lambda: fused(values), other, rounds)


def product_seconds(seed: int, size: int, rounds: int = 5) -> tuple[float, float]:
    """Seconds of A B v: ordered by shape against as written."""
    import numpy as np

    from helpers import autodiff
    from helpers.autodiff import passes

    A, B = (autodiff.variable(name, shape=(size, size)) for name in "AB")
    v = autodiff.variable("v", shape=(size, 1))
    ordered = autodiff.function([A, B, v], [A @ B @ v], passes=[passes.fast_math.order_products])
    written = autodiff.function([A, B, v], [A @ B @ v])
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=t.shape) for t in (A, B, v)]
    return in_turn(lambda: ordered(*arrays), lambda: written(*arrays), rounds)


def softmax_seconds(seed: int, rows: int, columns: int, rounds: int = 9) -> tuple[float, float]:
    """Seconds of a softmax with its gradient: one operator against five after all passes."""
    import numpy as np

    from helpers import autodiff
    from helpers.autodiff import passes

    x = autodiff.variable("x", shape=(rows, columns))
    values = np.random.default_rng(seed).normal(size=(rows, columns))

    def ready(fine: bool) -> Callable[[], object]:
        y = autodiff.softmax(x, fine=fine)
        wanted = autodiff.gradients(autodiff.sum(y * y), [x])
        for each in (passes.simplify, passes.share_subexpressions, passes.fuse):
            wanted = each(wanted, [x])
        plan = autodiff.plan([x], wanted)
        return lambda: plan(values)

    return in_turn(ready(False), ready(True), rounds)


# --------------------------------------------------------------------------- section 6: memory


def peaks(seed: int, kind: str) -> tuple[float, float]:
    """Planned peak in bytes, gradients included: with results over operands, and without."""
    import numpy as np

    from helpers import autodiff

    rng = np.random.default_rng(seed)
    width = [int(w) for w in rng.integers(8, 200, size=4)]
    x = autodiff.variable("x", shape=(128, width[0]))
    weights, h = [], x
    if kind == "perceptron":
        for fan_in, fan_out in pairwise(width):
            weights.append(autodiff.variable("W", shape=(fan_in, fan_out)))
            h = autodiff.tanh(h @ weights[-1])
    else:
        functions = (autodiff.tanh, autodiff.sigmoid, autodiff.sin, autodiff.exp)
        weights = [x]
        for k in rng.integers(0, 4, size=12):
            h = functions[k](h)
    wanted = [autodiff.sum(h), *autodiff.gradients(autodiff.sum(h), weights)]
    inputs = [x, *(w for w in weights if w is not x)]
    over, new = (autodiff.plan(inputs, wanted, in_place=flag).peak for flag in (True, False))
    return float(over), float(new)


# -------------------------------------------------------------------- section 7: recomputation


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
        "09-fused-new",
        "Eight elementwise operators as one loop take less time than in NumPy with a new array "
        "for each result.",
        functools.partial(fused_seconds, rival="new"),
        NUMBERS,
        "depends on how many numbers there are",
        TIME,
        "fused",
        "NumPy, new arrays",
        larger=False,
        axis="how many numbers there are",
        smallest={"numbers": 100, "rounds": 1},
    ),
    _ratio(
        "09-fused",
        "They take less than in NumPy written over one array.",
        functools.partial(fused_seconds, rival="over"),
        NUMBERS,
        "depends on how many numbers there are",
        TIME,
        "fused",
        "NumPy, one array",
        larger=False,
        axis="how many numbers there are",
        smallest={"numbers": 100, "rounds": 1},
    ),
    _ratio(
        "09-product-order",
        "A(Bv) in place of (AB)v, which a pass finds from the shapes, takes less time.",
        product_seconds,
        {"100 × 100": {"size": 100}, "600 × 600": {"size": 600}},
        "holds",
        1.0,
        "ordered",
        "as written",
        larger=False,
        smallest={"size": 10, "rounds": 1},
    ),
    _ratio(
        "09-granularity",
        "Softmax with its gradient as one operator takes less time than as five, both after all "
        "passes.",
        softmax_seconds,
        {
            "500 × 300": {"rows": 500, "columns": 300},
            "50 × 1000": {"rows": 50, "columns": 1000},
            "5 × 8": {"rows": 5, "columns": 8, "rounds": 50},
        },
        PROCESSOR,
        TIME,
        "one operator",
        "five, fused",
        larger=False,
        axis="the size",
        smallest={"rows": 3, "columns": 2, "rounds": 1},
    ),
    _ratio(
        "09-in-place",
        "Results written over their operands lower the peak of a gradient's graph.",
        peaks,
        {
            "perceptrons of random widths": {"kind": "perceptron"},
            "random chains of twelve functions": {"kind": "chain"},
        },
        "holds",
        BYTES,
        "over operands",
        "views and counts only",
        larger=False,
        axis="the graph",
        seeds=range(20),
        unit="B",
    ),
    _ratio(
        "09-segments-time",
        "√n segments lengthen the way forward and back.",
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
