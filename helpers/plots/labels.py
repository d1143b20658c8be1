"""Where the names of points go: beside them, off lines, off other points, off other names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

Box = tuple[float, float, float, float]  # left, upper, right and lower edge
Line = tuple[float, float, float, float]  # from x, y to x, y
GAP = 12  # between a point and its name

# What is wrong with a place, in units of distance.
COVERS, NEAR, PAST, CROSSES, LEFT, ABOVE = 1000, 90, 40, 30, 8, 14


def beside(
    points: Sequence[tuple[float, float]],
    widths: Sequence[float],
    height: float,
    lines: Sequence[Line] = (),
    within: Box | None = None,
    crosses: float = CROSSES,
) -> list[tuple[float, float]]:
    """Return the left end and the middle of each point's name, y downwards.

    ``crosses`` is how much farther a name goes so that it crosses one line fewer.
    """
    near = GAP - 2
    marks = [(x - near, y - near, x + near, y + near) for x, y in points]
    taken: list[Box] = []
    found = []
    for i, ((x, y), width) in enumerate(zip(points, widths, strict=True)):
        others = [point for k, point in enumerate(points) if k != i]
        apart = [(u, v) for u, v in others if math.hypot(u - x, v - y) > GAP]
        over = [v - y for u, v in others if (u, v) not in apart]  # whose marks overlap this one
        options = []
        for k, way in itertools.product(range(6), (-1, 1)):
            far = 0.7 * k * height
            options += [
                (far, x + GAP, y + way * far),
                (far + LEFT, x - GAP - width, y + way * far),
                (far + ABOVE, x - width / 2, y + way * (far + GAP + height / 2)),
            ]
        costs = []
        for cost, left, middle in options:
            box = (left, middle - height / 2, left + width, middle + height / 2)
            cost += COVERS * sum(_overlap(box, other) for other in [*marks, *taken])
            own = _distance(box, (x, y))
            cost += NEAR * any(_distance(box, other) < own for other in apart)
            cost += PAST * any((middle - y) * down > 0 for down in over)
            cost += crosses * sum(_crosses(line, box) for line in lines)
            if within and not (
                within[0] <= box[0] and within[1] <= box[1]
                and box[2] <= within[2] and box[3] <= within[3]
            ):  # fmt: skip
                cost += COVERS
            costs.append((cost, box))
        left, upper, right, lower = min(costs, key=lambda one: one[0])[1]
        taken.append((left, upper, right, lower))
        found.append((left, (upper + lower) / 2))
    return found


def together(
    points: Sequence[tuple[float, float]], names: Sequence[str], near: float = 6
) -> list[tuple[tuple[float, float], str]]:
    """Return the points with their names; those that lie on one another share one line of names."""
    groups: list[tuple[tuple[float, float], list[str]]] = []
    for (x, y), name in sorted(zip(points, names, strict=True), key=lambda one: one[0][1]):
        for (u, v), some in groups:
            if abs(u - x) < near and abs(v - y) < near:
                some.append(name)
                break
        else:
            groups.append(((x, y), [name]))
    return [(place, ", ".join(some)) for place, some in groups]


def take(taken: list[Box], x: float, y: float, width: float, height: float) -> bool:
    """Whether a text around a place covers nothing that is taken; if so it is taken, too."""
    box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    if free := not any(_overlap(box, other) for other in taken):
        taken.append(box)
    return free


def _distance(box: Box, point: tuple[float, float]) -> float:
    across = max(box[0] - point[0], 0, point[0] - box[2])
    return math.hypot(across, max(box[1] - point[1], 0, point[1] - box[3]))


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _crosses(line: Line, box: Box) -> bool:
    """Whether a line passes through a box."""
    from matplotlib.path import Path
    from matplotlib.transforms import Bbox

    return Path([line[:2], line[2:]]).intersects_bbox(Bbox.from_extents(*box), filled=False)
