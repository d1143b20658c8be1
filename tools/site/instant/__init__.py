"""Three players that need no kernel: collectives, pipelines, the planner (``players/``).

Schedules are data from the notebooks' libraries, ``helpers.collectives`` and ``helpers.pipeline``.
Times depend on the reader's numbers: ``arithmetic.js`` computes them by the formulas of these
libraries and of ``helpers.sharded.planner``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from helpers.collectives.links import PRESETS
from helpers.collectives.schedule import COLLECTIVES, Schedule, model
from helpers.pipeline.families import FAMILIES
from helpers.plots.pipeline import COLOURS, NAMES
from helpers.plots.sharded import WORK
from helpers.plots.style import PALETTE, ink
from helpers.plots.web.page import EXPORT, bundle

HERE = Path(__file__).parent
FILES = ("arithmetic.js", "controls.js", "collectives.js", "pipelines.js", "planner.js")
RANKS, PIECES = range(2, 17), (1, 2, 4, 8)  # of a collective
STAGES, MICRO = range(2, 9), range(1, 17)
MODELS = {
    "notebook 13's": (4, 64, 4, 96, 32, 16),
    "GPT-2's size": (12, 768, 12, 50_304, 1024, 64),
    "GPT-3 1.3B's size": (24, 2048, 32, 50_304, 2048, 64),
    "GPT-3 6.7B's size": (32, 4096, 32, 50_304, 2048, 64),
}  # layers, width, heads, vocabulary, context; sequences in a batch
MACHINES = {
    "notebook 13's": (2.4e8, 3.1e6),
    "V100, 32 GB": (15.7e12, 32e9),
    "A100, 80 GB": (19.5e12, 80e9),
}  # operations per second in float32 (NVIDIA's data sheets), bytes


def plan(name: str, ranks: int, pieces: int) -> Schedule:
    """Return a schedule of the page; two levels have two hosts, each with half of the ranks."""
    return model(name, ranks, pieces, tuple(2 * rank // ranks for rank in range(ranks)))


def collectives(sizes: Iterable[int] = RANKS) -> dict:
    """Return every schedule: transfers of a step in one list, ranks that are held as bits."""
    plans = []
    for name in COLLECTIVES:
        for ranks in sizes:
            for pieces in PIECES if "chain" in name else PIECES[:1]:
                found = plan(name, ranks, pieces)
                steps: list[list[int]] = [[] for _ in range(found.steps)]
                for one in found.transfers:
                    steps[one.step - 1] += [one.source, one.dest, one.chunk]
                held = [[sum(1 << rank for rank in chunk) for chunk in row] for row in found.held]
                plans.append(
                    {"name": name, "ranks": ranks, "pieces": pieces, "chunks": found.chunks}
                    | {"held": held, "steps": steps}
                )
    titles = {name: one.title for name, one in COLLECTIVES.items()}
    titles["two_level"] += " (two hosts)"
    palette = [*PALETTE[:6], "#8c6d31", "#7b6fd0"]
    return {"plans": plans, "titles": titles, "palette": palette, "links": links("Ethernet 10G")}


def pipelines(stages: Iterable[int] = STAGES, micro: Iterable[int] = MICRO) -> dict:
    """Return the order of every rank, for every schedule that is defined."""
    plans = []
    for name, make in FAMILIES.items():
        for ranks in stages:
            for count in micro:
                if name == "interleaved" and count % ranks:
                    continue
                found = make(ranks, count)
                orders = [" ".join(map(str, order)) for order in found.orders]
                plans.append(
                    {"name": name, "ranks": ranks, "micro": count, "chunks": found.chunks}
                    | {"orders": orders}
                )
    inks = {kind: ink(colour) for kind, colour in COLOURS.items()}
    return {"plans": plans, "colours": COLOURS, "inks": inks, "names": NAMES}


def planner() -> dict:
    """Return models, machines and links to choose from."""
    sizes = ("layers", "width", "heads", "vocabulary", "context", "batch")
    return {
        "models": {name: dict(zip(sizes, one, strict=True)) for name, one in MODELS.items()},
        "ranks": MACHINES,
        "links": links("NVLink 2 (V100)", "Ethernet 10G"),
        "start": ("GPT-2's size", "V100, 32 GB"),
        "parts": [(name, colour) for name, colour, _ in WORK],
    }


def links(*first: str) -> list[tuple[str, float, float]]:
    """Return each link of ``helpers.collectives.links`` with its α and β, some of them first."""
    names = dict.fromkeys([*first, *PRESETS])
    return [(name, PRESETS[name].alpha, PRESETS[name].beta) for name in names]


PLAYERS: dict[str, tuple[str, Callable[[], dict], str]] = {
    "collectives": (
        "Collectives, step by step",
        collectives,
        "Which allreduce is fastest for 1 kB, and which for 100 MB? Choose a collective and the "
        "number of ranks, and step with the buttons or the arrow keys. Each row is a rank, each "
        "column a chunk of its array, each coloured stripe the contribution of one rank. A "
        "message of $b$ bytes takes $\\alpha + \\beta b$, and messages of one step travel at the "
        "same time. Additions take no time, and all links are alike. In the table, *between two "
        "halves* counts the bytes that would cross a link between two hosts, each with half of "
        "the ranks. [Notebook 08](../notebooks/08_allreduce_animation.ipynb) records the same "
        "steps on real ranks and measures $\\alpha$ and $\\beta$.",
    ),
    "pipelines": (
        "Pipeline schedules",
        pipelines,
        "Which schedule suffers most when messages take time? A model is cut into stages, one for "
        "each rank (two if interleaved), and micro-batches pass through them. Each box is one "
        "micro-batch on one rank, with its number. A micro-batch's forward pass takes a rank one "
        "unit of time; its backward pass has two parts, for inputs and for weights, and each "
        "takes one unit. The bars at the right show how many micro-batches' activations each rank "
        "keeps. [Notebook 11](../notebooks/11_pipelines.ipynb) runs the same schedules on real "
        "ranks.",
    ),
    "planner": (
        "Which way to cut a model",
        planner,
        "Choose a model, a machine and its links. A *cut* shares the ranks between replicas, "
        "pipeline stages and parts of each matrix. For each cut, the planner predicts the seconds "
        "of a training step and the bytes of the fullest rank, in float32 with Adam. With ZeRO 1, "
        "the replicas share the optimizer's bytes. GPUs have the speeds of their data sheets, so a "
        "real step takes longer. [Notebook 13](../notebooks/13_sharding.ipynb) derives the "
        "formulas and compares the predictions for five layouts with measurements.",
    ),
}
PAGES = [f"players/{name}" for name in PLAYERS]
LINE = (
    "**Without an install:** step through [collectives](players/collectives.md) and "
    "[pipeline schedules](players/pipelines.md), and let a [planner](players/planner.md) choose "
    "how to cut a model."
)
"""The line of the site's first page that leads to the players."""


