"""Passes inside loops: a loop's body is a graph, and each step saves what a pass saves."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from helpers.autodiff.graph import Application, Variable, apply
from helpers.autodiff.loop import Body, Scan
from helpers.autodiff.rewriting import Inputs, rebuild

Pass = Callable[[Sequence[Variable], Sequence[Variable]], Sequence[Variable]]


def inside_loops(*passes: Pass) -> Pass:
    """Return a pass that applies passes to the body of each loop.

    Parameters
    ----------
    *passes : callable
        In this order.

    Returns
    -------
    callable
        A pass.
    """
    done: dict[Body, Body] = {}

    def rewritten(body: Body) -> Body:
        if body not in done:
            results: Sequence[Variable] = body.results
            for each in passes:
                results = each(results, body.fed)
            done[body] = replace(body, results=tuple(results))
        return done[body]

    def rule(node: Application, operands: Inputs) -> Variable | None:
        if not isinstance(node.operator, Scan):
            return None
        return apply(replace(node.operator, body=rewritten(node.operator.body)), *operands)

    def rewrite(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
        return rebuild(outputs, rule, inputs)

    return rewrite
