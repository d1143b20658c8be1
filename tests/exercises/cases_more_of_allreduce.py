"""Answers to the exercises of the appendix to notebook 08."""

import math
from collections import Counter

import numpy as np

from tests.exercises.case import Case
from tests.exercises.cases_collectives import allgather, allgather_by_pickles


def by_requests(work, comm, wait=True):
    n, rank = comm.size, comm.rank
    parts = np.split(work, n)
    for step in range(n - 1):
        request = comm.Isend(parts[(rank - step) % n], (rank + 1) % n, step)
        comm.Recv(parts[(rank - step - 1) % n], (rank - 1) % n, step)
        if wait:
            request.Wait()
    return work


def scatter_alone(work, comm, kind=None):
    """Part by part, received as numbers of another kind, if asked to."""
    n, rank = comm.size, comm.rank
    parts = np.split(work, n)
    for peer in range(1, n):
        if rank == 0:
            comm.Send(parts[peer], peer)
        elif rank == peer:
            part = np.empty(len(work) // n, kind or work.dtype)
            comm.Recv(part, 0)
            parts[rank][:] = part
    return work


def by_mpis_scatter(work, comm):
    part = np.empty(len(work) // comm.size, work.dtype)
    comm.Scatter(work, part)
    np.split(work, comm.size)[comm.rank][:] = part
    return allgather(work, comm)


def scatter_and_allgather(work, comm):
    return allgather(scatter_alone(work, comm), comm)


def scatter_and_allgather_by_pickles(work, comm):
    """Right in another way: what is sent is pickled, which adds some bytes."""
    parts = np.split(work.copy(), comm.size)
    if comm.rank == 0:
        for peer in range(1, comm.size):
            comm.send(parts[peer], peer)
    else:
        parts[comm.rank] = comm.recv(source=0)
    return allgather_by_pickles(parts, comm)


def scatter_and_open_ring(work, comm):
    """Right in another way: rank 0 has everything, so the last rank sends nothing."""
    n, rank = comm.size, comm.rank
    parts = np.split(work, n)
    for peer in range(1, n):
        if rank == 0:
            comm.Send(parts[peer], peer, 9)
        elif rank == peer:
            comm.Recv(parts[rank], 0, 9)
    for step in range(n - 1):
        request = comm.Isend(parts[(rank - step) % n], rank + 1) if rank < n - 1 else None
        if rank:
            comm.Recv(parts[(rank - step - 1) % n], rank - 1)
        if request:
            request.Wait()
    return work


def broadcast_along_a_chain(work, comm):
    n, rank = comm.size, comm.rank
    if rank:
        comm.Recv(work, rank - 1)
    if rank < n - 1:
        comm.Send(work, rank + 1)
    return work


def broadcast_that_raises_alone(work, comm):
    """On some ranks of a cluster only: what comes next must not meet what they left behind."""
    return scatter_and_allgather(work, comm) if comm.size > 1 else work[len(work)].copy()


def rate(seconds, N, K, alpha, data):
    step = seconds / (2 * (N - 1)) - alpha
    return 8 * K / N / data / step if step > 0 else math.inf


def seats(hosts, closed=True):
    n = len(hosts)
    if len(set(hosts)) == 1:
        return 1
    senders = range(n if closed else n - 1)
    leaving = Counter(hosts[rank] for rank in senders if hosts[rank] != hosts[(rank + 1) % n])
    return max(leaving.values())


def ring_time(hosts, K, alpha, payload, steps=None, parts=None, of=None, latencies=1):
    N = len(hosts)
    steps = 2 * (N - 1) if steps is None else steps
    parts = seats(hosts) if parts is None else parts
    return steps * (latencies * alpha + parts * K / (of or N) / payload)


def ring_time_of_the_schedule(hosts, K, alpha, payload):
    """The library's: who sends what to whom in which step, each link shared."""
    from helpers.collectives import placement
    from helpers.collectives.cost import Link

    between = Link("between", alpha, 1 / payload)
    return placement.seconds("ring", [K], hosts, Link("inside", 0.0, 0.0), between)[0]


CASES = {
    "long_broadcast": Case(
        right=scatter_and_allgather,
        also=[
            *(scatter_and_allgather_by_pickles, scatter_and_open_ring),
            lambda work, comm: scatter_and_allgather(work.copy(), comm),
        ],
        wrong=[
            *(broadcast_along_a_chain, lambda work, comm: (comm.Bcast(work), work)[1]),
            *(scatter_alone, by_mpis_scatter),
            lambda work, comm: by_requests(scatter_alone(work, comm), comm, wait=False),
        ],
        told={
            "float64 was right": lambda work, comm: allgather(
                scatter_alone(work, comm, kind=float), comm
            ),
        },
        hangs=[broadcast_that_raises_alone],
    ),
    "rate_for": Case(
        right=rate,
        also=[lambda *asked: np.asarray(rate(*asked))],
        wrong=[
            lambda s, N, K, alpha, data: 8 * K / N / data / (s / (2 * (N - 1)) - alpha),  # below 0
            lambda s, N, K, alpha, data: (  # divides by 0 where the latencies take all of s
                math.inf
                if s < 2 * (N - 1) * alpha
                else 8 * K / N / data / (s / (2 * (N - 1)) - alpha)
            ),
            lambda *asked: None if rate(*asked) == math.inf else rate(*asked),
            lambda seconds, N, K, alpha, data: rate(seconds, N, K, 0.0, data),
            lambda seconds, N, K, alpha, data: rate(seconds, N, K, alpha, 1.0),
            lambda *asked: f"{rate(*asked):g} bit/s",
        ],
    ),
    "ring_on_hosts": Case(
        right=ring_time,
        also=[
            ring_time_of_the_schedule,
            lambda hosts, K, *a: ring_time(hosts, -(-K // len(hosts)), *a, of=1),
        ],
        wrong=[
            lambda *a: ring_time(*a, parts=1),  # as if each link had one part to carry
            lambda *a: ring_time(*a, of=len(set(a[0]))),  # parts by hosts
            lambda *a: ring_time(*a, latencies=0),
            lambda hosts, *a: ring_time(hosts, *a, parts=seats(hosts, closed=False)),
            lambda *a: ring_time(*a, steps=len(a[0]) - 1),
        ],
    ),
}
