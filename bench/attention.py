"""Hierarchical attention: documents per second by batching, accuracy beside every baseline."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor

import torch

from helpers.attention.batching import WAYS, forward_backward
from helpers.attention.experiment import MODELS, Experiment, recipe
from helpers.records import Row
from helpers.timing import measure

SUITE = "attention"
SEEDS = 3
DOCUMENTS = 32


def rows() -> list[Row]:
    """Return the table of speeds, then the accuracies."""
    torch.set_num_threads(1)
    return speed_rows() + accuracy_rows()


def speed_rows(repeats: int = 5) -> list[Row]:
    """Time forward + backward of 32 documents each way, interleaved; ratio to the first way."""
    experiment = Experiment(dropout=0.0)
    documents, model = experiment.data[0][:DOCUMENTS], experiment.model(MODELS[0])
    samples: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(repeats):
        for name, way in WAYS.items():
            timing = measure(
                lambda w=way: forward_backward(w, model, documents), repeats=1, warmup=0
            )
            samples[name] += timing.samples
    rate = {name: DOCUMENTS / statistics.median(taken) for name, taken in samples.items()}
    with torch.no_grad():
        right = WAYS["all sentences packed"](model, documents)
        off = {
            name: (way(model, documents) - right).abs().max().item() for name, way in WAYS.items()
        }
    first, *others = WAYS
    about = {"documents": DOCUMENTS, "sentences": sum(map(len, documents)), "threads": 1}
    return [
        Row(f"speed: {name}", rate[name], "docs/s", first, rate[first], {**about, "off": off[name]})
        for name in others
    ]


def accuracy_rows() -> list[Row]:
    """Train every model with every seed, as many at once as there are cores; beside TF-IDF."""
    bar = Experiment().bar()
    jobs = [(name, seed) for seed in range(SEEDS) for name in MODELS]
    fresh = multiprocessing.get_context("spawn")  # a fork would inherit locked thread pools
    with ProcessPoolExecutor(os.cpu_count(), mp_context=fresh) as pool:
        outcomes = list(pool.map(_train, jobs))
    found = []
    for model in MODELS:
        mine = [o for (name, _), o in zip(jobs, outcomes, strict=True) if name == model]
        scores = [score for score, _, _ in mine]
        about = {
            "values": [round(score, 4) for score in scores],
            "spread": round(max(scores) - min(scores), 4),
            "cpu_s": round(statistics.median(cpu for _, _, cpu in mine), 1),
            "wall_s": round(statistics.median(wall for _, wall, _ in mine), 1),
            "epochs": recipe(model).epochs,
        }
        score = statistics.median(scores)
        found.append(Row(f"accuracy: {model}", score, "1", "TF-IDF + logistic", bar, about))
    return found


def _train(job: tuple[str, int]) -> tuple[float, float, float]:
    """Return accuracy, seconds by the clock and seconds of processor, in a process of its own."""
    torch.set_num_threads(1)
    begin = time.process_time()
    _, score, wall = Experiment().run(*job)
    print(*job, f"{score:.4f}", flush=True)
    return score, wall, time.process_time() - begin
