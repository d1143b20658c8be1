"""Gradients by extending the graph: the result is made of variables of the same graph.

Each operator says how to continue the chain rule *as a graph*. So a gradient can be simplified,
fused and scheduled like anything else, and a gradient of a gradient is a second call:

    (g,) = gradients(y, [x])                        # ∂y/∂x
    (hv,) = gradients(sum(g * v), [x])              # (∂²y/∂x²) v

The walk is backwards over the topological order: when it comes to an operator, everything that
reads its result has been passed, so all contributions to its gradient are there to be added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers.autodiff.constants import full_like
from helpers.autodiff.elementwise import add, maximum, minimum
from helpers.autodiff.graph import Variable, apply, topological
from helpers.autodiff.operator import Operator, Type


def gradients(y: Variable, xs: Sequence[Variable], seed: Variable | None = None) -> list[Variable]:
    """Extend the graph by the gradients of y with respect to each x.

    Parameters
    ----------
    xs
        Inputs, or anything between inputs and y.
    seed
        The gradient of a loss with respect to y, of y's type; None: 1, if y is a scalar.

    Returns
    -------
    list of Variable
        For each x, of its type; zeros where y does not depend on it.

    Raises
    ------
    TypeError
        Unless all are floating.
    ValueError
        For a seed of another type, or none for a y that is no scalar.
    """
    for each in (y, *xs):
        if each.dtype.kind != "f":
            raise TypeError(f"gradients expects floating variables; got {each!r}")
    if seed is None and y.shape:
        raise ValueError(f"gradients expects a scalar, or a seed; got {y!r}")
    if seed is not None and seed.type != y.type:
        raise ValueError(f"gradients expects a seed of type {y.type}; got {seed!r}")

    return pullback([y], [full_like(y, 1) if seed is None else seed], xs)


def pullback(
    ys: Sequence[Variable], seeds: Sequence[Variable], xs: Sequence[Variable]
) -> list[Variable]:
    """Extend the graph by the gradients with respect to xs, given those with respect to ys."""
    order = topological(ys)
    leads = set(xs)  # variables that depend on an x
    for node in order:
        if not leads.isdisjoint(node.inputs):
            leads.add(node.output)
    total: dict[Variable, Variable] = {}

    def add_to(x: Variable, part: Variable) -> None:
        total[x] = add(total[x], part) if x in total else part

    for y, seed in zip(ys, seeds, strict=True):
        add_to(y, seed)
    for node in reversed(order):
        g = total.get(node.output)
        if g is None or node.output not in leads:
            continue
        parts = node.operator.gradient(g, node.output, *node.inputs)
        for x, part in zip(node.inputs, parts, strict=True):
            if part is not None and x in leads:
                if part.type != x.type:
                    raise TypeError(
                        f"the gradient of {node.operator} expects type {x.type}; got {part!r}"
                    )
                add_to(x, part)
    return [total[x] if x in total else full_like(x, 0) for x in xs]


@dataclass(frozen=True)
class Custom(Operator):
    """The first operand, with the gradients of a rule for the others: its gradient → theirs."""

    rule: Callable[..., Any] = field(repr=False)
    view_of_input = True

    def infer(self, y: Type, *xs: Type) -> Type:
        return y

    def view(self, y: np.ndarray, *xs: np.ndarray) -> np.ndarray:
        return y

    def gradient(self, g: Variable, y: Variable, *inputs: Variable) -> Sequence[Variable | None]:
        return [None, *self.rule(g)]


def with_gradient(
    y: Variable, xs: Sequence[Variable], rule: Callable[[Variable], Sequence[Variable | None]]
) -> Variable:
    """Return y with another gradient than that of the operators which made it.

    ``rule(gradient with respect to y)`` → the gradients with respect to ``xs``, None for zero.
    """
    return apply(Custom(rule), y, *xs)


def stop_gradient(x: Variable) -> Variable:
    """Return x, as something that depends on nothing."""
    return with_gradient(x, [], lambda g: [])


def reverse_gradient(x: Variable) -> Variable:
    """Return x, with gradients g that pass turned round, −g (Ganin and Lempitsky 2015)."""
    return with_gradient(x, [x], lambda g: [-g])


def clip_gradient(x: Variable, limit: float) -> Variable:
    """Return x, with each element of a gradient that passes cut to −limit ... limit."""
    return with_gradient(x, [x], lambda g: [minimum(maximum(g, -limit), limit)])
