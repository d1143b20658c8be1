"""Hierarchical attention: documents per second by batching, accuracy beside every baseline.

    python -m bench attention                  everything, and the record (some minutes)
    python -m bench.attention --seconds 300    start no training that would end later

What is trained is kept until the record has it (see ``bench.pieces``): an interrupted run goes on
where it stopped.
"""

from __future__ import annotations

import math
import shutil
import statistics
import time
from pathlib import Path

import torch

from bench import pieces
from helpers.attention.batching import WAYS, forward_backward
from helpers.attention.experiment import MODELS, Experiment, recipe
from helpers.records import Row
from helpers.timing import measure

SUITE = "attention"
SEEDS = 3
OTHER = 1  # a fold that no choice was made on: does the order of the models hold there?
JOBS = [(name, seed) for seed in range(SEEDS) for name in MODELS]
JOBS += [(name, 0, f"fold {OTHER}") for name in MODELS]
DOCUMENTS = 32


def rows() -> list[Row]:
    """Return the table of speeds, then the accuracies."""
    torch.set_num_threads(1)
    found = speed_rows()
    outcomes = train()
    found += accuracy_rows(outcomes) + other_rows(outcomes)
    shutil.rmtree(folder())  # the next record is measured anew
    return found


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
    about["peer_off"] = off[first]
    return [
        Row(f"speed: {name}", rate[name], "docs/s", first, rate[first], {**about, "off": off[name]})
        for name in others
    ]


def accuracy_rows(outcomes: dict[tuple, dict]) -> list[Row]:
    """Return median accuracy and spread of every model, beside TF-IDF."""
    bar = Experiment().bar()
    found = []
    for model in MODELS:
        mine = [outcomes[model, seed] for seed in range(SEEDS)]
        scores = [one["accuracy"] for one in mine]
        about = {
            "values": [round(score, 4) for score in scores],
            "spread": round(max(scores) - min(scores), 4),
            "cpu_s": round(statistics.median(one["cpu_s"] for one in mine), 1),
            "epochs": recipe(model).epochs,
        }
        score = statistics.median(scores)
        found.append(Row(f"accuracy: {model}", score, "1", "TF-IDF + linear SVM", bar, about))
    return found


def other_rows(outcomes: dict[tuple, dict]) -> list[Row]:
    """Return each model's accuracy on another split, one seed, beside TF-IDF there."""
    bar, about = Experiment(fold=OTHER).bar(), {"fold": OTHER, "seeds": 1}
    scores = {name: outcomes[name, 0, f"fold {OTHER}"]["accuracy"] for name in MODELS}
    return [
        Row(f"another split: {name}", score, "1", "TF-IDF + linear SVM", bar, about)
        for name, score in scores.items()
    ]


def train(seconds: float = math.inf) -> dict[tuple, dict]:
    """Train every model with every seed that is not there yet; return the outcomes."""
    return pieces.run(folder(), JOBS, work, seconds)


def work(job: tuple) -> dict:
    """Train a model with a seed, on the other fold if the job names it; return the outcome."""
    torch.set_num_threads(1)
    begin = time.process_time()  # two trainings at a time would disturb each other's clock
    _, score, _ = Experiment(fold=OTHER if len(job) == 3 else 0).run(*job[:2])
    return {"accuracy": score, "cpu_s": time.process_time() - begin}


def folder() -> Path:
    """Return where finished trainings are kept."""
    code = ("helpers/attention/*.py", "helpers/datasets/*.py", "data/debian/*.sha256")
    return pieces.folder(SUITE, code)


if __name__ == "__main__":
    pieces.main(SUITE, train, len(JOBS))
