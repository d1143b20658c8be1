"""Long suites in pieces: what is finished is kept, and a later run goes on from there.

A suite has ``jobs`` (tuples) and ``work(job) -> dict``, a function that can be imported. ``run``
does the jobs, one at a time on every core, and leaves each outcome in ``build/bench`` until the
record has it; ``python -m bench.SUITE --seconds 300`` starts none that would end later.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, wait
from pathlib import Path

from helpers.machine import machine, usable_cores
from helpers.paths import ROOT

KEPT = ROOT / "build" / "bench"


def folder(suite: str, patterns: Iterable[str]) -> Path:
    """Return where outcomes are kept: of this machine, this torch, and the files of ``patterns``.

    Other code or other data are other outcomes, so they get another folder.
    """
    import torch

    parts = [json.dumps(machine(), sort_keys=True), torch.__version__]
    for pattern in patterns:
        parts += [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob(pattern))]
    return KEPT / f"{suite}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"


def run(
    folder: Path,
    jobs: Sequence[tuple],
    work: Callable[[tuple], dict],
    seconds: float = math.inf,
    executor: Callable[[int], Executor] | None = None,
) -> dict[tuple, dict]:
    """Do the jobs whose outcome is not in ``folder`` yet; return every outcome that is there.

    No job starts that, taking as long as the longest so far, would end after ``seconds``.
    ``executor(n)`` runs n jobs at a time (default: processes, started afresh).
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [job for job in jobs if not _file(folder, job).exists()]
    print(f"{len(jobs) - len(missing)} of {len(jobs)} pieces are there", flush=True)
    begin, longest, running = time.perf_counter(), 0.0, set()
    cores = usable_cores()
    with (executor or _processes)(cores) as pool:
        while True:
            spent = time.perf_counter() - begin
            if missing and len(running) < cores and spent + longest <= seconds:
                running.add(pool.submit(_keep, folder, missing.pop(0), work))
            elif running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                longest = max(longest, *(one.result() for one in done))
            else:
                break
    kept = {job: _file(folder, job) for job in jobs if _file(folder, job).exists()}
    return {job: json.loads(path.read_text(encoding="utf-8")) for job, path in kept.items()}


def main(suite: str, train: Callable[[float], dict], jobs: int) -> None:
    """The command of a suite in pieces; the record is written by ``python -m bench SUITE``."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{suite}", description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="S")
    there = train(parser.parse_args().seconds)
    print(f"{len(there)} of {jobs} pieces are there")


def _processes(n: int) -> Executor:
    fresh = multiprocessing.get_context("spawn")  # a fork would inherit locked thread pools
    return ProcessPoolExecutor(n, mp_context=fresh)


def _keep(folder: Path, job: tuple, work: Callable[[tuple], dict]) -> float:
    """Do one job, keep its outcome, and return the seconds that took."""
    begin = time.perf_counter()
    outcome = work(job)
    path = _file(folder, job)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(outcome), encoding="utf-8")
    unfinished.replace(path)  # a file is there whole or not at all
    took = time.perf_counter() - begin
    print(*job, f"done in {took:.0f} s", flush=True)
    return took


def _file(folder: Path, job: tuple) -> Path:
    return folder / f"{'-'.join(str(part).replace(' ', '-') for part in job)}.json"
