"""Checks of the appendix to notebook 08: a broadcast in chunks, the rate of a link, a placement."""

from __future__ import annotations

import math
from functools import partial

from helpers.exercises.collectives import PICKLE, is_array, of_type
from helpers.exercises.core import NotAttempted, call, close, exercise, wrong
from helpers.exercises.groups import Case, nothing_begun, rank_results


def _part(rank: int, length: int):
    """What rank ``rank`` begins with: numbers that differ everywhere."""
    import numpy as np

    return 100.0 * rank + np.arange(length)


@exercise
def long_broadcast(answer, cluster):
    """answer(work, comm) -> work with rank 0's numbers on every rank, sent in N parts."""
    import numpy as np

    def work(length: int, kind: str, rank: int) -> tuple:
        return ((_part(0, length) if rank == 0 else np.full(length, -1.0 - rank)).astype(kind),)

    trials = [
        *((4, 8, "float64"), (4, 100_000, "float64"), (3, 6, "float64"), (2, 2, "float64")),
        *((1, 3, "float64"), (4, 16, "float32")),
    ]
    cases = [
        Case(n, partial(work, length, kind), f"{length} numbers of {kind}")
        for n, length, kind in trials
    ]
    for (n, length, kind), there in zip(trials, rank_results(cluster, answer, cases), strict=True):
        for result in there:
            for used in ("scatter", "scatterv", "bcast", "ibcast", "iscatter", "allgather"):
                if result.calls[used]:
                    wrong(f"right, but by {used}: do it with sends and receives alone")
        whole = np.dtype(kind).itemsize * length
        for rank, result in enumerate(there):
            where = f"on rank {rank} of {n}, {length} numbers of {kind}"
            is_array(result.returned, where)
            with of_type(kind):
                close(result.returned, _part(0, length), where)
        if sum(result.bytes for result in there) < (n - 1) * whole:  # each must hear it all
            wrong(
                f"right, but {n} ranks sent too little by messages for all to hear it: do it with "
                "sends and receives alone"
            )
        for rank, result in enumerate(there):
            most = (n - 1) * whole // n * (2 if rank == 0 else 1)
            if result.bytes > most + PICKLE * result.messages:  # so only long ones are judged
                wrong(
                    f"right, but rank {rank} of {n} sent {result.messages} messages of "
                    f"{result.bytes} bytes altogether, of an array of {whole}: scatter {n} "
                    "parts by sends, then let them go round the ring"
                )
        nothing_begun(there)


@exercise
def rate_for(answer):
    """answer(seconds, N, K, alpha, data) -> the bit/s that a ring needs, math.inf if none do."""
    for seconds, N, K, alpha, data in (
        (1.0, 2, 1_000_000, 0.0, 1.0),
        (0.2, 4, 1_048_576, 1e-3, 0.95),
        (0.05, 8, 102_000_000, 5e-6, 128 / 130),
        (3.0, 64, 64_000, 0.02, 0.8),
        (0.01, 4, 1_000, 0.002, 1.0),  # six latencies take 12 ms
        (0.5, 2, 1_000, 0.25, 1.0),  # and here two take all of the time
        (2.0, 1024, 8, 1e-3, 0.9),  # the latencies of one way would leave half of the time
    ):
        what = f"{seconds:g} s, N={N}, K={K}, alpha={alpha:g} s, data={data:.4g}"
        try:
            rate = call(answer, seconds, N, K, alpha, data)
        except NotAttempted:
            if N == 2:  # it has answered nothing else before
                raise
            wrong(f"{what}: expected a number of bits a second, or math.inf, got None")
        try:
            got = math.nan if isinstance(rate, bool | str) else float(rate)
        except (TypeError, ValueError):
            got = math.nan
        if math.isnan(got):
            wrong(f"{what}: expected a number of bits a second, got {rate!r}")
        latencies = 2 * (N - 1) * alpha
        if latencies >= seconds:
            if got != math.inf:
                wrong(
                    f"{what}: you ask for {got:.4g} bit/s; latencies alone take "
                    f"{latencies:.4g} s, so expected was that no rate is enough"
                )
            continue
        if got <= 0 or got == math.inf:
            wrong(f"{what}: expected a finite rate above 0, got {got:.4g} bit/s")
        took = latencies + 2 * (N - 1) * 8 * K / N / (data * got)
        if not math.isclose(took, seconds, rel_tol=1e-6):
            wrong(
                f"{what}: at your rate of {got:.4g} bit/s the ring takes {took:.4g} s, expected "
                f"{seconds:g} s"
            )


@exercise
def ring_on_hosts(answer):
    """answer(hosts, K, alpha, payload) -> seconds of a ring allreduce through ranks on hosts."""
    for hosts, parts, K, alpha, payload in (  # parts: through the busiest link in a step
        ((0, 1), 1, 1_000_000, 0.0, 1e6),
        ((0, 1, 2, 3), 1, 1_048_576, 5e-4, 11.9e6),
        (tuple(range(8)), 1, 8_000, 1e-3, 1.2e8),
        ((0, 0, 1, 1, 2, 2), 1, 600_000, 2e-4, 6e6),
        ((0, 1, 2, 0, 1, 2), 2, 600_000, 2e-4, 6e6),
        ((0, 0, 0, 1, 2, 2, 1, 3, 3), 2, 900_000, 1e-3, 1e7),
        ((0, 1, 0, 1, 0, 1), 3, 48_000, 0.02, 1e8),
        ((0, 1, 2, 1), 2, 400_000, 1e-3, 1e7),  # with what the last rank sends the first
    ):
        N = len(hosts)
        want = 2 * (N - 1) * (alpha + parts * K / N / payload)
        what = f"hosts {hosts}, {K} bytes, alpha = {alpha} s, {payload:g} bytes/s: the seconds"
        # so wide that parts of whole bytes, or of whole numbers, are right as well
        close(call(answer, hosts, K, alpha, payload), want, what, rtol=1e-3)
