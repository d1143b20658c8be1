"""Algebraic simplification: x + 0, x · 1, −(−x), a transpose of a transpose, and their like.

Only what holds to the bit. x · 0 is not 0 where x is infinite or NaN, x + 0 is not x where x is −0
(x + −0 is), log(exp x) is not x where exp x overflows, and a sum over two axes at once adds in
another order than one after the other: these stay.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from helpers.autodiff.broadcasting import Broadcast, broadcast
from helpers.autodiff.constants import Full
from helpers.autodiff.elementwise import Elementwise, add, divide, multiply, negative, subtract
from helpers.autodiff.gradient import Custom
from helpers.autodiff.graph import Application, Variable
from helpers.autodiff.operator import Operator
from helpers.autodiff.rewriting import Inputs, maker_of, rebuild
from helpers.autodiff.shaping import Reshape, Transpose, reshape, transpose


def simplify(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
    """Leave out operators that change nothing, and join pairs that are one operator."""

    def simpler(node: Application, operands: Inputs) -> Variable | None:
        operator = node.operator
        if isinstance(operator, Custom):
            return operands[0]
        if operator in (add, subtract, multiply, divide):
            left, right = operands
            return _without_neutral(operator, left, right, inputs)
        if not operands or (isinstance(operator, Elementwise) and operator != negative):
            return None
        first = operands[0]
        below = maker_of(first, inputs)
        fed = first.maker.inputs if below and first.maker else ()
        before = fed[0] if fed else first
        if operator == negative and below == negative:
            return before
        if isinstance(operator, Transpose):
            axes = operator.axes
            if isinstance(below, Transpose):
                first, axes = before, tuple(below.axes[a] for a in axes)
            return first if axes == tuple(range(len(axes))) else transpose(first, axes)
        if isinstance(operator, Reshape):
            return reshape(before if isinstance(below, Reshape) else first, operator.shape)
        if isinstance(operator, Broadcast) and isinstance(below, Broadcast):
            return broadcast(before, operator.shape)
        return None

    def kept(node: Application, operands: Inputs) -> Variable | None:
        # a computed value does not become a view: how a tensor lies in memory orders later sums
        new = simpler(node, operands)
        below = maker_of(new, inputs) if new is not None else None
        return None if below and below.view_of_input > node.operator.view_of_input else new

    return rebuild(outputs, kept, inputs)


def _without_neutral(
    operator: Operator, a: Variable, b: Variable, inputs: Container[Variable]
) -> Variable | None:
    # −0 + 0 is 0: repr tells them
    neutral = "-0.0" if operator == add else "0.0" if operator == subtract else "1.0"
    if a.dtype.kind != "f":
        neutral = neutral.lstrip("-")[0]
    left, right = (
        repr(maker.number) if isinstance(maker, Full) else ""
        for maker in (maker_of(a, inputs), maker_of(b, inputs))
    )
    if right == neutral:
        return a
    return b if left == neutral and operator in (add, multiply) else None
