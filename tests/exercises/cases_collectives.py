"""Answers to the exercises of notebook 08."""

import math

import numpy as np

from tests.exercises.case import Case


def chunk(rank, step, N):
    return (rank - step) % N


def chunk_of_the_other_phase(rank, step, N):
    return (rank - step - 1) % N


def chunk_the_other_way(rank, step, N):
    return (rank + step) % N


def chunk_without_end(rank, step, N):
    return rank - step


def own_chunk_again(rank, step, N):
    return rank


def allgather(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for step in range(n - 1):
        give, take = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        comm.Sendrecv(give, (rank + 1) % n, 0, take, (rank - 1) % n, 0)
    return work


def own_part_each_time(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for step in range(n - 1):
        comm.Sendrecv(parts[rank], (rank + 1) % n, 0, parts[(rank - step - 1) % n], (rank - 1) % n)
    return work


def everybody_to_everybody(work, comm):
    part = np.split(work, comm.Get_size())[comm.Get_rank()].copy()
    comm.Allgather(part, work)
    return work


def receive_first(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for step in range(n - 1):
        comm.Recv(parts[(rank - step - 1) % n], (rank - 1) % n)
        comm.Send(parts[(rank - step) % n], (rank + 1) % n)
    return work


def by_requests(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for step in range(n - 1):
        request = comm.Isend(parts[(rank - step) % n], (rank + 1) % n, step)
        comm.Recv(parts[(rank - step - 1) % n], (rank - 1) % n, step)
        request.Wait()
    return work


def the_other_way_round(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for step in range(n - 1):
        give, take = parts[(rank + step) % n], parts[(rank + step + 1) % n]
        comm.Sendrecv(give, (rank - 1) % n, 0, take, (rank + 1) % n, 0)
    return work


def into_a_new_array(work, comm):
    return allgather(work.copy(), comm)


def forgets_to_return_anywhere(work, comm):
    allgather(work, comm)


def nothing_moves(work, comm):
    return work


def forgets_to_return(work, comm):
    allgather(work, comm)
    return None if comm.Get_rank() else work


def sent(algorithm, N, K):
    return {"chain": 2 * K, "tree": math.log2(N) * K, "ring": 2 * (N - 1) * K / N}[algorithm]


def sent_by_all(algorithm, N, K):
    return {"chain": 2 * (N - 1) * K, "tree": 2 * (N - 1) * K, "ring": 2 * (N - 1) * K}[algorithm]


def half_of_the_ring(algorithm, N, K):
    return {"chain": 2 * K, "tree": math.log2(N) * K, "ring": (N - 1) * K / N}[algorithm]


def limit_of_the_ring(algorithm, N, K):
    return {"chain": 2 * K, "tree": math.log2(N) * K, "ring": 2 * K}[algorithm]


def cross(N, alpha, beta):
    levels = math.log2(N)
    return alpha * (N - 1 - levels) / (beta * (levels - (N - 1) / N))


def bandwidth_delay(N, alpha, beta):
    return alpha / beta


def upside_down(N, alpha, beta):
    return 1 / cross(N, alpha, beta)


def tree_with_one_pass(N, alpha, beta):
    levels = math.log2(N)
    return alpha * (2 * (N - 1) - levels) / (beta * (levels - 2 * (N - 1) / N))


CASES = {
    "chunk_to_send": Case(
        right=chunk,
        wrong=[
            *(chunk_of_the_other_phase, chunk_the_other_way, chunk_without_end, own_chunk_again),
            *(lambda rank, step, N: "0", 3),
        ],
    ),
    "allgather": Case(
        right=allgather,
        wrong=[
            *(own_part_each_time, everybody_to_everybody, nothing_moves, forgets_to_return),
            *(receive_first, lambda work, comm: 1 / 0, "allgather", forgets_to_return_anywhere),
        ],
        also=[by_requests, the_other_way_round, into_a_new_array],
    ),
    "bytes_sent": Case(
        right=sent, wrong=[sent_by_all, half_of_the_ring, limit_of_the_ring, lambda a, N, K: "2K"]
    ),
    "crossover": Case(
        right=cross,
        wrong=[
            *(bandwidth_delay, upside_down, tree_with_one_pass),
            *(lambda N, alpha, beta: "large", lambda N, alpha, beta: math.inf),
            lambda N, alpha, beta: -cross(N, alpha, beta),
        ],
        also=[lambda N, alpha, beta: np.float64(cross(N, alpha, beta))],
    ),
    "reason": Case(right="C", wrong=["A", "B", "D", "E", 3]),
}
