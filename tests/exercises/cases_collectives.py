"""Answers to the exercises of notebook 08."""

import math

import numpy as np

from tests.exercises.case import Case


def allgather(work, comm):
    n, rank = comm.size, comm.rank
    parts = np.split(work, n)
    for step in range(n - 1):
        give, take = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        comm.Sendrecv(give, (rank + 1) % n, 0, take, (rank - 1) % n, 0)
    return work


def cross(N, alpha, beta):
    levels = math.log2(N)
    return alpha * (N - 1 - levels) / (beta * (levels - (N - 1) / N))


def ring(x, comm, halves=2, kind=None, room=None):
    """The first half alone, or received into numbers of another kind or length, if asked to."""
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    parts = np.array_split(x.copy(), n)
    for step in range(n - 1):
        give, take = parts[(rank - step - 1) % n], parts[(rank - step - 2) % n]
        theirs = np.empty(len(take) if room is None else room, kind or x.dtype)
        comm.Sendrecv(give, right, 0, theirs, left, 0)
        take += theirs.astype(x.dtype)
    for step in range(n - 1 if halves > 1 else 0):
        give, take = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        comm.Sendrecv(give, right, 0, take, left, 0)
    return np.concatenate(parts)


def allgather_by_pickles(parts, comm):
    n, rank = comm.size, comm.rank
    for step in range(n - 1):
        give, take = (rank - step) % n, (rank - step - 1) % n
        parts[take] = comm.sendrecv(parts[give], (rank + 1) % n, source=(rank - 1) % n)
    return np.concatenate(parts)


def unless_alone(answer):
    """Right sums, but on a single rank those that it was given."""
    return lambda x, comm: answer(x, comm) if comm.size > 1 else x


def ring_by_pickles(x, comm):
    """Right in another way: what is sent is pickled, which adds some bytes."""
    n, rank = comm.size, comm.rank
    parts = [part.copy() for part in np.array_split(x, n)]
    for step in range(n - 1):
        give, take = (rank - step - 1) % n, (rank - step - 2) % n
        parts[take] += comm.sendrecv(parts[give], (rank + 1) % n, source=(rank - 1) % n)
    return allgather_by_pickles(parts, comm)


def straight_to_its_owner(x, comm):
    """Right sums by as many messages of a part, but each goes to another rank."""
    n, rank = comm.size, comm.rank
    parts, others = np.array_split(x, n), [((rank + k) % n, (rank - k) % n) for k in range(1, n)]
    mine = parts[rank] + sum(comm.sendrecv(parts[to], to, source=of) for to, of in others)
    brought = {of: comm.sendrecv(mine, to, source=of) for to, of in others} | {rank: mine}
    return np.concatenate([brought[owner] for owner in range(n)])


def ring_for_multiples_only(x, comm):
    ring(x[: len(x) // comm.size * comm.size], comm)
    return x if len(x) % comm.size else ring(x, comm)


def in_place(answer):
    """Right, but the caller's numbers are gone."""

    def answer_in_place(x, *comms):
        x[:] = answer(x, *comms)
        return x

    return answer_in_place


def by_mpi(x, comm):
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total


def double(x, comm):
    total, theirs, distance = x.copy(), np.empty_like(x), 1
    while distance < comm.size:
        partner = comm.rank ^ distance
        comm.Sendrecv(total, partner, 0, theirs, partner, 0)
        total, distance = total + theirs, 2 * distance
    return total


def halve_and_double(x, comm, double=True):
    n, rank = comm.size, comm.rank
    work, low, high, distance, spans = x.copy(), 0, len(x), n // 2, []
    while distance:
        partner, middle = rank ^ distance, (low + high) // 2
        spans.append((partner, low, middle, high))
        upper = rank & distance
        give = slice(low, middle) if upper else slice(middle, high)
        low, high = (middle, high) if upper else (low, middle)
        theirs = np.empty_like(work[low:high])
        comm.Sendrecv(work[give], partner, 0, theirs, partner, 0)
        work[low:high] += theirs
        distance //= 2
    for partner, first, middle, last in reversed(spans) if double else ():
        mine, other = slice(first, middle), slice(middle, last)
        if low != first:
            mine, other = other, mine
        comm.Sendrecv(work[mine], partner, 0, work[other], partner, 0)
        low, high = first, last
    return work


def leaving(H, G, K):
    """By formula."""
    N = H * G
    return (2 * (N - 1) / N * K if H > 1 else 0, 2 * (H - 1) / H * K)


def leaving_in_whole_bytes(H, G, K):
    """Right, in whole bytes, as a list."""
    return [int(some) for some in leaving(H, G, K)]


CASES = {
    "chunk_to_send": Case(
        right=lambda rank, step, N: (rank - step) % N,
        also=[lambda rank, step, N: np.array((rank - step) % N)],
        wrong=[
            lambda rank, step, N: (rank - step - 1) % N,  # of the other phase
            lambda rank, step, N: rank - step,
            *(lambda rank, step, N: rank, lambda rank, step, N: "0"),
        ],
    ),
    "crossover": Case(
        right=cross,
        wrong=[
            lambda N, alpha, beta: alpha / beta,
            *(lambda N, alpha, beta: "large", lambda N, alpha, beta: math.inf),
        ],
        also=[lambda *a: np.float64(cross(*a)), lambda *a: int(cross(*a))],
    ),
    "bytes_out": Case(
        right=leaving,
        also=[leaving_in_whole_bytes, lambda *a: np.array(leaving(*a))],
        wrong=[
            lambda H, G, K: (2 * (H * G - 1) / (H * G) * K, 2 * (H - 1) / H * K),  # on one host
            lambda H, G, K: leaving(H, G, K)[::-1],
            lambda H, G, K: (leaving(H, G, K)[0],) * 2,
            lambda H, G, K: (leaving(H, G, K)[1],) * 2,
            lambda H, G, K: tuple(n / 2 for n in leaving(H, G, K)),  # one half of the allreduce
            lambda H, G, K: (G * leaving(H, G, K)[0], leaving(H, G, K)[1]),  # every rank's
            lambda H, G, K: (leaving(H, G, K)[0], leaving(H, G, K)[1] / G),  # of one part
            lambda H, G, K: tuple(n / K for n in leaving(H, G, K)),
            *(lambda H, G, K: 2 * K, lambda H, G, K: ("many", "few")),
        ],
    ),
    "ring_allreduce": Case(
        right=ring,
        also=[ring_by_pickles],
        wrong=[
            *(ring_for_multiples_only, by_mpi, in_place(ring), straight_to_its_owner),
            lambda x, comm: ring(x, comm, halves=1),
            lambda x, comm: ring(x.astype(float), comm).astype(x.dtype),  # by twice the bytes
        ],
        told={
            "float64 was right": lambda x, comm: ring(x, comm, kind=float),
            "it returned x itself": unless_alone(ring),
            "truncated. What came is more bytes": lambda x, comm: ring(
                x, comm, room=len(x) // comm.size
            ),
        },
        hangs=[double],
    ),
    "halving_doubling": Case(
        right=halve_and_double,
        wrong=[
            lambda x, comm: halve_and_double(x, comm, double=False),
            lambda x, comm: halve_and_double(x, comm).astype(float),
            double,
        ],
        told={"it returned x itself": unless_alone(halve_and_double)},
    ),
}
