"""Operators that work element by element: a table, one entry each.

An entry gives the name, the NumPy function that runs it, the gradient as a graph, and the same in C
for fused loops. Operands of an application have one dtype and one shape; calling an operator,
``add(x, 1)``, first puts numbers and arrays into the graph and broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers.autodiff.broadcasting import broadcast
from helpers.autodiff.constants import constant, full, full_like
from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.sizes import Size

Rule = Callable[..., Sequence[Variable | None]]


@dataclass(frozen=True)
class Elementwise(Operator):
    """An operator that works element by element; call it to apply it."""

    name: str
    kernel: Callable[..., Any] = field(repr=False)
    rule: Rule = field(repr=False)  # rule(g, y, *operands) → gradients
    c: str  # the expression in C, of {0}, {1}, ... of type {T}
    operands: str = "n"  # a letter for each: f floating, n number, b bool, a anything
    result: str = ""  # "" for the operands' dtype, or a dtype
    in_place: tuple[int, ...] = (0, 1)  # operands that out may be

    def infer(self, *xs: Type) -> Type:
        kinds = {"f": "f", "n": "fiu", "b": "b", "a": "fiub"}
        if len(xs) != len(self.operands) or any(
            x.dtype.kind not in kinds[letter] for x, letter in zip(xs, self.operands, strict=True)
        ):
            names = {"f": "floating", "n": "a number", "b": "bool", "a": "any"}
            wanted = ", ".join(names[letter] for letter in self.operands)
            raise TypeError(f"{self.name} expects {wanted}; got {', '.join(map(str, xs))}")
        numbers = [x for x, letter in zip(xs, self.operands, strict=True) if letter != "b"] or xs
        if len({x.dtype for x in numbers}) > 1:
            got = ", ".join(map(str, xs))
            raise TypeError(f"{self.name} expects one dtype (cast one operand); got {got}")
        if len({x.shape for x in xs}) > 1:
            got = ", ".join(map(str, xs))
            raise ValueError(f"{self.name} expects equal shapes; got {got}")
        return Type(np.dtype(self.result) if self.result else numbers[-1].dtype, xs[0].shape)

    def run(self, out: np.ndarray, *xs: np.ndarray) -> None:
        self.kernel(*xs, out=out)

    def gradient(self, g: Variable, y: Variable, *xs: Variable) -> Sequence[Variable | None]:
        return self.rule(g, y, *xs)

    def __call__(self, *xs: Any) -> Variable:
        """Apply to variables, arrays and numbers, broadcast to one shape."""
        return apply(self, *broadcast_together(self.name, *xs))

    def __str__(self) -> str:
        return self.name


def broadcast_together(name: str, *xs: Any) -> list[Variable]:
    """Broadcast to one shape, by NumPy's rule; a number takes the dtype of the last variable."""
    operands = [x if isinstance(x, (bool, int, float, Size, Variable)) else constant(x) for x in xs]
    variables = [x for x in operands if isinstance(x, Variable)]
    if not variables:
        raise TypeError(f"{name} expects a variable or an array; got {xs}")
    rank = max(x.ndim for x in variables)
    shape = []
    for sizes in zip(*((1,) * (rank - x.ndim) + x.shape for x in variables), strict=True):
        distinct = {size for size in sizes if size != 1} or {1}
        if len(distinct) > 1:
            got = " and ".join(str(x.shape) for x in variables)
            raise ValueError(f"{name} expects shapes that broadcast; got {got}")
        shape.append(distinct.pop())
    return [
        broadcast(x, tuple(shape))
        if isinstance(x, Variable)
        else full(x, shape, variables[-1].dtype)
        for x in operands
    ]


def _sigmoid(x: np.ndarray, out: np.ndarray) -> None:
    np.multiply(x, 0.5, out=out)
    np.tanh(out, out=out)  # never overflows, as exp(-x) would
    out += 1
    out *= 0.5


