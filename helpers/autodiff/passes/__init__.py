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

from helpers.autodiff.elementwise import Cast, add, equal, multiply
from helpers.autodiff.graph import Application, Variable, apply, topological
from helpers.autodiff.passes import fast_math
from helpers.autodiff.passes.fusion import fuse
from helpers.autodiff.rewriting import Inputs, rebuild
from helpers.autodiff.state import Update, seen_in

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


def order_updates(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
    """Let each update of a state wait for everybody who reads the value before it.

    Other passes may change who reads it: this one comes last. ValueError if two updates start from
    the same value, or an operator needs the new value and reads the old one, which is not there any
    more.
    """
    overwritten = {
        node.inputs[0] for node in topological(outputs, inputs) if isinstance(node.operator, Update)
    }
    # who is given an old value reads it too: a copy is made while it is there
    outputs = [apply(Cast(v.dtype), v) if seen_in(v) in overwritten else v for v in outputs]
    order = topological(outputs, inputs)
    by_value: dict[Variable, Application] = {}  # what an update overwrites → the update
    for node in order:
        if isinstance(node.operator, Update):
            if (old := node.inputs[0]) in by_value:
                raise ValueError(f"a second update expects the first one's result; got {old!r}")
            by_value[old] = node
    after: dict[Application, list[Variable]] = {node: [] for node in by_value.values()}
    for node in order:
        if node.operator.view_of_input and node not in after:
            continue  # a view reads nothing; its readers do
        for v in node.inputs:
            update = by_value.get(seen_in(v))
            if update and update is not node:
                after[update].append(node.output)
    try:
        return rebuild(outputs, lambda node, operands: None, inputs, after)
    except ValueError as error:
        raise ValueError(
            "order_updates expects operators that read a state or its new value; one needs both: "
            f"{error}"
        ) from None
