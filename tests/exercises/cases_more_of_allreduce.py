"""Answers to the exercises of the appendix to notebook 08."""

import math

import numpy as np

from tests.exercises.case import Case
from tests.exercises.cases_collectives import allgather


def by_requests(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for step in range(n - 1):
        request = comm.Isend(parts[(rank - step) % n], (rank + 1) % n, step)
        comm.Recv(parts[(rank - step - 1) % n], (rank - 1) % n, step)
        request.Wait()
    return work


def by_requests_that_are_forgotten(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for step in range(n - 1):
        comm.Isend(parts[(rank - step) % n], (rank + 1) % n, step)
        comm.Recv(parts[(rank - step - 1) % n], (rank - 1) % n, step)
    return work


def nothing_moves(work, comm):
    return work


def scatter_alone(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for peer in range(1, n):
        if rank == 0:
            comm.Send(parts[peer], peer)
        elif rank == peer:
            comm.Recv(parts[rank], 0)
    return work


def scatter_and_allgather(work, comm):
    return allgather(scatter_alone(work, comm), comm)


def scatter_and_requests(work, comm):
    """Right in another way: the scatter at once, the allgather by requests, in a new array."""
    n, rank, work = comm.Get_size(), comm.Get_rank(), work.copy()
    parts = np.split(work, n)
    if rank == 0:
        for request in [comm.Isend(parts[peer], peer, 99) for peer in range(1, n)]:
            request.Wait()
    else:
        comm.Recv(parts[rank], 0, 99)
    return by_requests(work, comm)


def scatter_and_forgotten_requests(work, comm):
    return by_requests_that_are_forgotten(scatter_alone(work, comm), comm)


def scatter_and_allgather_by_pickles(work, comm):
    """Right in another way: what is sent is pickled, which adds some bytes."""
    n, rank = comm.Get_size(), comm.Get_rank()
    parts, to, source = np.split(work.copy(), n), (rank + 1) % n, (rank - 1) % n
    if rank == 0:
        for peer in range(1, n):
            comm.send(parts[peer], peer)
    else:
        parts[rank] = comm.recv(source=0)
    for step in range(n - 1):
        parts[(rank - step - 1) % n] = comm.sendrecv(parts[(rank - step) % n], to, source=source)
    return np.concatenate(parts)


def scatter_and_open_ring(work, comm):
    """Right in another way: rank 0 has everything, so the last rank sends nothing."""
    n, rank = comm.Get_size(), comm.Get_rank()
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


def scatter_into_float64(work, comm):
    """Right as long as the numbers are float64."""
    n, rank = comm.Get_size(), comm.Get_rank()
    parts, part = np.split(work, n), np.empty(len(work) // n)
    for peer in range(1, n):
        if rank == 0:
            comm.Send(parts[peer], peer)
        elif rank == peer:
            comm.Recv(part, 0)
            parts[rank][:] = part
    return allgather(work, comm)


def broadcast_along_a_tree(work, comm):
    n, rank, have = comm.Get_size(), comm.Get_rank(), 1
    while have < n:
        if rank < have and rank + have < n:
            comm.Send(work, rank + have)
        elif have <= rank < 2 * have:
            comm.Recv(work, rank - have)
        have *= 2
    return work


def broadcast_along_a_chain(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    if rank:
        comm.Recv(work, rank - 1)
    if rank < n - 1:
        comm.Send(work, rank + 1)
    return work


def broadcast_one_by_one(work, comm):
    if comm.Get_rank():
        comm.Recv(work, 0)
    else:
        for peer in range(1, comm.Get_size()):
            comm.Send(work, peer)
    return work


def broadcast_by_mpi(work, comm):
    comm.Bcast(work)
    return work


def broadcast_that_raises_alone(work, comm):
    """On some ranks of a cluster only: what comes next must not meet what they left behind."""
    return scatter_and_allgather(work, comm) if comm.Get_size() > 1 else work[len(work)].copy()


def scatter_of_the_wrong_part(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for peer in range(1, n):
        if rank == 0:
            comm.Send(parts[peer - 1], peer)
        elif rank == peer:
            comm.Recv(parts[rank], 0)
    return allgather(work, comm)


def rate(seconds, N, K, alpha, data):
    step = seconds / (2 * (N - 1)) - alpha
    return 8 * K / N / data / step if step > 0 else math.inf


def rate_of_all_bits(seconds, N, K, alpha, data):
    """The ring's bits over the time that latencies leave; dividing by 0 or less gives infinity."""
    with np.errstate(divide="ignore"):
        left = max(np.float64(seconds - 2 * (N - 1) * alpha), np.float64(0))
        return np.float64(2 * (N - 1) * 8 * K) / (N * data) / left


def rate_below_zero(seconds, N, K, alpha, data):
    return 8 * K / N / data / (seconds / (2 * (N - 1)) - alpha)


def rate_or_nothing(*asked):
    found = rate(*asked)
    return None if found == math.inf else found


def rate_of_one_way(seconds, N, K, alpha, data):
    return rate(2 * seconds, N, K, alpha, data)


def parts_by_scatter(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    comm.Scatter(work.copy() if rank == 0 else None, parts[rank])
    for step in range(n - 1):
        here, there = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        comm.Sendrecv(here, (rank + 1) % n, 0, there, (rank - 1) % n, 0)
    return work


CASES = {
    "long_broadcast": Case(
        right=scatter_and_allgather,
        also=[
            *(scatter_and_requests, scatter_and_allgather_by_pickles, scatter_and_open_ring),
        ],
        wrong=[
            parts_by_scatter,
            *(broadcast_along_a_tree, broadcast_along_a_chain, broadcast_one_by_one),
            *(broadcast_by_mpi, scatter_alone, scatter_of_the_wrong_part, nothing_moves),
            *(scatter_into_float64, scatter_and_forgotten_requests),
        ],
        hangs=[broadcast_that_raises_alone],
    ),
    "rate_for": Case(
        right=rate,
        also=[rate_of_all_bits, lambda *asked: np.asarray(rate(*asked))],
        wrong=[
            *(rate_below_zero, rate_or_nothing, rate_of_one_way),
            lambda *asked: rate(*asked) / 8,
            lambda seconds, N, K, alpha, data: rate(seconds, N, K, 0.0, data),
            lambda seconds, N, K, alpha, data: rate(seconds, N, K, alpha, 1.0),
            lambda seconds, N, K, alpha, data: rate(seconds, N, K, alpha, 1 / data),
            lambda seconds, N, K, alpha, data: rate(seconds, N, N * K, alpha, data),
            lambda seconds, N, K, alpha, data: 2 * (N - 1) * 8 * K / N / data / seconds,
            lambda seconds, N, K, alpha, data: rate(seconds - alpha, N, K, 0.0, data),
            *(lambda *asked: f"{rate(*asked):g} bit/s", lambda *asked: math.inf),
            lambda *asked: math.nan,
        ],
    ),
}
