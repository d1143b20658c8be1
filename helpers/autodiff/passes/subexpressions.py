"""Common subexpressions: what two people compute from the same operands is computed once."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence

from helpers.autodiff.elementwise import add, equal, multiply
from helpers.autodiff.graph import Application, Variable, apply
from helpers.autodiff.rewriting import Inputs, rebuild

SYMMETRIC = (add, multiply, equal)  # the larger of 0 and −0 depends on their order


def share_subexpressions(
    outputs: Sequence[Variable], inputs: Container[Variable] = ()
) -> list[Variable]:
    """Apply equal operators to equal operands only once."""
    made: dict[Hashable, Variable] = {}

    def shared(node: Application, operands: Inputs) -> Variable:
        order = sorted(operands, key=id) if node.operator in SYMMETRIC else operands
        key = (node.operator, *order)
        if key not in made:
            same = operands == node.inputs
            made[key] = node.output if same else apply(node.operator, *operands)
        return made[key]

    return rebuild(outputs, shared, inputs)
