"""The GRU beside torch.nn, and what its parts are good for: several seeds on two tasks.

    python -m bench recurrent                  everything, and the record (some minutes)
    python -m bench.recurrent --seconds 300    start no training that would end later

What is trained is kept until the record has it (see ``bench.pieces``): an interrupted run goes on
where it stopped.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from bench import pieces
from helpers.records import Row
from helpers.recurrent.experiments import VARIANTS, Scores, comparisons, differ
from helpers.recurrent.layers import GRU
from helpers.timing import Timing, measure

SUITE = "recurrent"
T, B, H = 100, 32, 128  # steps, sequences, units; as many inputs as units
SEEDS = 8
TASKS = ("forget on cue", "long copy")
JOBS = [(task, variant) for task in TASKS for variant in VARIANTS]


def rows() -> list[Row]:
    """Return the table of speeds, then accuracies with their intervals."""
    torch.set_num_threads(1)
    found = speed_rows() + ablation_rows(train())
    shutil.rmtree(folder())  # the next record is measured anew
    return found


def speed_rows(repeats: int = 9) -> list[Row]:
    """Time forward + backward of every way, interleaved so that all see the same machine."""
    timed = _ways()
    samples: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(repeats):
        for name, way in timed.items():
            samples[name] += measure(way, repeats=1, warmup=1).samples
    median = {name: Timing(tuple(taken)).median for name, taken in samples.items()}
    shape = {"T": T, "B": B, "H": H, "threads": 1}
    return [
        Row(
            f"forward and backward: {name}",
            median[name] * 1e3,
            "ms",
            peer,
            median[peer] * 1e3,
            shape,
        )
        for peer in ["nn.GRU"]
        for name in timed
        if name != peer
    ]


def _ways() -> dict[str, Callable[[], object]]:
    torch.manual_seed(0)
    layers = {"nn.GRU": torch.nn.GRU(H, H), "our GRU": GRU(H, H)}
    layers["our GRU"].load_state_dict(layers["nn.GRU"].state_dict())
    x = torch.randn(T, B, H, requires_grad=True)
    return {name: lambda f=layer: f(x)[0].sum().backward() for name, layer in layers.items()}


def ablation_rows(outcomes: dict[tuple[str, str], dict]) -> list[Row]:
    """Return mean accuracy of every variant on every task beside the full GRU's."""
    found = []
    scored = {job: Scores(tuple(outcome["values"])) for job, outcome in outcomes.items()}
    for (task, variant), scores in scored.items():
        full = scored[task, "GRU"]
        about = {
            "task": task,
            "variant": variant,
            "seeds": len(scores.values),
            "margin": round(scores.margin, 4),
            "values": [round(v, 4) for v in scores.values],
            "differs": differ(scores, full),
        }
        found.append(
            Row(f"accuracy: {task}, {variant}", scores.mean, "1", "full GRU", full.mean, about)
        )
    return found


def train(seconds: float = math.inf) -> dict[tuple[str, str], dict]:
    """Train every variant on every task that is not there yet; return the outcomes."""
    return pieces.run(folder(), JOBS, work, seconds)


def work(job: tuple[str, str]) -> dict:
    """Train one variant on one task, all seeds at once."""
    torch.set_num_threads(1)
    task, variant = job
    return {"values": comparisons()[task].run(variant, seeds=SEEDS).values}


def folder() -> Path:
    """Return where finished trainings are kept."""
    code = ("helpers/recurrent/*.py",)
    return pieces.folder(SUITE, code)


if __name__ == "__main__":
    pieces.main(SUITE, train, len(JOBS))
