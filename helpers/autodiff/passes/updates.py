"""Updates behind the readers of the old value, by control dependencies."""

from __future__ import annotations

from collections.abc import Container, Sequence

from helpers.autodiff.elementwise import Cast
from helpers.autodiff.graph import Application, Variable, apply, topological
from helpers.autodiff.rewriting import rebuild
from helpers.autodiff.state import Update, seen_in


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
