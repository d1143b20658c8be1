"""In which order a graph runs, where some operators only begin something or wait for it.

Any topological order gives the right values. If an operator begins a transfer that goes on by
itself, a good one begins early and waits late: whatever is computed in between, hides it.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable

from helpers.autodiff.graph import Application, Variable, topological


def schedule(outputs: Iterable[Variable], stop: Container[Variable] = ()) -> list[Application]:
    """List what must be applied to have some variables: what is urgent early, what waits late."""
    outputs = list(outputs)
    order = topological(outputs, stop)
    early = [node for node in order if node.operator.urgency > 0]
    if not early:
        return order
    # what needs least comes first: the last layer's gradient before the first layer's
    early.sort(key=lambda node: len(topological([node.output], stop)))
    order = topological([*(node.output for node in early), *outputs], stop)
    place = {node: i for i, node in enumerate(order)}
    waiting = {node: set(_before(node, place)) for node in order}
    readers: dict[Application, list[Application]] = {node: [] for node in order}
    for node in order:
        for other in waiting[node]:
            readers[other].append(node)
    ready = [(-node.operator.urgency, place[node]) for node in order if not waiting[node]]
    heapq.heapify(ready)
    found = []
    while ready:
        node = order[heapq.heappop(ready)[1]]
        found.append(node)
        for reader in readers[node]:
            waiting[reader].remove(node)
            if not waiting[reader]:
                heapq.heappush(ready, (-reader.operator.urgency, place[reader]))
    return found


def _before(node: Application, place: dict[Application, int]) -> list[Application]:
    return [v.maker for v in (*node.inputs, *node.after) if v.maker in place]
