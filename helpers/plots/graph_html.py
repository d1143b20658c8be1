"""A computation graph in layers, to point at and to run: operators, variables, and their memory.

The graph itself is an SVG that reads without a script; ``web/graph.js`` adds the player, and the
memory that fills and empties.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from helpers.plots.layers import layered
from helpers.plots.style import BLUE, EIGHT, GREEN, ORANGE, PURPLE, SKY
from helpers.plots.timeline import size
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML

    from helpers.autodiff import Plan, Variable

BOX, OVAL = 36.0, 24.0  # heights of a variable and of an operator, px
HALF = (BOX + OVAL) / 2  # the rest of a layer has the edges to the next
LETTER = 7.4  # width of a character at 13 px, px
BUFFERS = (BLUE, ORANGE, GREEN, PURPLE, SKY, EIGHT[7])  # vermilion is this step's operator
MOST = 120  # operators: beyond, nobody sees a thing


def graph(
    plan: Plan,
    names: Mapping[Variable, str] | None = None,
    first: int = 0,
    loss: Variable | None = None,
) -> HTML:
    """Return a graph to run: step by step, with the memory that its plan gives to each result.

    Operators that ``loss`` does not need are drawn in another shade, as those of the backward pass.

    ValueError for a plan without operators or with more than 120, or a step that it has not.
    """
    if not 0 < len(plan.steps) <= MOST:
        raise ValueError(f"graph draws 1 to {MOST} operators; got {len(plan.steps)}")
    if not 0 <= first <= len(plan.steps):
        raise ValueError(f"graph opens at step 0 to {len(plan.steps)}; got first={first}")
    data = {**described(plan, names or {}, loss), "first": first}
    return embed("graph", data, still=_still(data))


def described(
    plan: Plan, names: Mapping[Variable, str], loss: Variable | None = None
) -> dict[str, Any]:
    """Return a plan as what the picture needs: its variables and its steps, each with its memory.

    Makers and readers are steps (0: fed), operands and results numbers of variables. ``buffers`` in
    use while a step runs are pairs of owner and bytes; an owner is the first variable that had the
    memory.
    """
    from helpers.autodiff import topological

    number: dict[Variable, int] = {}
    forward = {node.output for node in topological(plan.outputs if loss is None else [loss])}
    variables: list[dict] = []
    steps: list[dict] = []
    first: dict[int, int] = {}  # variable → the first owner of its memory
    used: dict[int, int] = {}  # first owner → bytes
    colours: dict[int, int] = {}  # first owner → number of a colour that no neighbour in time has

    def add(v: Variable, shape: Iterable[int], step: int, fallback: str) -> int:
        number[v], shape = len(variables), tuple(shape)
        variables.append({
            "name": names.get(v) or v.name, "kind": fallback, "type": f"{v.dtype} {shape}",
            "bytes": v.dtype.itemsize * prod(shape), "made": step, "read": [],
            "wanted": v in plan.outputs,
        })  # fmt: skip
        return number[v]

    bound = dict(plan.bindings)
    for v in plan.inputs:
        shape = (s if isinstance(s, int) else bound[repr(s)] for s in v.shape)
        k = add(v, shape, 0, "fed")
        first[k] = k
    for i, step in enumerate(plan.steps, start=1):
        operands = [number[v] for v in step.node.inputs]
        k = add(step.node.output, step.shape, i, str(step.operator))
        for each in dict.fromkeys(operands):
            variables[each]["read"].append(i)
        if step.how == "new":
            first[k], used[k] = k, variables[k]["bytes"]
            taken = Counter(dict.fromkeys(range(len(BUFFERS)), 0))
            taken.update(colours[owner] for owner in used if owner in colours)
            colours[k] = min(taken, key=lambda c: (taken[c], (c - k) % len(BUFFERS)))
        else:
            first[k] = first[operands[0] if step.over is None else number[step.over]]
        buffers = [[owner, each] for owner, each in used.items()]
        freed = [first[number[v]] for v in step.free]
        for owner in freed:
            del used[owner]
        steps.append({
            "operator": str(step.operator), "reads": operands, "makes": k, "how": step.how,
            "over": None if step.over is None else number[step.over],
            "buffers": buffers, "freed": freed, "backward": step.node.output not in forward,
        })  # fmt: skip
    for k, variable in enumerate(variables):
        variable["owner"], variable["colour"] = first[k], colours.get(first[k], 0)
        ends = [len(steps)] if variable["wanted"] else []
        variable["last"] = max([*variable["read"], *ends, variable["made"]])
    return {
        "variables": variables,
        "steps": steps,
        "live": list(plan.live),
        "peak": plan.peak,
        "palette": BUFFERS,
    }


def _still(data: dict) -> str:
    """The graph as an SVG; types without the dtype if all have the same."""
    variables, steps = data["variables"], data["steps"]
    dtypes = {v["type"].partition(" ")[0] for v in variables}
    shown = [v["type"].partition(" ")[2] if len(dtypes) == 1 else v["type"] for v in variables]
    lines = [[v["name"], text][not v["name"] :] for v, text in zip(variables, shown, strict=True)]
    wides = [LETTER * max(5, *map(len, both)) + 10 for both in lines]
    before: dict[Hashable, list[int]] = {k: [] for k in range(len(variables))}
    widths: dict[Hashable, float] = dict(enumerate(wides))
    for step in steps:
        before[step["makes"]] = step["reads"]
        widths[step["makes"]] = max(widths[step["makes"]], _oval_width(step["operator"]))
    layout = layered(before, widths)
    parts: list[str] = []
    for i, step in enumerate(steps):
        x, y = layout.places[step["makes"]]
        for source in dict.fromkeys(step["reads"]):
            sx, sy = layout.places[source]
            points = [(sx, sy + HALF), *layout.routes[source, step["makes"]]]
            path = _curve([*points, (x, y - HALF)])
            parts.append(f'<path d="{path}" class="edge" data-from="{source}" data-step="{i}"/>')
    for k, variable in enumerate(variables):
        x, y = layout.places[k]
        if variable["made"]:
            step, top = steps[variable["made"] - 1], y - HALF
            wide = _oval_width(step["operator"])
            parts.append(
                f'<g class="operator{" backward" * step["backward"]}" '
                f'data-testid="graph-node-{len(variables) + variable["made"]}" '
                f'data-step="{variable["made"]}"><title>{html.escape(_of_operator(data, step))}'
                f'</title><rect x="{x - wide / 2:.1f}" y="{top:.1f}" width="{wide:.1f}" '
                f'height="{OVAL}" rx="{OVAL / 2}"/>{_text(x, top + 16.5, step["operator"])}</g>'
                f'<path d="M{x:.1f} {top + OVAL:.1f}V{y + HALF - BOX:.1f}" class="edge"/>'
            )
        wide, top = wides[k], y + HALF - BOX
        high = top + 30 - 7.5 * len(lines[k])  # of the first line
        text = "".join(_text(x, high + 15 * n, line) for n, line in enumerate(lines[k]))
        name, fed = variable["name"] or variable["kind"], not variable["made"]
        kinds = f"variable{' fed' * fed}{' wanted' * variable['wanted']}"
        parts.append(
            f'<g class="{kinds}" data-testid="graph-node-{k}" data-variable="{k}">'
            f"<title>{html.escape(name)}: {_of_variable(data, k)}</title>"
            f'<rect x="{x - wide / 2:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{BOX}"/>'
            f"{text}</g>"
        )
    label = f"a graph of {len(variables)} variables and {len(steps)} operators, in layers"
    both = any(step["backward"] for step in steps)
    spans = (f'<span class="{name}">{name} pass</span>' for name in ("forward", "backward"))
    key = f'<div class="key">operators: {" ".join(spans)}</div>' if both else ""
    width, height = max(layout.width + 8, 500.0), layout.height
    left = (layout.width - width) / 2
    return (
        f'{key}<div class="sides">'
        f'<div class="sheet" tabindex="0" role="group" aria-label="{label}">'
        f'<svg viewBox="{left:.0f} 0 {width:.0f} {height:.0f}" role="group" aria-label="{label}" '
        f'style="min-width:{0.75 * width:.0f}px;max-width:{1.1 * width:.0f}px">'
        f"{''.join(parts)}</svg></div></div>"
    )


def _oval_width(operator: str) -> float:
    return LETTER * max(len(operator), 3) + 18


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{html.escape(text)}</text>'


def _curve(points: list[tuple[float, float]]) -> str:
    """From point to point, leaving and arriving straight down."""
    (x, y), path = points[0], f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for a, b in points[1:]:
        middle = (y + b) / 2
        path += f"C{x:.1f} {middle:.1f} {a:.1f} {middle:.1f} {a:.1f} {b:.1f}"
        x, y = a, b
    return path


def _called(data: dict, k: int) -> str:
    variable = data["variables"][k]
    return variable["name"] or f"the result of {variable['kind']}"


def _of_operator(data: dict, step: dict) -> str:
    reads = " and ".join(_called(data, k) for k in step["reads"]) or "nothing"
    which = f"{step['operator']}{', backward,' * step['backward']}"
    return f"{which} reads {reads}, and makes {_called(data, step['makes'])}"


def _of_variable(data: dict, k: int) -> str:
    variable = data["variables"][k]
    read = ", ".join(str(i) for i in variable["read"])
    made = f"made in step {variable['made']}" if variable["made"] else "fed from outside"
    after = f", read in step{'s' if len(variable['read']) > 1 else ''} {read}" if read else ""
    wanted = ", wanted at the end" if variable["wanted"] else ""
    return html.escape(f"{variable['type']}, {size(variable['bytes'])}, {made}{after}{wanted}")
