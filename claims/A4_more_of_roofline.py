"""What appendix A4 concludes: number formats and changes of a layer."""

from __future__ import annotations

import functools

from helpers.claims import in_turn, with_defaults

SEEDS = range(5)


def formats(seed: int, rows: int, n: int, ours: str, rival: str) -> tuple[float, float]:
    """Seconds of a layer in two formats, on one thread."""
    import torch

    from helpers.roofline import kernels

    calls = [kernels.layer(rows, n, getattr(torch, dtype), seed)[1] for dtype in (ours, rival)]
    return in_turn(*[lambda f=f: [f() for _ in range(3)] for f in calls], rounds=6)


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


LAYERS = {"B = 1, n = 4096": {"rows": 1, "n": 4096}, "B = 64, n = 512": {"rows": 64, "n": 512}}


_ratio = with_defaults(seeds=SEEDS, unit="s", scale="ratio")

CLAIMS = [
    _ratio(
        "A4-half-the-bytes",
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
        "A4-time-operations",
        "A depthwise layer keeps a larger share of the full layer's time than of its operations.",
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
        "A4-shuffle",
        "A channel shuffle lengthens the time of a grouped layer.",
        with_shuffle,
        {"56 × 56": {"side": 56}, "14 × 14": {"side": 14}},
        "holds",
        0.02,
        "with shuffle",
        "without shuffle",
        smallest={"side": 4, "rounds": 1},
    ),
]
