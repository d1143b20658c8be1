"""Pictures of recurrences: gradients by lag, and one GRU step with its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from helpers.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

    from helpers.recurrent.steps import GRUStep


def norms_by_lag(curves: Mapping[str, Tensor], bounds: Mapping[str, Tensor] | None = None) -> Axes:
    """Draw ‖∂h_T/∂h_{T−k}‖ over the lag k = 0, 1, 2, ..., and under a curve's name its bound,
    dashed.

    The axis ends at 1e-20 and 1e16: beyond, nothing is left to see.
    """
    ax = style.ensure_axes()
    highest, lowest = 10.0, 0.1
    for i, (name, curve) in enumerate(curves.items()):
        every = max(1, len(curve) // 8)
        mark = {"marker": style.MARKERS[i % 8], "markevery": (i * every // 8, every)}
        ax.semilogy(curve, color=style.colour(i), label=name, **mark)
        highest = max(highest, float(curve.max()))
        lowest = min(lowest, float(curve.min()))
        if bounds and name in bounds:
            ax.semilogy(bounds[name], color=style.colour(i), marker="", ls="--", lw=1.4, zorder=4)
            highest = max(highest, float(bounds[name].max()))
    ax.set_ylim(max(lowest / 3, 1e-20), min(highest * 3, 1e16))
    ax.axhline(1, color=style.GREY, lw=1)
    ax.figure.set_label("How much of the gradient is left after k steps")
    ax.set_xlabel("lag k (steps)")
    ax.set_ylabel(r"$\Vert\partial h_T/\partial h_{T-k}\Vert_2$")
    handles, names = ax.get_legend_handles_labels()
    if bounds:
        (dashes,) = ax.plot([], [], "--", marker="", color=style.BLACK, lw=1.4)
        handles, names = [*handles, dashes], [*names, "dashed: the bound"]
    ax.legend(handles, names, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def gru_step(step: GRUStep, x: Tensor, h: Tensor, title: str) -> Axes:
    """Draw one GRU step with its numbers: of input and state, 1-D."""
    ax = style.ensure_axes(figsize=(10, 5))
    ax.figure.set_label("One step of a GRU, with its numbers")
    columns = {  # name: values, horizontal and vertical place
        r"$h_{t-1}$": (h, 0.0, 0.0),
        "$x_t$": (x, 0.0, -1.5),
        "reset $r$": (step.reset, 1.1, -1.5),
        "memory $m$": (step.memory, 1.1, 0.0),
        "candidate $n$": (step.candidate, 2.2, -1.5),
        "update $z$": (step.update, 2.2, 0.0),
        "state $h_t$": (step.state, 3.3, 0.0),
    }
    for name, (values, left, top) in columns.items():
        _column(ax, name, values, left, top, gate=name.startswith(("reset", "update")))
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
        style_of_arrow = {"arrowstyle": "->", "color": style.GREY, "lw": 1.6}
        style_of_arrow["connectionstyle"] = f"arc3,rad={bend}"
        ax.annotate("", end, start, arrowprops=style_of_arrow)
    ax.annotate(
        "copied where z is near 1",
        (3.55, 0.42),
        (0.3, 0.42),
        va="center",
        fontsize=11,
        color=style.legible(style.GREY),
        arrowprops={"arrowstyle": "->", "color": style.BLUE, "lw": 2},
    )
    ax.text(2.95, -2.45, "$n = \\tanh(W_nx+b_n+r\\circ m)$\n$h_t=(1-z)\\circ n+z\\circ h_{t-1}$")
    ax.set(xlim=(-0.15, 4.35), ylim=(-2.95, 0.6), title=title)
    ax.set_axis_off()
    return ax


def _column(ax: Axes, name: str, values: Tensor, left: float, top: float, gate: bool) -> None:
    import matplotlib as mpl

    scale = mpl.colormaps[style.SEQUENTIAL if gate else style.DIVERGING]
    height = 0.88 / len(values)
    for i, value in enumerate(values.tolist()):
        shade = scale(value if gate else 0.5 + value / 4)  # a state lies in [−1, 1], an input in ±2
        bottom = top - 0.1 - (i + 1) * height
        ax.add_patch(
            mpl.patches.Rectangle((left, bottom), 0.5, height, fc=shade, ec=style.GREY, lw=1)
        )
        ax.text(
            left + 0.25,
            bottom + height / 2,
            f"{value:.2f}" if gate else f"{value:+.2f}",
            ha="center",
            va="center",
            color=style.ink(shade),
        )
    ax.text(left + 0.25, top - 0.02, name, ha="center", va="center")
