"""Sums put in order: like terms collected, small operands added before they are broadcast.

    x + 1 − 2 + x          becomes   2x − 1
    x + a + y + b          becomes   (x + y) + broadcast(a + b),   x, y large and a, b scalars

A sum has no order in mathematics, and a cheapest one in memory: each addition of large tensors
moves all of them. In floating point the order moves the last bits of the result; nothing more.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from helpers.autodiff.broadcasting import Broadcast, broadcast
from helpers.autodiff.constants import Full, full
from helpers.autodiff.elementwise import add, multiply, negative, subtract
from helpers.autodiff.graph import Application, Variable, apply
from helpers.autodiff.operator import Operator
from helpers.autodiff.rewriting import Inputs, maker_of, readers, rebuild
from helpers.autodiff.sizes import symbols

Terms = dict[Variable | None, float]  # variable → how often; None stands for the number 1


def collect_terms(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
    """Rewrite each sum as Σ coefficient · term, the terms of smaller shape first.

    Parameters
    ----------
    outputs : sequence of Variable
        What the graph is for.
    inputs : container of Variable
        What is fed.

    Returns
    -------
    list of Variable
        In place of ``outputs``.
    """
    count = readers(outputs, inputs)
    sums: dict[Variable, Terms] = {}  # of each rebuilt sum its terms

    def collected(node: Application, operands: Inputs) -> Variable | None:
        if node.operator not in (add, subtract, negative) or node.output.dtype.kind != "f":
            return None
        signs = {add: (1, 1), subtract: (1, -1), negative: (-1,)}[node.operator]
        terms: Terms = {}
        parts = zip(signs, operands, node.inputs, strict=True)
        for sign, operand, old in parts:
            # a sum that others read too is there anyway: it is one term
            known = sums.get(operand) if count[old] == 1 else None
            for term, coefficient in (known or _terms(operand, inputs)).items():
                terms[term] = terms.get(term, 0) + sign * coefficient
        new = _sum(terms, node.output, inputs)
        sums[new] = terms
        return new

    return rebuild(outputs, collected, inputs)


def _terms(v: Variable, inputs: Container[Variable]) -> Terms:
    """Read a variable as number · term."""
    maker = maker_of(v, inputs)
    if (number := _number(maker)) is not None:
        return {None: number}
    if maker == multiply:
        for a, b in (v.maker.inputs, v.maker.inputs[::-1]):  # type: ignore[union-attr]
            if (number := _number(maker_of(a, inputs))) is not None:
                return {b: number}
    return {v: 1}


def _number(operator: Operator | None) -> float | None:
    if isinstance(operator, Full) and not symbols(operator.number):
        return operator.number  # type: ignore[return-value]
    return None


def _sum(terms: Terms, like: Variable, inputs: Container[Variable]) -> Variable:
    """Build Σ coefficient · term, within each shape before it is broadcast."""
    groups: dict[tuple, Variable] = {}
    for term, coefficient in terms.items():
        if term is None or coefficient == 0:
            continue
        grown = isinstance(maker_of(term, inputs), Broadcast)
        small = term.maker.inputs[0] if grown else term  # type: ignore[union-attr]
        if coefficient not in (1, -1):
            small = apply(multiply, full(coefficient, small.shape, small.dtype), small)
        if small.shape in groups:
            join = subtract if coefficient == -1 else add
            groups[small.shape] = apply(join, groups[small.shape], small)
        else:
            groups[small.shape] = apply(negative, small) if coefficient == -1 else small
    parts = [broadcast(part, like.shape) for part in groups.values()]
    number = terms.get(None, 0)
    if number or not parts:
        parts.append(full(number, like.shape, like.dtype))
    total = parts[0]
    for part in parts[1:]:
        total = apply(add, total, part)
    return total
