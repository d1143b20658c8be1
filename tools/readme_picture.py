"""Make ``docs/ring_allreduce.gif`` for the README: a ring allreduce, as four ranks just ran it.

python -m tools.readme_picture [OUT]
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from helpers.cluster import Cluster
from helpers.collectives.recording import record, schedules
from helpers.paths import ROOT
from helpers.plots import style
from helpers.plots.collective import draw_state

RANKS = 4
PARTS = 6  # pictures between two steps
MOVING, RESTING = 70, 700  # ms
MAX_BYTES = 1_000_000


def frames(schedule):
    """Yield (step, part, milliseconds) of every picture, from before the first step to the end."""
    for step in range(schedule.steps):
        yield step, 0.0, RESTING
        for part in range(1, PARTS):
            yield step, part / PARTS, MOVING
    yield schedule.steps, 0.0, 4 * RESTING


def picture(schedule, step: int, part: float):
    """Draw one picture; return it as a PIL image."""
    import matplotlib.pyplot as plt
    from PIL import Image

    figure, ax = plt.subplots(figsize=(7.2, 4.6), dpi=100)
    draw_state(schedule, step, part, ax, ring=True)
    done = step + (part > 0)
    phase = "reduce-scatter" if done <= schedule.steps // 2 else "allgather"
    sent = schedule.sent(4 * schedule.ranks, step)[0] / (4 * schedule.ranks)
    said = "before the first step" if not done else f"step {done} of {schedule.steps}, {phase}"
    ax.text(
        0.5, 0.5, f"ring allreduce\n{said}\neach rank sent {sent:g} K",
        transform=ax.transAxes, ha="center", va="center", fontsize=13,
    )  # fmt: skip
    file = io.BytesIO()
    figure.savefig(file, format="png")
    plt.close(figure)
    return Image.open(file).convert("P", palette=Image.Palette.ADAPTIVE, colors=32)


def main(out: Path) -> None:
    """Run a ring allreduce, draw its steps and write the picture to ``out``."""
    import matplotlib as mpl

    mpl.use("Agg")
    style.use()
    with Cluster(n=RANKS) as cluster:
        (schedule,) = schedules(cluster.run(record, ["ring"], (RANKS,)))
    plan = list(frames(schedule))
    first, *others = [picture(schedule, step, part) for step, part, _ in plan]
    out.parent.mkdir(parents=True, exist_ok=True)
    first.save(
        out,
        save_all=True,
        append_images=others,
        duration=[milliseconds for _, _, milliseconds in plan],
        loop=0,
        optimize=True,
    )
    if out.stat().st_size > MAX_BYTES:
        raise SystemExit(f"{out} has {out.stat().st_size} bytes; the README takes {MAX_BYTES}")
    print(f"{out}: {out.stat().st_size / 1e3:.0f} KB, {len(plan)} pictures")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs" / "ring_allreduce.gif")
