"""Checks of notebook 08: allreduces on ranks, their bytes, and what they cost."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from helpers.exercises.answers import number, several
from helpers.exercises.core import WrongAnswer, call, close, exercise, wrong
from helpers.exercises.groups import Case, nothing_begun, rank_results

PICKLE = 300  # bytes that pickling adds to a message, at most: long arrays are what is judged


@exercise
def chunk_to_send(answer, first=0):
    """answer(rank, step, N) -> the chunk to send in step 0, 1, ... to share chunk rank + first."""
    for N in (2, 3, 4, 7):
        held = [{(rank + first) % N} for rank in range(N)]  # finished chunks on each rank
        for step in range(N - 1):
            sent = [call(answer, rank, step, N) for rank in range(N)]
            for rank, chunk in enumerate(sent):
                what = f"N={N}, step {step}: rank {rank} sends chunk {chunk!r}"
                if isinstance(chunk, bool) or not hasattr(chunk, "__index__"):
                    wrong(f"{what}, expected the number of a chunk")
                chunk = sent[rank] = operator.index(chunk)  # of an array without dimensions, too
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
                held[(rank + 1) % N].add(chunk)


def is_array(returned: object, where: str) -> None:
    """Refuse what later cells, and exercises that build on this one, cannot use as an array."""
    import numpy as np

    if not isinstance(returned, np.ndarray):
        got = "None" if returned is None else f"a {type(returned).__name__}"
        wrong(f"{where}: it returned {got}, expected a NumPy array")


@exercise
def crossover(answer):
    """answer(N, alpha, beta) -> size in bytes at which tree and ring take the same time."""
    for N, alpha, beta in ((4, 1e-6, 1e-9), (16, 10e-6, 1e-10), (1024, 5e-6, 4e-11)):
        what = f"N={N}, alpha={alpha:g} s, beta={beta:g} s per byte"
        K = number(call(answer, N, alpha, beta), f"{what}: the bytes")
        if not math.isfinite(K):
            wrong(f"{what}: expected a number of bytes, got {K!r}")
        levels = N.bit_length() - 1
        tree = 2 * levels * (alpha + K * beta)
        ring = 2 * (N - 1) * (alpha + K / N * beta)
        a_byte = abs(2 * levels - 2 * (N - 1) / N) * beta  # a whole number of bytes is right, too
        if K <= 0 or abs(tree - ring) > max(1e-6 * ring, a_byte):
            wrong(
                f"{what}: at your size of {K:.4g} bytes the tree takes {tree:.4g} s and the ring "
                f"{ring:.4g} s, which is not the same"
            )


@exercise
def bytes_out(answer):
    """answer(H, G, K) -> the bytes that leave each host in a flat ring, and in two levels."""
    for H, G, K in ((4, 2, 1_048_576), (3, 1, 6_000), (2, 8, 4_000_000), (1, 4, 8_000),
                    (64, 4, 102_400_000)):  # fmt: skip
        where = f"{H} host{'s' * (H > 1)} with {G} rank{'s' * (G > 1)} each, K={K} bytes"
        parts = several(call(answer, H, G, K), 2, f"{where}: expected two numbers, the ring's and "
                        "those of two levels")  # fmt: skip
        for got, name, circle in zip(parts, ("ring", "two levels"), (H * G, H), strict=True):
            what = f"{where}, {name}"
            out = number(got, f"{what}: the bytes")
            want = 2 * (circle - 1) / circle * K if H > 1 else 0.0
            if math.isnan(out) or abs(out - want) > max(1e-6 * want, 1):  # 1: of whole bytes
                side = "few" if out < want else "many"
                wrong(f"{what}: {out:.6g} bytes are too {side} to leave each host")


def _numbers(rank: int, length: int):
    """What rank ``rank`` puts into an allreduce: sums of them are exact, and differ everywhere."""
    import numpy as np

    return (rank + 1) ** 3 * (1.0 + np.arange(length))


@contextmanager
def of_type(kind: str) -> Iterator[None]:
    """Say what is likely wrong where float32 is, after float64 was right."""
    try:
        yield
    except WrongAnswer as error:
        if kind == "float64":
            raise
        wrong(f"{error}; float64 was right: has what you receive into the type of what is sent?")


def _same_type(returned, kind: str, where: str) -> None:
    if returned.dtype != kind:
        wrong(f"{where}: right, but it returned numbers of {returned.dtype}")


def _reductions(answer, cluster, trials: list[tuple[int, int]]) -> list:
    """Call answer(array, comm) in each trial (ranks, length); compare with the sums.

    The second trial is gone through once more with numbers of 4 bytes, as gradients have them.

    Returns, for each trial, its ranks, its length, the bytes of a number and the results.
    """
    tried = [*((*trial, "float64") for trial in trials), (*trials[1], "float32")]
    given = lambda length, kind, rank: (_numbers(rank, length).astype(kind),)  # noqa: E731
    cases = [
        Case(n, partial(given, length, kind), f"{length} numbers of {kind}")
        for n, length, kind in tried
    ]
    found = []
    for (n, length, kind), there in zip(tried, rank_results(cluster, answer, cases), strict=True):
        whole = sum(_numbers(rank, length) for rank in range(n))
        for rank, result in enumerate(there):
            where = f"on rank {rank} of {n}, {length} numbers of {kind}"
            is_array(result.returned, where)
            with of_type(kind):
                close(result.returned, whole, where)
            _same_type(result.returned, kind, where)
            if result.changed:
                wrong(f"{where}: right, but x has changed; return the sums as a new array")
            if result.aliased:
                wrong(f"{where}: right, but it returned x itself; return the sums as a new array")
        nothing_begun(there)
        found.append((n, length, 4 if kind == "float32" else 8, there))
    return found


@exercise
def ring_allreduce(answer, cluster):
    """answer(x, comm) -> the sums over all ranks, by a ring, for any length."""
    trials = [(4, 8), (4, 100_003), (3, 7), (2, 5), (4, 2), (1, 3)]
    for n, length, wide, there in _reductions(answer, cluster, trials):
        part = -(-length // n) * wide
        for rank, result in enumerate(there):
            most = 2 * (n - 1) * (part + PICKLE)
            if result.messages != 2 * (n - 1) or result.bytes > most:
                wrong(
                    f"right, but rank {rank} of {n} sent {result.messages} messages of "
                    f"{result.bytes} bytes altogether for {length} numbers; on a ring it is one "
                    "part in each of 2(N−1) steps"
                )
            if n > 1 and set(result.sent_to) not in ({(rank + 1) % n}, {(rank - 1) % n}):
                wrong(
                    f"right, but rank {rank} of {n} sent to ranks {list(result.sent_to)}; on a "
                    "ring it has one neighbour to send to"
                )


@exercise
def halving_doubling(answer, cluster):
    """answer(x, comm) -> the sums over N = 2^L ranks, in 2L exchanges of halves, quarters, ..."""
    trials = [(4, 8), (4, 40_000), (2, 6), (1, 3)]
    for n, length, wide, there in _reductions(answer, cluster, trials):
        levels = n.bit_length() - 1
        for rank, result in enumerate(there):
            too_many = result.bytes - 2 * (n - 1) * length * wide // n
            if result.messages != 2 * levels or not 0 <= too_many <= PICKLE * 2 * levels:
                wrong(
                    f"right, but rank {rank} of {n} sent {result.messages} messages of "
                    f"{result.bytes} bytes altogether for {length} numbers; it is 2·log₂ N "
                    "messages, of half of the array, a quarter, ... and back"
                )
