"""An animation of collectives that plays in the page: who sends which chunk to whom, step by step.

``web/collective-animation.js`` draws it, ``web/player.js`` plays its steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from helpers.plots.style import EIGHT, arrow, colour, ensure_axes, legible
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML
    from matplotlib.axes import Axes

    from helpers.collectives.schedule import Schedule

CARD = 1.0  # width of a card, in the units of the axes
ROW = 0.24  # height of a chunk's row
MAX_RANKS = 30  # a set of ranks is kept as the bits of a JavaScript integer


def animate(schedules: Schedule | Iterable[Schedule]) -> HTML:
    """Return an animation of ``schedules`` that plays in the page, the first one to begin with.

    Those of the same name are reached by the sliders for ranks and chunks, others by a menu.
    ValueError for one of more than 30 ranks, or that would count a contribution twice.
    """
    schedules = list(schedules) if isinstance(schedules, Iterable) else [schedules]
    for schedule in schedules:
        if schedule.ranks > MAX_RANKS:
            raise ValueError(
                f"an animation shows at most {MAX_RANKS} ranks; {schedule.name!r} has "
                f"{schedule.ranks}: how the cost grows beyond is a plot of helpers.plots.costs"
            )
    names = {schedule.name: schedule.title or schedule.name for schedule in schedules}
    data = {
        "palette": list(EIGHT),
        "titles": names,
        "schedules": [_encoded(schedule) for schedule in schedules],
    }
    return embed("collective-animation", data, test_id="animation")


def _encoded(schedule: Schedule) -> dict:
    """The schedule as JSON: transfers by step as [source, dest, chunk], sets of ranks as bits.

    ``after`` says of each transfer what its receiver then holds of the chunk.
    """
    states = schedule.states()
    steps = [schedule.at(step) for step in range(1, schedule.steps + 1)]
    return {
        "name": schedule.name,
        "ranks": schedule.ranks,
        "chunks": schedule.chunks,
        "pieces": schedule.pieces,
        "origin": schedule.origin,
        "held": [[_bits(chunk) for chunk in row] for row in schedule.held],
        "steps": [[[t.source, t.dest, t.chunk] for t in step] for step in steps],
        "after": [
            [_bits(states[step][t.dest][t.chunk]) for t in transfers]
            for step, transfers in enumerate(steps, start=1)
        ],
    }


def _bits(ranks: Iterable[int]) -> int:
    return sum(1 << rank for rank in ranks)


def draw_state(
    schedule: Schedule,
    step: int,
    part: float = 0.0,
    ax: Axes | None = None,
    ring: bool = False,
) -> Axes:
    """Draw what every rank holds after a step (from 0), in a row or on a circle (``ring``).

    Each rank is a card of chunks, each chunk a row of stripes, one for each rank whose contribution
    is in it. ``part``, between 0 and 1: the messages of the next step are that far on their way, in
    the player's dashed frame.
    """
    if not 0 <= step <= schedule.steps or (part and step == schedule.steps):
        raise ValueError(
            f"the schedule has steps 0 to {schedule.steps}; got step={step}, part={part}"
        )
    ax = ensure_axes(ax)
    ax.figure.set_label(
        f"What each rank holds at step {step}" + (", and what is on its way" if part else "")
    )
    states, n = schedule.states(), schedule.ranks
    corner = [_corner(rank, schedule, ring) for rank in range(n)]
    arrived = {(t.dest, t.chunk) for t in schedule.at(step)} if not part else set()
    for rank, (x, y) in enumerate(corner):
        ax.text(x, y + 0.1, f"rank {rank}", weight="bold", color=legible(colour(rank)), fontsize=13)
        for chunk in range(schedule.chunks):
            held = states[step][rank][chunk]
            middle = y - ROW * (chunk + 0.57)
            ax.text(x - 0.06, middle, chunk, ha="right", va="center", fontsize=11)
            _copy(ax, held, n, x, y - ROW * (chunk + 1), (rank, chunk) in arrived)
    for t in schedule.at(step + 1) if part else ():
        eased = part * part * (3 - 2 * part)
        (x0, y0), (x1, y1) = corner[t.source], corner[t.dest]
        row, words = t.chunk + 1.0, f"chunk {t.chunk} to rank {t.dest}"
        if ring:  # on an arrow from card to card, which says where to
            row, words = (schedule.chunks + 1) / 2, f"chunk {t.chunk}"
            right, down = CARD / 2, ROW * schedule.chunks / 2
            arrow(ax, (x0 + right, y0 - down), (x1 + right, y1 - down), width=2.2, zorder=1,
                  shrinkA=75, shrinkB=75)  # fmt: skip
        x, y = x0 + (x1 - x0) * eased, y0 + (y1 - y0) * eased - ROW * row
        _copy(ax, states[step][t.source][t.chunk], n, x, y, True, zorder=5)
        ax.text(x + CARD / 2, y - 0.04, words, ha="center", va="top", fontsize=11, zorder=6)
    xs, ys = zip(*corner, strict=True)
    ax.set_xlim(min(xs) - 0.25, max(xs) + CARD + 0.15)
    ax.set_ylim(min(ys) - ROW * schedule.chunks - 0.15, max(ys) + 0.35)
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


def _corner(rank: int, schedule: Schedule, ring: bool) -> tuple[float, float]:
    """The upper left corner of a rank's card."""
    if not ring:
        return rank * CARD * 1.25, 0.0
    height = ROW * schedule.chunks
    radius = max(1.0, 0.36 * schedule.ranks) * max(CARD, height)
    angle = math.pi / 2 - 2 * math.pi * rank / schedule.ranks
    return 2.2 * radius * math.cos(angle), 0.85 * radius * math.sin(angle)


def _copy(
    ax: Axes, held: Collection[int], n: int, x: float, y: float, framed: bool, zorder: int = 2
) -> None:
    from matplotlib.patches import Rectangle

    height = ROW * 0.86
    ax.add_patch(Rectangle((x, y), CARD, height, facecolor="#f1f1f1", zorder=zorder))
    for rank in held:
        left = x + CARD * rank / n
        ax.add_patch(Rectangle((left, y), CARD / n, height, facecolor=colour(rank), zorder=zorder))
    full = len(held) == n
    frame = Rectangle((x, y), CARD, height, fill=False, zorder=zorder + 0.5)
    frame.set_edgecolor("#111111" if framed or full else "#888888")
    frame.set_linestyle((0, (3, 1.5)) if framed else "-")
    frame.set_linewidth(2.6 if framed else 1.6 if full else 0.8)
    ax.add_patch(frame)
