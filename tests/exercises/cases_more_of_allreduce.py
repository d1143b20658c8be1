"""Answers to the exercises of the appendix to notebook 08."""

import math

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


CASES = {
    "long_broadcast": Case(
        right=scatter_and_allgather,
        also=[scatter_and_allgather_by_pickles, scatter_and_open_ring],
        wrong=[
            *(broadcast_along_a_chain, lambda work, comm: (comm.Bcast(work), work)[1]),
            scatter_alone,
            # right as long as the numbers are float64
            lambda work, comm: allgather(scatter_alone(work, comm, kind=float), comm),
            lambda work, comm: by_requests(scatter_alone(work, comm), comm, wait=False),
        ],
        hangs=[broadcast_that_raises_alone],
    ),
    "rate_for": Case(
        right=rate,
        also=[lambda *asked: np.asarray(rate(*asked))],
        wrong=[
            lambda s, N, K, alpha, data: 8 * K / N / data / (s / (2 * (N - 1)) - alpha),  # below 0
            lambda *asked: None if rate(*asked) == math.inf else rate(*asked),
            lambda seconds, *asked: rate(2 * seconds, *asked),  # of one way
            lambda seconds, N, K, alpha, data: rate(seconds, N, K, 0.0, data),
            lambda seconds, N, K, alpha, data: rate(seconds, N, K, alpha, 1.0),
            *(lambda *asked: f"{rate(*asked):g} bit/s", lambda *asked: math.inf),
        ],
    ),
}
