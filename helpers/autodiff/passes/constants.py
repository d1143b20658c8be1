"""Constant folding: compute now what does not depend on any input."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from helpers.autodiff.constants import Array, Full, constant, full
from helpers.autodiff.elementwise import Elementwise
from helpers.autodiff.graph import Application, Variable, apply
from helpers.autodiff.operator import Type, computed
from helpers.autodiff.rewriting import Inputs, maker_of, rebuild
from helpers.autodiff.sizes import count, symbols

LIMIT = 1 << 16  # elements: a larger constant costs more memory than it saves time


def fold_constants(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
    """Replace what depends on constants alone by its value."""
    numbers: dict[Variable, float] = {}  # of what is one number everywhere, in whatever shape
    arrays: dict[Variable, np.ndarray] = {}  # as they lie in memory, which orders a later sum

    def folded(node: Application, operands: Inputs) -> Variable:
        operator, type = node.operator, node.output.type
        new = node.output if operands == node.inputs else apply(operator, *operands)
        if isinstance(operator, Elementwise) and not numbers.keys().isdisjoint(operands):
            if numbers.keys() >= set(operands):
                scalars = [np.full((), numbers[v], v.dtype) for v in operands]
                value = computed(operator, Type(type.dtype, ()), scalars)
                new = full(value.item(), type.shape, type.dtype)
            else:  # a number that was broadcast becomes one of the larger shape
                new = apply(operator, *(_plain(v, numbers) for v in operands))
        elif _small(node) and arrays.keys() >= set(operands):
            value = computed(operator, type, [arrays[v] for v in operands])
            if value.size == 1:
                new = full(value.item(), type.shape, type.dtype)
            elif operands and not operator.view_of_input:
                new = constant(value)
            arrays[new] = value
        made = maker_of(new, inputs)
        if isinstance(made, Full) and not symbols(made.number):
            numbers[new] = made.number  # type: ignore[assignment]
        elif operator.view_of_input and operands[0] in numbers:
            numbers[new] = numbers[operands[0]]
        return new

    return rebuild(outputs, folded, inputs)


def _small(node: Application) -> bool:
    """Say whether a result has a known size, and not too large a one, of operands or constant."""
    operator, shape = node.operator, node.output.shape
    if not node.inputs and not isinstance(operator, Array | Full):
        return False
    known = not symbols((shape, getattr(operator, "number", 0)))
    return known and count(shape) <= LIMIT  # type: ignore[operator]


def _plain(v: Variable, numbers: dict[Variable, float]) -> Variable:
    """Return a constant in place of a view of a number."""
    made = v not in numbers or (v.maker and isinstance(v.maker.operator, Full))
    return v if made else full(numbers[v], v.shape, v.dtype)
