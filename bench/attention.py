"""Hierarchical attention: documents per second by batching, accuracy beside every baseline.

    python -m bench attention                  everything, and the record (some 10 minutes)
    python -m bench.attention --seconds 300    start no training that would end later

Every finished training is kept in ``build/bench`` until the record has it: an interrupted run, or
one made in pieces by the second command, goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import shutil
import statistics
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, wait
from pathlib import Path

import torch

from helpers.attention.batching import WAYS, forward_backward
from helpers.attention.experiment import MODELS, Experiment, recipe
from helpers.machine import machine
from helpers.records import Row
from helpers.timing import measure

SUITE = "attention"
SEEDS = 3
DOCUMENTS = 32
ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "bench"


def rows() -> list[Row]:
    """Return the table of speeds, then the accuracies."""
    torch.set_num_threads(1)
    found = speed_rows()
    folder = pieces()
    found += accuracy_rows(train(folder))
    shutil.rmtree(folder)  # the next record is measured anew
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
    return [
        Row(f"speed: {name}", rate[name], "docs/s", first, rate[first], {**about, "off": off[name]})
        for name in others
    ]


def accuracy_rows(outcomes: dict[tuple[str, int], dict]) -> list[Row]:
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
        found.append(Row(f"accuracy: {model}", score, "1", "TF-IDF + logistic", bar, about))
    return found


def pieces() -> Path:
    """Return the folder of finished trainings of this code, these data and this machine."""
    parts = [json.dumps(machine(), sort_keys=True), torch.__version__]
    for pattern in ("helpers/attention/*.py", "helpers/datasets/*.py", "data/debian/*.sha256"):
        parts += [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob(pattern))]
    return KEPT / f"attention-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"


def train(
    folder: Path,
    seconds: float = math.inf,
    work: Callable[[Path, tuple], float] | None = None,
    executor: Callable[[int], Executor] | None = None,
) -> dict[tuple[str, int], dict]:
    """Train what is missing in ``folder``, one at a time on every core; return what is there.

    No training starts that, taking as long as the longest so far, would end after ``seconds``.
    ``work(folder, job)`` does one, leaves its file, and returns how long it took; ``executor(n)``
    runs n of them at a time (default: fresh processes).
    """
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [(name, seed) for seed in range(SEEDS) for name in MODELS]
    missing = [job for job in jobs if not _file(folder, job).exists()]
    print(f"{len(jobs) - len(missing)} of {len(jobs)} trainings are there", flush=True)
    begin, longest, running = time.perf_counter(), 0.0, set()
    with (executor or _processes)(os.cpu_count()) as pool:
        while True:
            spent = time.perf_counter() - begin
            if missing and len(running) < os.cpu_count() and spent + longest <= seconds:
                running.add(pool.submit(work or _train, folder, missing.pop(0)))
            elif running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                longest = max(longest, *(one.result() for one in done))
            else:
                break
    kept = {job: _file(folder, job) for job in jobs if _file(folder, job).exists()}
    return {job: json.loads(path.read_text(encoding="utf-8")) for job, path in kept.items()}


def _processes(n: int) -> Executor:
    fresh = multiprocessing.get_context("spawn")  # a fork would inherit locked thread pools
    return ProcessPoolExecutor(n, mp_context=fresh)


def _train(folder: Path, job: tuple[str, int]) -> float:
    """Train in a process of its own, keep the outcome, and return how long all that took."""
    torch.set_num_threads(1)
    begin, worked = time.perf_counter(), time.process_time()
    _, score, wall = Experiment().run(*job)
    # seconds of processor, loading included: two trainings at a time disturb each other's clock
    outcome = {"accuracy": score, "cpu_s": time.process_time() - worked}
    path = _file(folder, job)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(outcome), encoding="utf-8")
    unfinished.replace(path)  # a file is there whole or not at all
    print(*job, f"accuracy {score:.4f} in {wall:.0f} s", flush=True)
    return time.perf_counter() - begin


def _file(folder: Path, job: tuple[str, int]) -> Path:
    return folder / f"{job[0].replace(' ', '-')}-{job[1]}.json"


def main() -> None:
    """Train for so many seconds; the record is written by ``python -m bench attention``."""
    parser = argparse.ArgumentParser(prog="python -m bench.attention", description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="S")
    there = train(pieces(), parser.parse_args().seconds)
    print(f"{len(there)} of {SEEDS * len(MODELS)} trainings are there")


if __name__ == "__main__":
    main()
