"""Random programs that a graph and PyTorch both run: a list of steps over earlier results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

UNARY = ("exp", "tanh", "sigmoid", "sin", "square", "negative")
BINARY = ("add", "subtract", "multiply", "divide_safely", "matmul")
AXES = ("rows", "columns", "everything", "softmax", "transpose", "first")
STEPS = UNARY + BINARY + AXES


@dataclass(frozen=True)
class Program:
    """Inputs' shapes, and steps (name, first operand, second operand) by position."""

    shapes: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[str, int, int], ...]


@st.composite
def programs(draw: st.DrawFn, least: int = 2, most: int = 9) -> Program:
    """Draw a program over two or three matrices with some axes of size 1."""
    n, m = draw(st.sampled_from([(2, 3), (1, 4), (3, 3)]))
    shapes = st.sampled_from([(n, m), (1, m), (n, 1), (1, 1)])
    inputs = tuple(draw(st.lists(shapes, min_size=2, max_size=3)))
    step = st.tuples(st.sampled_from(STEPS), st.integers(0, 30), st.integers(0, 30))
    return Program(inputs, tuple(draw(st.lists(step, min_size=least, max_size=most))))


def build(program: Program, inputs: Sequence[Any], library: Any) -> Any:
    """Run a program with a library's functions; every result enters the last sum."""
    values = list(inputs)
    for name, first, second in program.steps:
        values.append(
            step(name, values[first % len(values)], values[second % len(values)], library)
        )
    total = values[-1].sum()
    for value in values[:-1]:
        total = total + (value * 0.5).mean()
    return library.tanh(total * 0.1)


def step(name: str, a: Any, b: Any, library: Any) -> Any:
    """Apply one step; operands that do not go together give the first, scaled."""
    together = all(p == q or 1 in (p, q) for p, q in zip(a.shape, b.shape, strict=True))
    if name in ("exp", "sin", "tanh", "sigmoid"):
        return getattr(library, name)(a * 0.5)
    if name == "square":
        return a * a * 0.3
    if name == "negative":
        return -a
    if name == "matmul":
        return library.tanh(a @ b) if a.shape[1] == b.shape[0] else a * 0.7
    if name == "divide_safely":
        return a / (b * b + 1) if together else a * 0.7
    if name in ("add", "subtract", "multiply"):
        if not together:
            return a * 0.7
        return {"add": a + b, "subtract": a - b, "multiply": a * b}[name]
    if name == "everything":
        return a.sum().reshape((1, 1)) * 0.2
    if name == "rows":
        return a.mean(0).reshape((1, -1))
    if name == "columns":
        return a.sum(1).reshape((-1, 1))
    if name == "softmax":
        return library.softmax(a, -1)
    if name == "first":
        return a[:1]
    assert name == "transpose", name
    return a.T
