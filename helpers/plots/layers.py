"""A graph in layers: where its nodes stand, and which points its edges pass."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

PITCH = 80.0  # from layer to layer, px
GAP = 18.0  # between neighbours in a layer, px
BEND = 16.0  # width kept free where a long edge passes a layer, px
SWEEPS = 12  # down and up in turn; after a few nothing changes


@dataclass(frozen=True)
class Layout:
    """Where things go, in pixels: the nodes' middles, the points that edges pass, the size."""

    places: dict[Hashable, tuple[float, float]]
    routes: dict[tuple[Hashable, Hashable], list[tuple[float, float]]]
    width: float
    height: float


def layered(
    before: Mapping[Hashable, Sequence[Hashable]],
    widths: Mapping[Hashable, float],
) -> Layout:
    """Lay a graph out from top to bottom, each node below those it is made from (``before``).

    ``before`` lists a node after those. Sugiyama, Tagawa and Toda (1981), "Methods for visual
    understanding of hierarchical system structures": layers by longest path, an edge over several
    layers cut by a bend in each, an order within layers by the means of neighbours, then places as
    near to the neighbours as widths allow.
    """
    level: dict[Hashable, int] = {}
    for node, sources in before.items():
        level[node] = 1 + max((level[source] for source in sources), default=-1)
    for node, sources in before.items():
        readers = [level[other] for other, read in before.items() if node in read]
        if not sources and readers:
            level[node] = min(readers) - 1  # right above its first reader
    rows: list[list[Hashable]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for node in before:
        rows[level[node]].append(node)
    chains: dict[tuple[Hashable, Hashable], list[Hashable]] = {}
    for node, sources in before.items():
        for source in dict.fromkeys(sources):
            bends = [(source, node, row) for row in range(level[source] + 1, level[node])]
            for bend in bends:
                rows[bend[2]].append(bend)
            chains[source, node] = [source, *bends, node]
    up: dict[Hashable, list[Hashable]] = {}
    down: dict[Hashable, list[Hashable]] = {}
    for chain in chains.values():
        for a, b in pairwise(chain):
            down.setdefault(a, []).append(b)
            up.setdefault(b, []).append(a)
    rows = _ordered(rows, up, down)
    x = _across(rows, up, down, {node: widths.get(node, BEND) for row in rows for node in row})
    place = {
        node: (x[node], (number + 0.5) * PITCH) for number, row in enumerate(rows) for node in row
    }
    return Layout(
        places={node: place[node] for node in before},
        routes={ends: [place[node] for node in chain[1:-1]] for ends, chain in chains.items()},
        width=max((x[n] + widths.get(n, BEND) / 2 for row in rows for n in row), default=0.0),
        height=len(rows) * PITCH,
    )


def _ordered(rows: list, up: Mapping, down: Mapping) -> list:
    """The order that sweeps come to, in which each node goes to the mean of its neighbours."""
    for sweep in range(SWEEPS):
        neighbours, numbers = (up, range(1, len(rows))) if sweep % 2 == 0 else (down, None)
        for number in numbers or range(len(rows) - 2, -1, -1):
            other = rows[number - 1 if neighbours is up else number + 1]
            at = {node: k for k, node in enumerate(other)}
            mean = {}
            for k, node in enumerate(rows[number]):
                near = [at[n] for n in neighbours.get(node, ()) if n in at]
                mean[node] = sum(near) / len(near) if near else k
            rows[number] = sorted(rows[number], key=mean.__getitem__)
    return rows


def _across(rows: list, up: Mapping, down: Mapping, widths: Mapping) -> dict:
    """Draw each node to the mean of its neighbours, as far as the order and the widths permit."""
    import numpy as np
    from scipy.optimize import isotonic_regression

    apart = {}  # of each row: how far each node is from the first if all stand close
    x: dict[Hashable, float] = {}
    for number, row in enumerate(rows):
        steps = [(widths[a] + widths[b]) / 2 + GAP for a, b in pairwise(row)]
        apart[number] = np.concatenate([[0.0], np.cumsum(steps)])
        x |= dict(zip(row, apart[number] - apart[number][-1] / 2, strict=True))
    for sweep in range(2 * SWEEPS):
        order = range(len(rows)) if sweep % 2 == 0 else range(len(rows) - 1, -1, -1)
        for number in order:
            row = rows[number]
            wanted = [
                np.mean([x[n] for n in (*up.get(node, ()), *down.get(node, ()))] or [x[node]])
                for node in row
            ]
            weights = [1.0 if widths[node] > BEND else 4.0 for node in row]  # long edges straight
            fitted = isotonic_regression(np.array(wanted) - apart[number], weights=weights).x
            x |= dict(zip(row, (fitted + apart[number]).tolist(), strict=True))
    left = min((x[node] - widths[node] / 2 for row in rows for node in row), default=0.0)
    return {node: value - left for node, value in x.items()}
