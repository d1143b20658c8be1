"""Passes: each takes a graph's outputs and returns variables with the same values, cheaper to have.

>>> from helpers import autodiff
>>> from helpers.autodiff import passes
>>> x = autodiff.variable("x", shape=("n",))
>>> twice = [autodiff.exp(x), autodiff.exp(x)]
>>> a, b = passes.share_subexpressions(twice)
>>> a is b
True

The same to the bit, infinities, NaN and zeros' signs included: whatever changes these is in
:mod:`.passes.fast_math` and has to be asked for by that name. (A loop in C by :func:`fuse` takes
exp, log, sin, cos and tanh from another library than NumPy: their last digit may differ.)

The same for all: built on :mod:`helpers.autodiff.rewriting`; the old graph stays as
it is, the new one shares what did not change, and results have the types of what they replace. They
keep values, not the rules for differentiating them: differentiate first.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence

from helpers.autodiff.elementwise import add, equal, multiply
from helpers.autodiff.graph import Application, Variable, apply
from helpers.autodiff.passes import fast_math
from helpers.autodiff.passes.fusion import fuse
from helpers.autodiff.passes.updates import order_updates
from helpers.autodiff.rewriting import Inputs, rebuild

__all__ = [
    "fast_math",
    "fuse",
    "order_updates",
    "share_subexpressions",
]

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
