"""Pictures of recurrences: gradients by lag, and one GRU step with its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

    from helpers.recurrent.steps import GRUStep

LOOKS = {"RNN": 0, "GRU": 1, "half-life GRU": 2, "orthogonal RNN": 4}  # of one network everywhere
GATE = style.BLUE


def forgetting(gaps: Mapping[str, Tensor]) -> Axes:
    """Draw what is left of the difference of two starting states after 1, 2, 3, ... steps."""
    ax = style.ensure_axes(None)
    for name, gap in gaps.items():
        ax.semilogy(range(1, len(gap) + 1), gap, label=name, markevery=10)
    ax.figure.set_label("How fast a network forgets where it started")
    ax.set(xlabel="steps since the start", ylabel="difference ÷ difference at the start")
    ax.legend()
    return ax


def norms_by_lag(
    curves: Mapping[str, Tensor],
    bounds: Mapping[str, Tensor] | None = None,
    ax: Axes | None = None,
    colours: Sequence[int] | None = None,
) -> Axes:
    """Draw ‖∂h_T/∂h_{T−k}‖ over the lag k = 0, 1, 2, ..., and under a curve's name its bound,
    dashed.

    The axis ends at 1e-20 and 1e16: beyond, nothing is left to see. ``colours`` are the curves'
    numbers in the palette (default: 0, 1, 2, ...).
    """
    ax = style.ensure_axes(ax)
    highest, lowest = 10.0, 0.1
    for i, (name, curve) in zip(colours or range(len(curves)), curves.items(), strict=True):
        every = max(1, len(curve) // 8)
        mark = {"marker": style.marker(i), "markevery": (i * every // 8, every)}
        ax.semilogy(curve, color=style.colour(i), label=name, **mark)
        highest = max(highest, float(curve.max()))
        lowest = min(lowest, float(curve.min()))
        if bounds and name in bounds:
            ax.semilogy(bounds[name], color=style.colour(i), marker="", ls="--", lw=1.2, zorder=1.5)
            highest = max(highest, float(bounds[name].max()))
    ax.set_ylim(max(lowest / 3, 1e-20), min(highest * 3, 1e16))
    ax.axhline(1, color=style.GREY, lw=1)
    ax.figure.set_label("How much of the gradient is left after k steps")
    ax.set_xlabel("lag k (steps)")
    ax.set_ylabel("norm of the product\nof k Jacobians")
    handles, names = ax.get_legend_handles_labels()
    if bounds:
        (dashes,) = ax.plot([], [], "--", marker="", color=style.BLACK, lw=1.2)
        handles, names = [*handles, dashes], [*names, "dashed: the bound"]
    ax.legend(handles, names)
    return ax


def radius_and_input(curves: Mapping[tuple[float, float], Sequence[Tensor]]) -> Sequence[Axes]:
    """Draw norms by lag, left for each radius of U, right for each input at the largest radius.

    ``curves`` has under (radius, input) the norms and their bound. Left stand the curves of the
    largest radius' middle input.
    """
    largest = max(radius for radius, _ in curves)
    at_largest = sorted(x for radius, x in curves if radius == largest)
    usual = at_largest[len(at_largest) // 2]
    left, right = style.panels(2, figsize=(11, 4.6))
    by_radius = {f"ρ = {key[0]:g}": key for key in curves if key[1] == usual}
    by_input = {f"inputs of size {x:g}": (largest, x) for x in at_largest}
    for ax, named in ((left, by_radius), (right, by_input)):
        norms, bounds = ({name: curves[key][i] for name, key in named.items()} for i in (0, 1))
        numbers = [list(curves).index(key) for key in named.values()]
        norms_by_lag(norms, bounds if ax is left else None, ax, numbers)
    left.set_title(f"inputs of size {usual:g}")
    right.set(ylim=left.get_ylim(), ylabel="", title=f"ρ = {largest:g}")
    right.tick_params(labelleft=False)
    return left, right


def accuracy_by_rate(
    found: Mapping[tuple[str, int], Mapping[float, Sequence[float]]],
    guessing: float,
    hollow: str = "",
) -> Sequence[Axes]:
    """Draw mean accuracies over the learning rate, a panel for each number of steps.

    ``found`` has under (network, steps) and the rate the accuracy of each seed. Markers of the
    network ``hollow`` are large and empty, so that one below them is seen.
    """
    budgets = list(dict.fromkeys(steps for _, steps in found))
    names = list(dict.fromkeys(name for name, _ in found))
    axes = style.panels(len(budgets), figsize=(11, 4.2), sharey=True)
    axes[0].figure.set_label("Accuracy on the long copy by learning rate, mean over the seeds")
    for ax, steps in zip(axes, budgets, strict=True):
        for name in names:
            curve = found[name, steps]
            means = [sum(each) / len(each) for each in curve.values()]
            number = LOOKS.get(name, names.index(name))
            look = {"color": style.colour(number), "marker": style.marker(number)}
            (line,) = ax.semilogx(list(curve), means, label=name, **look)
            if name == hollow:
                line.set(markersize=12, fillstyle="none")
        ax.axhline(guessing, color=style.GREY, ls=":", label="guessing", marker="")
        ax.set(xlabel="learning rate", title=f"{steps} steps")
        ax.xaxis.set_major_formatter("{x:g}")  # a power's exponent would be too small to read
    axes[0].set_ylabel("mean accuracy")
    axes[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return axes


def against_the_gru(apart: Mapping[str, tuple[float, float, float]]) -> Axes:
    """Draw by how much each cell's accuracy differs from the half-life GRU's: mean and interval."""
    ax = style.ensure_axes(figsize=(10, 1.6 + 0.45 * len(apart)))
    ax.figure.set_label("Accuracy of each cell minus the half-life GRU's, with its 95 % interval")
    ax.axvline(0, color=style.BLACK, lw=1.6)
    for row, values in enumerate(apart.values()):
        mean, low, high = (100 * value for value in values)
        ax.plot([low, high], [row, row], color=style.BLUE, marker="", lw=5, alpha=0.4)
        ax.plot(mean, row, "D", ms=11, color=style.BLUE)
    ax.set_yticks(range(len(apart)), list(apart))
    ax.set_ylim(len(apart) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("accuracy minus the half-life GRU's [percentage points]")
    return ax


def gru_step(step: GRUStep, x: Mapping[str, float], h: Tensor, title: str) -> Axes:
    """Draw one GRU step with its numbers: of the input by their names, of the state, 1-D."""
    ax = style.ensure_axes(figsize=(10, 5))
    ax.figure.set_label("One step of a GRU, with its numbers")
    columns = {  # name: values, horizontal and vertical place
        r"$h_{t-1}$": (h, 0.0, 0.0),
        "$x_t$": (list(x.values()), 0.0, -1.5),
        "reset $r$": (step.reset, 1.1, -1.5),
        "memory $m$": (step.memory, 1.1, 0.0),
        "candidate $n$": (step.candidate, 2.2, -1.5),
        "update $z$": (step.update, 2.2, 0.0),
        "state $h_t$": (step.state, 3.3, 0.0),
    }
    for name, (values, left, top) in columns.items():
        _column(ax, name, values, left, top, gate=name.startswith(("reset", "update")))
    for i, name in enumerate(x):
        ax.text(-0.05, -1.6 - 0.88 * (i + 0.5) / len(x), name, ha="right", va="center")
    for start, end in (
        ((0.55, -0.5), (1.05, -0.5)),  # h → m
        ((0.55, -2.0), (1.05, -2.0)),  # x → r
        ((0.55, -0.75), (1.05, -1.7)),  # h → r
        ((1.65, -2.0), (2.15, -2.0)),  # r → n
        ((1.65, -0.75), (2.15, -1.7)),  # m → n
        ((2.75, -0.5), (3.25, -0.5)),  # z → h_t
        ((2.75, -1.9), (3.25, -0.8)),  # n → h_t
        ((0.55, -1.75), (2.15, -0.85)),  # x → z
    ):
        style.arrow(ax, start, end)
    for start, end, bend in (
        ((0.5, -0.12), (2.2, -0.12), -0.22),  # h → z, over the memory
        ((0.5, -2.45), (2.2, -2.45), 0.22),  # x → n, under the reset gate
    ):
        style.arrow(ax, start, end, connectionstyle=f"arc3,rad={bend}", shrinkA=2, shrinkB=2)
    ax.plot([0.25, 0.25, 3.55], [0.1, 0.45, 0.45], color=style.BLUE, lw=2, marker="")
    style.arrow(ax, (3.55, 0.45), (3.55, 0.1), style.BLUE, width=2)
    ax.text(1.9, 0.5, "copied where $z$ is near 1", ha="center", color=style.legible(style.BLUE))
    ax.text(2.95, -2.45, "$n = \\tanh(W_nx+b_n+r\\circ m)$\n$h_t=(1-z)\\circ n+z\\circ h_{t-1}$")
    ax.set(xlim=(-0.6, 4.35), ylim=(-2.95, 0.75), title=title)
    ax.set_axis_off()
    return ax


def _column(
    ax: Axes, name: str, values: Sequence[float] | Tensor, left: float, top: float, gate: bool
) -> None:
    import matplotlib as mpl

    height = 0.88 / len(values)
    for i, value in enumerate(map(float, values)):
        bottom = top - 0.1 - (i + 1) * height
        cell = mpl.patches.Rectangle((left, bottom), 0.5, height, fc="white", ec=style.GREY, lw=1)
        ax.add_patch(cell)
        if gate:  # a bar: a shade of 0.05 is none
            start, width, shade, alpha = left, 0.5 * value, GATE, 0.5
        else:  # so strong that a dark theme keeps the hue
            start, width = left + 0.25, 0.25 * max(-1.0, min(1.0, value))
            shade, alpha = style.PURPLE if value > 0 else style.ORANGE, 0.75
        # under the number, which it would cross
        bar = mpl.patches.Rectangle((start, bottom), width, 0.3 * height, fc=shade, alpha=alpha)
        ax.add_patch(bar)
        said = f"{value:.2f}" if gate else f"{value:+.2f}"
        ax.text(left + 0.25, bottom + 0.6 * height, said, ha="center", va="center")
    ax.text(left + 0.25, top - 0.02, name, ha="center", va="center")
