"""The GRU beside torch.nn, and what its parts are good for: several seeds on three tasks.

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
TASKS = ("forget on cue", "long copy", "section of a package")
JOBS = [(task, variant) for task in TASKS for variant in VARIANTS]


def rows() -> list[Row]:
    """Return the table of speeds, then accuracies with their intervals."""
    torch.set_num_threads(1)
    found = speed_rows() + ablation_rows(train())
    shutil.rmtree(folder())  # the next record is measured anew
    return found


def speed_rows(repeats: int = 9) -> list[Row]:
    """Time forward + backward of every way, interleaved so that all see the same machine."""
    ways = _ways()
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
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
        for name in ways
        if name != peer
    ]


def _ways() -> dict[str, Callable[[], object]]:
    torch.manual_seed(0)
    reference, ours = torch.nn.GRU(H, H), GRU(H, H)
    ours.load_state_dict(reference.state_dict())
    x = torch.randn(T, B, H, requires_grad=True)
    W, U, b, c = ours.weights()

    def indexed() -> torch.Tensor:
        gi, h, states = x @ W.T + b, torch.zeros(B, H), []
        for t in range(T):
            h = ours.step(gi[t], h, U.T, c)
            states.append(h)
        return torch.stack(states)

    def separate() -> torch.Tensor:
        """Six linear maps a step, as the equations stand."""
        parts = zip(*(p.chunk(3) for p in (W, U, b, c)), strict=True)
        (W_r, U_r, b_r, c_r), (W_z, U_z, b_z, c_z), (W_n, U_n, b_n, c_n) = parts
        h, states = torch.zeros(B, H), []
        for x_t in x.unbind(0):
            r = torch.sigmoid(x_t @ W_r.T + b_r + h @ U_r.T + c_r)
            z = torch.sigmoid(x_t @ W_z.T + b_z + h @ U_z.T + c_z)
            n = torch.tanh(x_t @ W_n.T + b_n + r * (h @ U_n.T + c_n))
            h = (1 - z) * n + z * h
            states.append(h)
        return torch.stack(states)

    forwards = {
        "nn.GRU": lambda: reference(x)[0],
        "our GRU": lambda: ours(x)[0],
        "indexing gi[t]": indexed,
        "six linear maps": separate,
    }
    expected = forwards["nn.GRU"]()
    for name, forward in forwards.items():
        if (forward() - expected).abs().max() > 1e-5:
            raise AssertionError(f"{name} does not compute what nn.GRU computes")
    return {name: lambda f=forward: f().sum().backward() for name, forward in forwards.items()}


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
    code = ("helpers/recurrent/*.py", "helpers/datasets/*.py", "data/debian/*.sha256")
    return pieces.folder(SUITE, code)


if __name__ == "__main__":
    pieces.main(SUITE, train, len(JOBS))
