"""``python -m tools.site.ring`` draws the README's moving picture, ``docs/ring_allreduce.gif``."""

from __future__ import annotations

import io

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from PIL import Image

from helpers.collectives.schedule import Schedule, model
from helpers.paths import ROOT
from helpers.plots import style
from helpers.plots.animation import draw_state

RANKS = 4
SENT = ("nothing", "¼ array", "½ array", "¾ array", "1 array", "1¼ arrays", "1½ arrays")
UNDER_WAY = (0.44, 0.47, 0.5, 0.53, 0.56)  # where messages touch no card
HOLD, MOVE, END = 700, 100, 2800  # milliseconds


def frames() -> tuple[list[Image.Image], list[int]]:
    """Return the pictures, and for how many milliseconds each one stays."""
    schedule = model("ring", RANKS)
    pictures, times = [], []
    for step in range(schedule.steps + 1):
        parts = (0.0, *UNDER_WAY) if step < schedule.steps else (0.0,)
        for part in parts:
            pictures.append(_frame(schedule, step, part))
            times.append(MOVE if part else HOLD if step < schedule.steps else END)
    return pictures, times


def _frame(schedule: Schedule, step: int, part: float) -> Image.Image:
    figure = plt.figure(figsize=(9, 4.5), dpi=80, layout="none")
    ax = draw_state(schedule, step, part, figure.add_axes((0, 0, 1, 1)), ring=True)
    now = step + 1 if part else step
    phase = "reduce-scatter" if now < RANKS else "allgather"
    words = f"step {now} of {schedule.steps}\n{phase}" if now else "before\nthe first step"
    ax.text(0.5, -0.48, f"{words}\neach sent {SENT[step]}", ha="center", va="center", fontsize=12)
    packed = io.BytesIO()
    figure.savefig(packed, format="png", dpi=80)
    plt.close(figure)
    return Image.open(packed).convert("RGB")


def _palette() -> Image.Image:
    """The colours of all frames, and what lies between each and white at the edge of a letter."""
    ranks = [style.colour(rank) for rank in range(RANKS)]
    known = [to_rgb(name) for name in (*ranks, *map(style.legible, ranks), "black")]
    shades = [
        [255 - 255 * k / 7 * (1 - part) for part in one] for one in known for k in range(1, 8)
    ]
    palette = Image.new("P", (1, 1))
    palette.putpalette([round(part) for one in ([255] * 3, [241] * 3, *shades) for part in one])
    return palette


def main() -> None:
    """Write the picture, with one palette for all frames, so that equal pixels stay equal."""
    style.use()
    pictures, times = frames()
    palette = _palette()
    first, *others = (one.quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures)
    file = ROOT / "docs" / "ring_allreduce.gif"
    first.save(file, save_all=True, append_images=others, duration=times, loop=0, disposal=1)


if __name__ == "__main__":
    main()