def _where(chosen: np.ndarray, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    np.copyto(out, y)
    np.copyto(out, x, where=chosen)


def _unary(name: str, kernel: Callable[..., Any], rule: Callable[..., Any], c: str) -> Elementwise:
    return Elementwise(name, kernel, lambda g, y, x: [rule(g, y, x)], c, "f", in_place=(0,))


def _compare(name: str, kernel: Callable[..., Any], c: str) -> Elementwise:
    flat = lambda g, y, a, b: [None, None]  # noqa: E731
    return Elementwise(name, kernel, flat, c, "aa", "bool", ())


add: Elementwise = Elementwise("add", np.add, lambda g, y, a, b: [g, g], "{0} + {1}", "nn")
subtract: Elementwise = Elementwise(
    "subtract", np.subtract, lambda g, y, a, b: [g, -g], "{0} - {1}", "nn"
)
multiply: Elementwise = Elementwise(
    "multiply", np.multiply, lambda g, y, a, b: [g * b, g * a], "{0} * {1}", "nn"
)
divide: Elementwise = Elementwise(
    "divide", np.true_divide, lambda g, y, a, b: [g / b, -(g * y / b)], "{0} / {1}", "ff"
)
negative: Elementwise = _unary("negative", np.negative, lambda g, y, x: -g, "-{0}")
exp: Elementwise = _unary("exp", np.exp, lambda g, y, x: g * y, "exp({0})")
log: Elementwise = _unary("log", np.log, lambda g, y, x: g / x, "log({0})")
sqrt: Elementwise = _unary("sqrt", np.sqrt, lambda g, y, x: g / (2 * y), "sqrt({0})")
sin: Elementwise = _unary("sin", np.sin, lambda g, y, x: g * cos(x), "sin({0})")
cos: Elementwise = _unary("cos", np.cos, lambda g, y, x: -(g * sin(x)), "cos({0})")
tanh: Elementwise = _unary("tanh", np.tanh, lambda g, y, x: g * (1 - y * y), "tanh({0})")
sigmoid: Elementwise = _unary(
    "sigmoid", _sigmoid, lambda g, y, x: g * y * (1 - y), "({T})0.5 * (1 + tanh(({T})0.5 * {0}))"
)
abs: Elementwise = _unary("abs", np.abs, lambda g, y, x: g * sign(x), "fabs({0})")
sign: Elementwise = _unary(
    "sign", np.sign, lambda g, y, x: None, "({0} != {0} ? {0} : ({T})(({0} > 0) - ({0} < 0)))"
)
relu: Elementwise = _unary(
    "relu",
    lambda x, out: np.maximum(x, 0, out=out),
    lambda g, y, x: where(greater(y, 0), g, 0),
    "({0} <= 0 ? 0 : {0})",
)
less: Elementwise = _compare("less", np.less, "{0} < {1}")
greater: Elementwise = _compare("greater", np.greater, "{0} > {1}")
equal: Elementwise = _compare("equal", np.equal, "{0} == {1}")
where: Elementwise = Elementwise(
    "where",
    _where,
    lambda g, y, chosen, a, b: [None, where(chosen, g, 0), where(chosen, 0, g)],
    "({0} ? {1} : {2})",
    "baa",
    in_place=(2,),
)
maximum: Elementwise = Elementwise(  # equals share the gradient
    "maximum",
    np.maximum,
    lambda g, y, a, b: [_larger(g, a, b), _larger(g, b, a)],
    "({0} > {1} || {0} != {0} ? {0} : {1})",  # of 0 and −0 the second, as NumPy has it
    "nn",
)
minimum: Elementwise = Elementwise(
    "minimum",
    np.minimum,
    lambda g, y, a, b: [_larger(g, b, a), _larger(g, a, b)],
    "({0} < {1} || {0} != {0} ? {0} : {1})",
    "nn",
)


def _larger(g: Variable, a: Variable, b: Variable) -> Variable:
    return where(greater(a, b), g, where(equal(a, b), g / 2, 0))


@dataclass(frozen=True)
class Cast(Operator):
    """The same numbers in another dtype."""

    dtype: np.dtype

    def infer(self, x: Type) -> Type:
        return Type(self.dtype, x.shape)

    def run(self, out: np.ndarray, x: np.ndarray) -> None:
        np.copyto(out, x, casting="unsafe")

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable | None]:
        return [cast(g, x.dtype) if x.dtype.kind == "f" else None]


def cast(x: Variable, dtype: Any) -> Variable:
    """Return the same numbers in another dtype; nothing else in the graph changes one."""
    return x if x.dtype == np.dtype(dtype) else apply(Cast(np.dtype(dtype)), x)


def gelu(x: Variable) -> Variable:
    """Gate x by a smooth step (Hendrycks and Gimpel 2016, the form with tanh)."""
    inner = multiply(add(x, multiply(0.044715, multiply(x, multiply(x, x)))), np.sqrt(2 / np.pi))
    return multiply(multiply(0.5, x), add(1.0, tanh(inner)))


def power(x: Variable, exponent: int | float) -> Variable:
    """Raise to a power that is a number: whole, or x must be positive."""
    if exponent == 0.5:
        return sqrt(x)
    if exponent != int(exponent):
        return exp(exponent * log(x))
    if exponent < 0:
        return 1 / power(x, -exponent)
    if exponent < 2:
        return x if exponent else full_like(x, 1)
    half = power(multiply(x, x), exponent // 2)  # x⁷ = (x²)³ x
    return multiply(half, x) if exponent % 2 else half
