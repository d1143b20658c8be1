"""One trial of one program: is it right, and how many seconds does it take?

A product and a compressor run in a process of their own (``python -m tools.contest.trials``), an
allreduce on the ranks of a cluster: what crashes or hangs there ends alone.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.exercises.core import WrongAnswer

if TYPE_CHECKING:
    from mpi4py import MPI

N = 384  # side of the matrices whose product is timed
NUMBERS = 262_144  # that an allreduce adds up: 1 MB of float32
VALUES = 8192  # of a gradient that is compressed
RATE = 100e6 / 8  # bytes a second of the link for compressed gradients
NEAR = 0.05  # of the loss at the beginning: where a training ends
STEPS = 1000  # of a training at most


def loaded(path: str, name: str) -> Any:
    """Return what a program's file calls ``name``."""
    return runpy.run_path(path, run_name="contest")[name]


def product(path: str, seed: int, timed: bool) -> dict[str, float]:
    """Try a product in C, in turn with the loop ikj: the seconds of both."""
    from helpers.roofline.own import ProductError, try_product

    source = loaded(path, "product")
    if not isinstance(source, str):
        raise WrongAnswer(f"product: expected C in a string, got {source!r:.60}")
    sizes = [N] if timed else [48 * k for k in np.random.default_rng(seed).permutation([1, 2, 3])]
    try:
        for n in map(int, sizes):
            tried = try_product(source, n, rounds=3 if timed else 0, seed=seed, limit=300.0)
            where = f"for n = {n} and the matrices of seed {seed}"
            if tried.overrun or tried.changed:
                raise WrongAnswer(
                    f"it writes {'outside of c' if tried.overrun else 'to a or b'} {where}"
                )
            if tried.wrong:
                raise WrongAnswer(f"{tried.wrong} of {n * n} elements of c are wrong {where}")
    except ProductError as error:
        raise WrongAnswer(str(error)) from None
    return {"seconds": tried.seconds, "course": tried.rival}


def compressor(path: str, seed: int, timed: bool) -> dict[str, float]:
    """Train a linear model with error feedback; the seconds for its gradients on the link."""
    from helpers.data_parallel.compression.compressors import TopK
    from helpers.exercises.compression import check_code

    make: Callable[[], Any] = loaded(path, "compressor") if path else lambda: TopK(0.01)
    draw = np.random.default_rng(seed)
    for n in (16, int(draw.integers(17, VALUES)), VALUES):
        check_code(make, (draw.standard_normal(n) ** 3).astype(np.float32))
    own, other = make(), make()
    spent: list[float] = []
    steep = (10 ** draw.uniform(-1, 0, VALUES)).astype(np.float32)
    goal, here, left = (draw.standard_normal(VALUES).astype(np.float32) ** 3, *_zeros(2))
    first = loss = float(steep @ goal**2)
    while loss > NEAR * first:
        if len(spent) == STEPS:
            raise WrongAnswer(
                f"seed {seed}: after {STEPS} steps the loss is {loss / first:.2g} of the first"
            )
        noise = 0.1 * draw.standard_normal(VALUES).astype(np.float32)
        whole, (arrived,) = steep * (here - goal) + noise + left, _zeros(1)
        begin = time.perf_counter()
        code = own.encode(whole.copy())
        other.add(code, arrived)
        spent.append(time.perf_counter() - begin)
        left, here = whole - arrived, here - 0.05 * arrived
        loss = float(steep @ (here - goal) ** 2)
    return {"seconds": len(spent) * (own.nbytes(VALUES) / RATE + min(spent))}


def _zeros(count: int) -> np.ndarray:
    return np.zeros((count, VALUES), np.float32)


def allreduce(path: str, seed: int, timed: bool) -> dict:
    """On every rank: add up arrays, and time one; path "" is the course's ring, "MPI" MPI's own."""
    from mpi4py import MPI

    function, world, seconds = _allreduce_of(path), MPI.COMM_WORLD, 0.0
    part = world.Split(int(world.rank == 0), world.rank)
    try:
        for comm in [world] if timed else [world, part]:
            draw = np.random.default_rng(seed)  # alike on every rank, so that each knows the sums
            for n in [NUMBERS] if timed else [1, int(draw.integers(2, 5000)), NUMBERS]:
                numbers = draw.integers(-99, 99, (comm.size, n)).astype(np.float32)
                mine, wrong = numbers[comm.rank].copy(), ""
                comm.Barrier()
                begin = time.perf_counter()
                total = function(mine, comm)
                seconds = time.perf_counter() - begin
                if not np.array_equal(mine, numbers[comm.rank]):
                    wrong = "it changes x"
                elif not np.array_equal(total, numbers.sum(0)):
                    wrong = f"the sums on rank {comm.rank} are wrong"
                if said := [each for each in comm.allgather(wrong) if each]:
                    where = f"arrays of length {n}, seed {seed}, {comm.size} ranks"
                    return {"wrong": f"{where}: {said[0]}"}
    finally:
        part.Free()
    return {"seconds": world.allreduce(seconds, MPI.MAX)}


def _allreduce_of(path: str) -> Callable:
    from helpers.collectives import allreduce as by_hand

    def of_mpi(x: np.ndarray, comm: MPI.Intracomm) -> np.ndarray:
        total = np.empty_like(x)
        comm.Allreduce(x, total)
        return total

    known: dict[str, Callable] = {"": by_hand, "MPI": of_mpi}
    return known.get(path) or loaded(path, "allreduce")


if __name__ == "__main__":
    name, program, number, how, result = sys.argv[1:]
    try:
        found: dict = {"product": product, "compressor": compressor}[name](
            program, int(number), how == "timed"
        )
    except WrongAnswer as error:
        found = {"wrong": str(error)}
    except BaseException as error:  # whatever a program raises, SystemExit included
        found = {"wrong": f"it raised {type(error).__name__}: {error}"}
    Path(result).write_text(json.dumps(found), encoding="utf-8")
