"""Answers to the exercises of notebook 08."""

import math
from collections import Counter
from itertools import pairwise

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


def whole_ring(x, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    work = np.array(x, dtype=float)
    parts = np.array_split(work, n)
    for step in range(n - 1):
        give, take = parts[(rank - step - 1) % n], parts[(rank - step - 2) % n]
        theirs = np.empty_like(take)
        comm.Sendrecv(give, (rank + 1) % n, 0, theirs, (rank - 1) % n, 0)
        take += theirs
    for step in range(n - 1):
        give, take = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        comm.Sendrecv(give, (rank + 1) % n, 0, take, (rank - 1) % n, 0)
    return work


def ring_for_multiples_only(x, comm):
    n = comm.Get_size()
    whole_ring(x[: len(x) // n * n], comm)
    return whole_ring(x, comm) if len(x) % n == 0 else x


def half_a_ring(x, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    work = np.array(x, dtype=float)
    parts = np.array_split(work, n)
    for step in range(n - 1):
        give, take = parts[(rank - step - 1) % n], parts[(rank - step - 2) % n]
        theirs = np.empty_like(take)
        comm.Sendrecv(give, (rank + 1) % n, 0, theirs, (rank - 1) % n, 0)
        take += theirs
    return work


def by_mpis_own(x, comm):
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total


def round_and_round(x, comm):
    """Right, but every rank sends the whole array N − 1 times."""
    n, rank = comm.Get_size(), comm.Get_rank()
    total, travelling, theirs = x.copy(), x.copy(), np.empty_like(x)
    for _ in range(n - 1):
        comm.Sendrecv(travelling, (rank + 1) % n, 0, theirs, (rank - 1) % n, 0)
        travelling, theirs = theirs, travelling
        total += travelling
    return total


def double(x, comm):
    total, theirs, distance = x.copy(), np.empty_like(x), 1
    while distance < comm.Get_size():
        partner = comm.Get_rank() ^ distance
        comm.Sendrecv(total, partner, 0, theirs, partner, 0)
        total, distance = total + theirs, 2 * distance
    return total


def double_what_was_brought(x, comm):
    """Sends its own numbers each time, in place of the sum so far."""
    total, theirs, distance = x.copy(), np.empty_like(x), 1
    while distance < comm.Get_size():
        partner = comm.Get_rank() ^ distance
        comm.Sendrecv(x, partner, 0, theirs, partner, 0)
        total, distance = total + theirs, 2 * distance
    return total


def only_neighbours(x, comm):
    theirs, partner = np.empty_like(x), comm.Get_rank() ^ 1
    if comm.Get_size() > 1:
        comm.Sendrecv(x, partner, 0, theirs, partner, 0)
        return x + theirs
    return x


def halve_and_double(x, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    work, low, high, distance, spans = x.copy(), 0, len(x), n // 2, []
    while distance:
        partner, middle = rank ^ distance, (low + high) // 2
        spans.append((partner, low, middle, high))
        upper = rank & distance
        give = slice(low, middle) if upper else slice(middle, high)
        low, high = (middle, high) if upper else (low, middle)
        theirs = np.empty(high - low)
        comm.Sendrecv(work[give], partner, 0, theirs, partner, 0)
        work[low:high] += theirs
        distance //= 2
    for partner, first, middle, last in reversed(spans):
        mine, other = slice(first, middle), slice(middle, last)
        if low != first:
            mine, other = other, mine
        comm.Sendrecv(work[mine], partner, 0, work[other], partner, 0)
        low, high = first, last
    return work


def halve_only(x, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    work, low, high, distance = x.copy(), 0, len(x), n // 2
    while distance:
        partner, middle, upper = rank ^ distance, (low + high) // 2, rank & distance
        give = slice(low, middle) if upper else slice(middle, high)
        low, high = (middle, high) if upper else (low, middle)
        theirs = np.empty(high - low)
        comm.Sendrecv(work[give], partner, 0, theirs, partner, 0)
        work[low:high] += theirs
        distance //= 2
    return work


def steps_of(way, G, M):
    return {
        "flat ring": 2 * (G * M - 1),
        "tree": 2 * round(math.log2(G) + math.log2(M)),
        "two levels": 2 * (G - 1) + 2 * (M - 1),
    }[way]


def seats(hosts):
    n = len(hosts)
    if len(set(hosts)) == 1:
        return 1
    leaving = Counter(hosts[rank] for rank in range(n) if hosts[rank] != hosts[(rank + 1) % n])
    return max(leaving.values())


def ranks_of_a_host(hosts):
    return max(Counter(hosts).values())


def all_crossings(hosts):
    n = len(hosts)
    return sum(hosts[rank] != hosts[(rank + 1) % n] for rank in range(n)) / len(set(hosts))


def not_a_circle(hosts):
    leaving = Counter(one for one, other in pairwise(hosts) if one != other)
    return max(leaving.values(), default=1)


def ring_time(H, K, alpha, payload):
    return 2 * (H - 1) * (alpha + K / H / payload)


def chosen(K, alpha, beta):
    return "ring" if 14 * (alpha + K / 8 * beta) < 3 * (alpha + K * beta) else "recursive_doubling"


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
    "ring_allreduce": Case(
        right=whole_ring,
        wrong=[ring_for_multiples_only, half_a_ring, by_mpis_own, round_and_round, double],
    ),
    "doubling": Case(
        right=double, wrong=[double_what_was_brought, only_neighbours, whole_ring, by_mpis_own]
    ),
    "halving_doubling": Case(right=halve_and_double, wrong=[halve_only, whole_ring, double]),
    "count_steps": Case(
        right=steps_of,
        wrong=[
            lambda way, G, M: steps_of(way, G, M) // 2,
            lambda way, G, M: 2 * (G * M - 1),
            lambda way, G, M: steps_of(way, G, M) - (way == "two levels"),
        ],
    ),
    "seating": Case(
        right=seats,
        wrong=[ranks_of_a_host, all_crossings, not_a_circle, lambda hosts: len(set(hosts))],
        also=[lambda hosts: np.int64(seats(hosts)), lambda hosts: float(seats(hosts))],
    ),
    "ring_on_hosts": Case(
        right=ring_time,
        wrong=[
            lambda H, K, alpha, payload: 2 * (H - 1) / H * K / payload,
            lambda H, K, alpha, payload: (H - 1) * (alpha + K / H / payload),
            lambda H, K, alpha, payload: 2 * (H - 1) * (alpha + K / payload),
            lambda H, K, alpha, payload: 8 * ring_time(H, K, alpha, payload),
            lambda H, K, alpha, payload: 1e3 * ring_time(H, K, alpha, payload),
            lambda H, K, alpha, payload: alpha + 2 * (H - 1) * K / H / payload,
            lambda H, K, alpha, payload: 2 * H * (alpha + K / H / payload),
        ],
        also=[
            lambda H, K, alpha, payload: np.float64(ring_time(H, K, alpha, payload)),
            lambda H, K, alpha, payload: 2 * (H - 1) * (alpha + -(-K // H) / payload),
            lambda H, K, alpha, payload: 2 * (H - 1) * (alpha + 4 * -(-K // 4 // H) / payload),
        ],
    ),
    "choose": Case(
        right=chosen,
        wrong=[
            lambda K, alpha, beta: "ring",
            lambda K, alpha, beta: "recursive_doubling",
            lambda K, alpha, beta: "ring" if K > 500_000 else "recursive_doubling",
            lambda K, alpha, beta: "ring" if K * beta > alpha else "recursive_doubling",
            lambda K, alpha, beta: "ring" if K > 110_000 else "recursive_doubling",
            lambda K, alpha, beta: "doubling" if chosen(K, alpha, beta) != "ring" else "ring",
        ],
    ),
}