def element(name: str, data: dict) -> str:
    """Return a player as HTML, on one line."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return (
        f'<div class="instant" data-player="{name}">'
        "<p>This player needs JavaScript.</p>"
        f'<script type="application/json">{text}</script></div>'
    )


def script() -> str:
    """Return the one script of all three players, after that of the notebooks' pictures."""
    ours = "\n".join(EXPORT.sub("", (HERE / name).read_text("utf-8")) for name in FILES)
    return f'(() => {{\n"use strict";\n{bundle("player.js")}\n{ours}\n}})();\n'


def write(folder: Path) -> None:
    """Write the three pages, and the files that they share, to where Sphinx reads."""
    pages, shared = folder / "players", folder / "extra" / "players"
    for place in (pages, shared):
        place.mkdir(parents=True, exist_ok=True)
    (shared / "players.js").write_text(script(), encoding="utf-8")
    (shared / "players.css").write_text((HERE / "instant.css").read_text("utf-8"), "utf-8")
    for name, (title, data, words) in PLAYERS.items():
        head = '<link rel="stylesheet" href="players.css">'
        body = f'{head}\n{element(name, data())}\n<script src="players.js" defer></script>'
        text = f"---\nhide-toc: true\n---\n\n# {title}\n\n{words}\n\n{body}\n"
        (pages / f"{name}.md").write_text(text, encoding="utf-8")
