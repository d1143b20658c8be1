"""Checks of notebook 08: the ring's chunks, an allgather on ranks, bytes and crossovers."""

from __future__ import annotations

import math
import numbers

from helpers.exercises.core import call, close, equal, exercise, on_ranks, wrong
from helpers.exercises.groups import Case, by_case, in_groups


@exercise
def chunk_to_send(answer):
    """answer(rank, step, N) -> the chunk that the rank sends in step 0, 1, ... of the allgather."""
    for N in (2, 3, 4, 7):
        held = [{rank} for rank in range(N)]  # finished chunks on each rank
        for step in range(N - 1):
            sent = [call(answer, rank, step, N) for rank in range(N)]
            for rank, chunk in enumerate(sent):
                what = f"N={N}, step {step}: rank {rank} sends chunk {chunk!r}"
                if isinstance(chunk, bool) or not hasattr(chunk, "__index__"):
                    wrong(f"{what}, expected the number of a chunk")
                if not 0 <= chunk < N:
                    wrong(f"{what}, but chunks are numbered from 0 to {N - 1}")
                if chunk not in held[rank]:
                    wrong(f"{what}, of which it does not have the sum yet")
            for rank, chunk in enumerate(sent):
                if chunk in held[(rank + 1) % N]:
                    wrong(
                        f"N={N}, step {step}: rank {rank} sends chunk {chunk} to a neighbour that "
                        "has it already"
                    )
                held[(rank + 1) % N].add(int(chunk))


def _part(rank: int, length: int):
    """What rank ``rank`` has before the allgather: numbers that differ everywhere."""
    import numpy as np

    return 100.0 * rank + np.arange(length)


@exercise
def allgather(answer, cluster):
    """answer(work, comm) -> work, with every rank's part filled in, by messages on a ring."""
    import numpy as np

    def work(rank: int, n: int, length: int) -> tuple:
        whole = np.full(n * length, -1.0)
        whole[rank * length : (rank + 1) * length] = _part(rank, length)
        return (whole,)

    sizes = [case for case in ((4, 1), (4, 200_000), (3, 5), (1, 2)) if case[0] <= cluster.n]
    cases = [Case(n, lambda r, n=n, length=length: work(r, n, length)) for n, length in sizes]
    found = by_case(on_ranks(cluster, in_groups, answer, cases), cases)
    for (n, length), outcomes in zip(sizes, found, strict=True):
        whole = np.concatenate([_part(rank, length) for rank in range(n)])
        for rank, outcome in enumerate(outcomes):
            where = f"on rank {rank} of {n}, {length} numbers a rank"
            if outcome.returned is None:
                wrong(f"{where}: it returned None, expected the array")
            close(outcome.returned, whole, where)
            if outcome.messages != n - 1 or outcome.bytes != (n - 1) * length * 8:
                wrong(
                    f"{where}: right, but it sent {outcome.messages} messages of {outcome.bytes} "
                    f"bytes altogether; on a ring it is one part of {length * 8} bytes in each of "
                    "N−1 steps"
                )


@exercise
def bytes_sent(answer):
    """answer(algorithm, N, K) -> bytes that the busiest rank sends: chain, tree or ring."""
    from helpers.collectives import cost

    for algorithm in ("chain", "tree", "ring"):
        for N, K in ((4, 1_000_000), (8, 4_000), (64, 6_400), (1024, 10_240_000)):
            what = f"{algorithm}, N={N}, K={K}"
            close(call(answer, algorithm, N, K), cost.sent(algorithm, N) * K, what)


@exercise
def crossover(answer):
    """answer(N, alpha, beta) -> size in bytes at which tree and ring take the same time."""
    for N, alpha, beta in ((4, 1e-6, 1e-9), (16, 10e-6, 1e-10), (1024, 5e-6, 4e-11)):
        what = f"N={N}, alpha={alpha:g} s, beta={beta:g} s per byte"
        K = call(answer, N, alpha, beta)
        if isinstance(K, bool) or not isinstance(K, numbers.Real) or not math.isfinite(K):
            wrong(f"{what}: expected a number of bytes, got {K!r}")
        levels = N.bit_length() - 1
        tree = 2 * levels * (alpha + K * beta)
        ring = 2 * (N - 1) * (alpha + K / N * beta)
        if K <= 0 or not math.isclose(tree, ring, rel_tol=1e-6):
            wrong(
                f"{what}: at your size of {K:.4g} bytes the tree takes {tree:.4g} s and the ring "
                f"{ring:.4g} s, which is not the same"
            )


@exercise
def reason(answer):
    """The letter of the reason why a ring over thousands of ranks is slow for short arrays."""
    if not isinstance(answer, str) or answer.strip().upper() not in ("A", "B", "C", "D"):
        wrong(f"expected one letter from A to D in quotes, got {answer!r}")
    equal(answer.strip().upper(), "C", "the reason")
