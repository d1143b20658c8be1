"""What every pass is built on: walk a graph forwards and build it anew, with a rule's changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence

from helpers.autodiff.graph import Application, Variable, apply, topological
from helpers.autodiff.operator import Operator
from helpers.autodiff.state import in_a_state

Inputs = tuple[Variable, ...]
Rule = Callable[[Application, Inputs], Variable | None]


def rebuild(
    outputs: Sequence[Variable],
    rule: Rule,
    inputs: Container[Variable] = (),
    after: Mapping[Application, Sequence[Variable]] | None = None,
    instead: Mapping[Variable, Variable] | None = None,
) -> list[Variable]:
    """Build a graph anew, from its beginning to its outputs.

    ``rule(application, rebuilt operands)`` is what replaces the output; None: the same operator.
    What an order was asked for by name stays: applications with control dependencies, and those
    that somebody waits for. Nor does a computed value become a state itself, to be read later.
    """
    new: dict[Variable, Variable] = dict(instead or {})
    order = topological(outputs, inputs, after)
    extra = {node: tuple(after.get(node, ())) if after else () for node in order}
    waited_for = {v for node in order for v in (*node.after, *extra[node])}
    for node in order:
        operands = tuple(new.get(v, v) for v in node.inputs)
        before = tuple(new.get(v, v) for v in (*node.after, *extra[node]))
        pinned = before or node.output in waited_for
        changed = None if pinned else rule(node, operands)
        if changed is not None and changed.type != node.output.type:
            raise TypeError(f"a rewriting of {node} expects {node.output.type}; got {changed!r}")
        if changed is not None and in_a_state(changed) and not node.operator.view_of_input:
            changed = None
        if changed is None:
            same = operands == node.inputs and before == node.after
            changed = node.output if same else apply(node.operator, *operands, after=before)
        new[node.output] = changed
    return [new.get(v, v) for v in outputs]


def maker_of(v: Variable, inputs: Container[Variable]) -> Operator | None:
    """Return the operator that makes a variable, None if its value comes from outside."""
    return v.maker.operator if v.maker and v not in inputs else None


def readers(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> Counter[Variable]:
    """Count who reads each variable, or waits for it; being an output counts as one."""
    order = topological(outputs, inputs)
    return Counter([*outputs, *(v for node in order for v in (*node.inputs, *node.after))])
