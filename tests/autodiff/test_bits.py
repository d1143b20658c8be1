"""The passes that are no fast math keep every bit: infinities, NaN and the signs of zeros too."""

import numpy as np

from helpers import autodiff
from helpers.autodiff import passes

NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.1, 3.0, 1e200, 1e-320, np.inf, -np.inf, np.nan]
N = 17  # beyond 8 numbers the order of a sum depends on how they lie in memory
UNARY = ["negative", "abs", "sign", "relu", "sqrt"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
MOVES = ["exp", "log", "sin", "tanh", "transpose", "sum", "reshape", "matmul", "broadcast"]


def drawn(random, shape):
    """What is rounded, and here and there what is awkward."""
    ordinary = random.normal(size=shape)
    return np.where(random.random(shape) < 0.85, ordinary, random.choice(NUMBERS, shape))


def random_graph(random, steps, moves):
    """Two matrices, numbers and constants through operators drawn at random."""
    xs = [autodiff.variable(name, (N, N)) for name in "xy"]
    values = [*xs, autodiff.constant(drawn(random, (N, N)))]
    values.append(autodiff.full(random.choice(NUMBERS), (N, N)))

    def one():
        return values[random.integers(len(values))]

    def operand():
        return float(random.choice(NUMBERS)) if random.random() < 0.4 else one()

    for _ in range(steps):
        kind = random.choice(UNARY + BINARY * 2 + ["where"] + (MOVES if moves else []))
        a, b = one(), operand()
        if kind in BINARY:
            a, b = (a, b) if random.random() < 0.5 else (b, a)
            values.append(getattr(autodiff, kind)(a, b))
        elif kind in UNARY + MOVES[:4]:
            values.append(getattr(autodiff, kind)(a))
        elif kind == "where":
            values.append(autodiff.where(autodiff.less(a, b), operand(), one()))
        elif kind == "sum":
            values.append(autodiff.broadcast(autodiff.sum(a, random.integers(2), True), (N, N)))
        elif kind == "broadcast":
            values.append(autodiff.broadcast(a[:1], (N, N)))
        elif kind == "reshape":
            values.append(a.reshape(N * N).reshape(N, N))
        else:
            values.append(a @ one() if kind == "matmul" else a.T)
    return xs, values[2:]


def assert_same_bits(xs, outputs, new, random, what):
    arrays = [drawn(random, x.shape) for x in xs]
    with np.errstate(all="ignore"):
        before, after = (autodiff.function(xs, vs)(*arrays) for vs in (outputs, new))
    for a, b in zip(before, after, strict=True):
        same = (a.view("int64") == b.view("int64")) | (np.isnan(a) & np.isnan(b))
        assert same.all(), f"{what}: {a[~same]} became {b[~same]}"


def test_random_graphs_keep_every_bit():
    for seed in range(100):
        random = np.random.default_rng(seed)
        xs, outputs = random_graph(random, steps=random.integers(3, 20), moves=True)
        new = passes.share_subexpressions(outputs, xs)
        assert_same_bits(xs, outputs, new, random, f"seed {seed}")


def test_a_fused_loop_keeps_every_bit_of_arithmetic():
    """exp and its like excepted, whose last digit is another library's."""
    for seed in range(8):
        random = np.random.default_rng(seed)
        xs, values = random_graph(random, steps=60, moves=False)
        outputs = values[-3:]  # what only one other reads is fused
        assert_same_bits(xs, outputs, passes.fuse(outputs, xs), random, f"seed {seed}")


def test_fast_math_changes_values_and_has_to_be_asked_for():
    x = autodiff.variable("x")
    y = [x + 1e20 - 1e20]
    new = passes.fast_math.collect_terms(y, [x])
    assert [autodiff.function([x], v)(np.array(1.0))[0] for v in (y, new)] == [0, 1]
    assert "collect_terms" not in passes.__all__
