"""What every pass is built on: walk a graph forwards and build it anew, with a rule's changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence

from helpers.autodiff.graph import Application, Operator, Variable, apply, topological

Inputs = tuple[Variable, ...]
Rule = Callable[[Application, Inputs], Variable | None]


def rebuild(
    outputs: Sequence[Variable], rule: Rule, inputs: Container[Variable] = ()
) -> list[Variable]:
    """Build a graph anew, from its beginning to its outputs.

    Parameters
    ----------
    outputs : sequence of Variable
        What the graph is for.
    rule : callable
        ``rule(application, operands)`` → what replaces its output, given the operands that have
        already been rebuilt; None to apply the same operator to these.
    inputs : container of Variable
        What is fed: nothing before these is touched.

    Returns
    -------
    list of Variable
        In place of ``outputs``.

    Raises
    ------
    TypeError
        The rule replaced a variable by one of another type.
    """
    new: dict[Variable, Variable] = {}
    for node in topological(outputs, inputs):
        operands = tuple(new.get(v, v) for v in node.inputs)
        changed = rule(node, operands)
        if changed is None:
            changed = node.output if operands == node.inputs else apply(node.operator, *operands)
        if changed.type != node.output.type:
            raise TypeError(f"a rewriting of {node} expects {node.output.type}; got {changed!r}")
        new[node.output] = changed
    return [new.get(v, v) for v in outputs]


def maker_of(v: Variable, inputs: Container[Variable]) -> Operator | None:
    """Return the operator that makes a variable, unless the variable is fed.

    Parameters
    ----------
    v : Variable
        Any.
    inputs : container of Variable
        What is fed.

    Returns
    -------
    Operator or None
        None: its value comes from outside, whatever the graph says.
    """
    return v.maker.operator if v.maker and v not in inputs else None


def readers(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> Counter[Variable]:
    """Count who reads each variable; being an output counts as one.

    Parameters
    ----------
    outputs : sequence of Variable
        What the graph is for.
    inputs : container of Variable
        What is fed.

    Returns
    -------
    collections.Counter
        Variable → how often it is read.
    """
    return Counter([*outputs, *(v for node in topological(outputs, inputs) for v in node.inputs)])
