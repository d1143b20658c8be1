"""Constant folding: compute now what does not depend on any input."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from helpers.autodiff.constants import Array, Full, constant, full
from helpers.autodiff.elementwise import Elementwise
from helpers.autodiff.graph import Application, Variable
from helpers.autodiff.operator import Operator
from helpers.autodiff.rewriting import Inputs, maker_of, rebuild
from helpers.autodiff.sizes import count, symbols

LIMIT = 1 << 16  # elements: a larger constant costs more memory than it saves time


def fold_constants(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
    """Replace what depends on constants alone by its value.

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
    return rebuild(
        outputs, lambda node, xs: _folded(node, xs, [maker_of(v, inputs) for v in xs]), inputs
    )


def _folded(node: Application, operands: Inputs, makers: list[Operator | None]) -> Variable | None:
    numbers = [m for m in makers if isinstance(m, Full) and not symbols(m.number)]
    moves_only = node.operator.view_of_input
    result = node.output
    if makers and len(numbers) == len(makers):
        if moves_only:  # one number everywhere, in another shape, symbolic or not
            return full(numbers[0].number, result.shape, result.dtype)
        if isinstance(node.operator, Elementwise):
            value = _run(node, [np.full((), n.number, n.dtype) for n in numbers], ())
            return full(value.item(), result.shape, result.dtype)
    shapes = (result.shape, *(v.shape for v in operands))
    known = all(isinstance(m, Array) or m in numbers for m in makers)
    if makers and known and not symbols(shapes) and count(result.shape) <= LIMIT:  # type: ignore[operator]
        arrays = []
        for v, maker in zip(operands, makers, strict=True):
            arrays.append(np.empty(v.shape, v.dtype))  # type: ignore[arg-type,type-var]
            maker.run(arrays[-1])  # type: ignore[union-attr]
        return constant(_run(node, arrays, result.shape))
    return None


def _run(node: Application, arrays: list[np.ndarray], shape: tuple) -> np.ndarray:
    out = np.empty(shape, node.output.dtype)
    node.operator.run(out, *arrays)
    return out
