"""What lies between a function's inputs and its outputs: what to feed, run, read, and drop.

Any topological order gives the right values. If an operator begins a transfer that goes on by
itself, a good one begins early and waits late: whatever is computed in between, hides it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import numpy as np

from helpers.autodiff.graph import Application, Variable, topological
from helpers.autodiff.sizes import Size, resolve, symbols
from helpers.autodiff.state import State


def needed(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> list[Application]:
    """List the applications between inputs and outputs in order, or say what is missing."""
    if len(set(inputs)) < len(inputs):
        raise ValueError(f"function expects each input once; got {inputs}")
    for variable in inputs:
        if isinstance(variable, State):
            raise ValueError(f"a state keeps its own value and is not fed; got {variable!r}")
    order = schedule(outputs, stop=set(inputs))
    for variable in leaves(order, inputs, outputs):
        if variable.held() is None:
            raise ValueError(f"function expects {variable!r} among its inputs; got {inputs}")
    return order


def leaves(
    order: Sequence[Application], inputs: Sequence[Variable], outputs: Sequence[Variable]
) -> list[Variable]:
    """List what is read, but neither computed nor fed: states, and what was known before."""
    read = dict.fromkeys(outputs) | {v: None for node in order for v in node.inputs}
    return [v for v in read if v.maker is None and v not in inputs]


def last_readers(
    order: Sequence[Application], outputs: Sequence[Variable]
) -> dict[Application, list[Variable]]:
    """Say which variables nobody needs after each application."""
    last = {v: node for node in order for v in (node.output, *node.inputs)}
    done: dict[Application, list[Variable]] = {}
    for variable in last.keys() - set(outputs):
        done.setdefault(last[variable], []).append(variable)
    return done


def schedule(outputs: Iterable[Variable], stop: Container[Variable] = ()) -> list[Application]:
    """List what must be applied to have some variables: what is urgent early, what waits late."""
    import networkx as nx

    outputs = list(outputs)
    order = topological(outputs, stop)
    early = [node for node in order if node.operator.urgency > 0]
    if not early:
        return order
    # what needs least comes first: the last layer's gradient before the first layer's
    early.sort(key=lambda node: len(topological([node.output], stop)))
    order = topological([*(node.output for node in early), *outputs], stop)
    place = {node: i for i, node in enumerate(order)}
    graph = nx.DiGraph()
    graph.add_nodes_from(order)
    for node in order:
        before = (v.maker for v in (*node.inputs, *node.after) if v.maker in place)
        graph.add_edges_from((other, node) for other in before)
    first = lambda node: (-node.operator.urgency, place[node])  # noqa: E731
    return list(nx.lexicographical_topological_sort(graph, key=first))


def checked(inputs: Sequence[Variable], arrays: Sequence[np.ndarray]) -> dict[Variable, np.ndarray]:
    """Pair inputs with arrays of their dtype and rank."""
    if len(arrays) != len(inputs):
        raise TypeError(f"a function of {len(inputs)} inputs expects as many; got {len(arrays)}")
    values = {}
    for variable, array in zip(inputs, map(np.asarray, arrays), strict=True):
        if array.dtype != variable.dtype or array.ndim != variable.ndim:
            raise TypeError(
                f"{variable.name or 'an input'} expects {variable.type};"
                f" got {array.dtype} {array.shape}"
            )
        values[variable] = array
    return values


def bind(inputs: Sequence[Variable], arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """Read the symbolic sizes off arrays, then check every size."""
    bindings: dict[str, int] = {}
    for variable, array in zip(inputs, arrays, strict=True):
        for size, actual in zip(variable.shape, array.shape, strict=True):
            if isinstance(size, Size) and symbols(size) == {repr(size)}:
                bindings.setdefault(repr(size), actual)
    for variable, array in zip(inputs, arrays, strict=True):
        unknown = symbols(variable.shape) - bindings.keys()
        if unknown or resolve(variable.shape, bindings) != array.shape:
            known = ", ".join(f"{name} = {size}" for name, size in bindings.items())
            raise ValueError(
                f"{variable.name or 'an input'} expects {variable.shape}"
                f"{f' with {known}' if known else ''}; got {array.shape}"
            )
    return bindings
