"""What ranks ask whoever started them: a column for each request, a lane for each rank.

Any object with the fields of :class:`helpers.first_words.Start` can be drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.plots.style import BLUE, GREY, ORANGE, VERMILION, ensure_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from helpers.first_words import Start

KINDS = {  # command to marker, colour and words
    "put": ("^", BLUE, "put: remember this for the others"),
    "get": ("v", ORANGE, "get: what did another put?"),
    "barrier_in": ("|", VERMILION, "barrier_in, until the parent answers"),
    "": ("o", GREY, "about itself"),
}


def conversation(start: Start, title: str = "") -> Axes:
    """Draw all requests of a start in order; who was never answered waits to the right end."""
    ax = ensure_axes()
    points: dict[str, tuple[list[int], list[int]]] = {kind: ([], []) for kind in KINDS}
    arrived: dict[int, int] = {}

    def waited(rank: int, came: int, until: int) -> None:
        words = "" if ax.patches else KINDS["barrier_in"][2]
        ax.barh(rank, until - came + 0.6, 0.5, came - 0.3, facecolor="white", linewidth=1.5,
                hatch="//", edgecolor=VERMILION, label=words)  # fmt: skip

    for column, exchange in enumerate(start.exchanges, 1):
        command = exchange.request.partition(" ")[0].removeprefix("cmd=")
        asks_others = command in KINDS and "key=PMI_" not in exchange.request
        columns, lanes = points[command if asks_others else ""]
        columns.append(column)
        lanes.append(exchange.rank)
        if command == "barrier_in":
            arrived[exchange.rank] = column
            for rank in exchange.answers:
                if (came := arrived.pop(rank, None)) is not None:
                    waited(rank, came, column)
    for rank, came in arrived.items():  # never answered: to the end, and beyond what others said
        waited(rank, came, len(start.exchanges) + 1)
    for kind, (columns, lanes) in points.items():
        marker, colour, words = KINDS[kind]
        words = "" if kind == "barrier_in" else words  # its bar has them
        if columns:
            ax.plot(columns, lanes, marker, color=colour, linestyle="", label=words, markersize=7)
    ax.set(
        xlabel="request (in the order in which they came)",
        yticks=range(start.ranks),
        yticklabels=[f"rank {rank}" for rank in range(start.ranks)],
        ylim=(start.ranks - 0.4, -0.6),
        title=title,
    )
    if start.exchanges:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return ax
