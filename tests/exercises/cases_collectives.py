"""Answers to the exercises of notebook 08."""

import math
from collections import Counter

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


def whole_ring_by_pickles(x, comm):
    """Right in another way: what is sent is pickled, which adds some bytes."""
    n, rank = comm.Get_size(), comm.Get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    parts = [part.copy() for part in np.array_split(x, n)]
    for step in range(n - 1):
        give, take = (rank - step - 1) % n, (rank - step - 2) % n
        parts[take] += comm.sendrecv(parts[give], right, source=left)
    for step in range(n - 1):
        give, take = (rank - step) % n, (rank - step - 1) % n
        parts[take] = comm.sendrecv(parts[give], right, source=left)
    return np.concatenate(parts)


def whole_ring_in_place(x, comm):
    """Right, but the caller's numbers are gone."""
    x[:] = whole_ring(x, comm)
    return x


def ring_into_float64(x, comm):
    """Right as long as the numbers are float64."""
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.array_split(x.copy(), n)
    for step in range(n - 1):
        give, take = parts[(rank - step - 1) % n], parts[(rank - step - 2) % n]
        theirs = np.empty(len(take))
        comm.Sendrecv(give, (rank + 1) % n, 0, theirs, (rank - 1) % n, 0)
        take += theirs.astype(x.dtype)
    for step in range(n - 1):
        give, take = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        comm.Sendrecv(give, (rank + 1) % n, 0, take, (rank - 1) % n, 0)
    return np.concatenate(parts)


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


def halve_and_double(x, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
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
        theirs = np.empty_like(work[low:high])
        comm.Sendrecv(work[give], partner, 0, theirs, partner, 0)
        work[low:high] += theirs
        distance //= 2
    return work


def by_all(part, across):
    total = np.empty_like(part)
    across.Allreduce(part, total)
    return total


def by_two_levels(x, node, across, add=by_all, dtype=None):
    part = np.empty(len(x) // node.Get_size(), dtype or x.dtype)
    node.Reduce_scatter_block(x, part)
    whole = np.empty_like(x)
    node.Allgather(add(part, across), whole)
    return whole


def by_a_root(part, across):
    total = np.empty_like(part)
    across.Reduce(part, total)
    across.Bcast(total)
    return total


def by_pieces(part, across):
    if len(part) % across.Get_size():
        return by_all(part, across)
    piece, total = np.empty(len(part) // across.Get_size(), part.dtype), np.empty_like(part)
    across.Reduce_scatter_block(part, piece)
    across.Allgather(piece, total)
    return total


def by_each_other(part, across):
    n, rank = across.Get_size(), across.Get_rank()
    total, theirs = part.copy(), np.empty_like(part)
    for step in range(1, n):
        across.Sendrecv(part, (rank + step) % n, 0, theirs, (rank - step) % n, 0)
        total += theirs
    return total


def two_levels_into_float64(x, node, across):
    """Right as long as the numbers are float64."""
    return by_two_levels(x, node, across, dtype=float)


def two_levels_in_place(x, node, across):
    """Right, but the caller's numbers are gone."""
    x[:] = by_two_levels(x, node, across)
    return x


def everything_in_two_calls(x, node, across):
    """Right sums, and no call is large, but the whole array goes between nodes."""
    inside = np.empty_like(x)
    node.Allreduce(x, inside)
    return np.concatenate([by_all(part, across) for part in np.split(inside, node.Get_size())])


def everything_in_place(x, node, across):
    inside = np.empty_like(x)
    node.Allreduce(x, inside)
    across.Allreduce(MPI.IN_PLACE, inside)  # noqa: F821
    return inside


def everything_by_messages(x, node, across):
    inside = np.empty_like(x)
    node.Allreduce(x, inside)
    parts = np.split(inside, node.Get_size())
    return np.concatenate([by_each_other(part, across) for part in parts])


def everything_gathered(x, node, across):
    """Right sums, and nothing reduced between nodes: every part of every node is gathered."""
    inside = np.empty_like(x)
    node.Allreduce(x, inside)
    parts = np.split(inside, node.Get_size())
    return np.concatenate([sum(across.allgather(part)) for part in parts])


def parts_gathered(part, across):
    found = np.empty((across.Get_size(), len(part)), part.dtype)
    across.Allgather(part, found)
    return found.sum(axis=0)


def everything_from_a_root(x, node, across):
    inside = np.empty_like(x)
    node.Allreduce(x, inside)
    return by_a_root(inside, across)


def by_two_levels_by_hand(x, node, across):
    """Right in another way: rings of our own, and the part in place."""
    work = half_a_ring(x, node)
    part = np.array_split(work, node.Get_size())[node.Get_rank()]
    part[:] = whole_ring(part, across)
    return allgather(work, node)


def two_levels_that_raise_alone(x, node, across):
    alone = node.Get_size() * across.Get_size() == 1
    return x[len(x)].copy() if alone else by_two_levels(x, node, across)


def level_by_level_of_everything(x, node, across):
    """Right sums, but the whole array goes between nodes, from every rank."""
    inside, total = np.empty_like(x), np.empty_like(x)
    node.Allreduce(x, inside)
    across.Allreduce(inside, total)
    return total


def through_the_first_of_each_node(x, node, across):
    """Right sums, but one rank of each node sends the whole array."""
    inside, total = np.empty_like(x), np.empty_like(x)
    node.Reduce(x, inside)
    if node.Get_rank() == 0:
        across.Allreduce(inside, total)
    node.Bcast(total)
    return total


def node_alone(x, node, across):
    total = np.empty_like(x)
    node.Allreduce(x, total)
    return total


def without_the_way_back(x, node, across):
    part = np.empty(len(x) // node.Get_size())
    node.Reduce_scatter_block(x, part)
    across.Allreduce(part.copy(), part)
    return part


def parts_that_nobody_added(x, node, across):
    part = np.split(x, node.Get_size())[node.Get_rank()]
    total, whole = np.empty_like(part), np.empty_like(x)
    across.Allreduce(part, total)
    node.Allgather(total, whole)
    return whole


def seats(hosts):
    n = len(hosts)
    if len(set(hosts)) == 1:
        return 1
    leaving = Counter(hosts[rank] for rank in range(n) if hosts[rank] != hosts[(rank + 1) % n])
    return max(leaving.values())


def ranks_of_a_host(hosts):
    return max(Counter(hosts).values())


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


def sums_by_pairs(x, comm):
    """Each rank's part straight to its owner, and each sum straight to everybody."""
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.array_split(x, n)
    brought = [part.copy() for part in parts]
    for gap in range(1, n):
        to, source = (rank + gap) % n, (rank - gap) % n
        parts[rank] += comm.sendrecv(brought[to], to, source=source)
    for gap in range(1, n):
        to, source = (rank + gap) % n, (rank - gap) % n
        parts[source][:] = comm.sendrecv(parts[rank], to, source=source)
    return x


CASES = {
    "chunk_to_send": Case(
        right=chunk,
        also=[lambda rank, step, N: np.array((rank - step) % N)],
        wrong=[
            *(chunk_of_the_other_phase, chunk_the_other_way, chunk_without_end, own_chunk_again),
            *(lambda rank, step, N: "0", 3),
        ],
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
        also=[lambda *a: np.float64(cross(*a)), lambda *a: np.array(cross(*a))],
    ),
    "ring_allreduce": Case(
        right=whole_ring,
        also=[whole_ring_by_pickles],
        wrong=[
            sums_by_pairs,
            *(ring_for_multiples_only, half_a_ring, by_mpis_own, round_and_round),
            *(whole_ring_in_place, ring_into_float64),
        ],
        hangs=[double],
    ),
    "halving_doubling": Case(right=halve_and_double, wrong=[halve_only, whole_ring, double]),
    "two_levels": Case(
        right=by_two_levels,
        also=[
            by_two_levels_by_hand,
            lambda *a: by_two_levels(*a, add=by_a_root),
            lambda *a: by_two_levels(*a, add=by_pieces),
            lambda *a: by_two_levels(*a, add=parts_gathered),
            lambda *a: by_two_levels(*a, add=by_each_other),
            lambda *a: by_two_levels(*a, add=lambda part, across: across.allreduce(part)),
        ],
        wrong=[
            *(level_by_level_of_everything, through_the_first_of_each_node, node_alone),
            *(without_the_way_back, parts_that_nobody_added, everything_gathered),
            *(two_levels_into_float64, two_levels_in_place, everything_in_two_calls),
            *(everything_in_place, everything_by_messages, everything_from_a_root),
        ],
        hangs=[two_levels_that_raise_alone],
    ),
    "ring_on_hosts": Case(
        right=ring_time,
        also=[
            ring_time_of_the_schedule,
            lambda *a: np.float64(ring_time(*a)),
            lambda hosts, K, *a: ring_time(hosts, -(-K // len(hosts)), *a, of=1),
            lambda hosts, K, *a: ring_time(hosts, 4 * -(-K // 4 // len(hosts)), *a, of=1),
        ],
        wrong=[
            lambda *a: ring_time(*a, parts=1),  # as if each link had one part to carry
            lambda *a: ring_time(*a, of=len(set(a[0]))),  # parts by hosts
            lambda *a: ring_time(*a, steps=2 * (len(set(a[0])) - 1)),  # steps by hosts
            lambda *a: ring_time(*a, parts=ranks_of_a_host(a[0])),
            lambda *a: ring_time(*a, latencies=seats(a[0])),
            lambda *a: ring_time(*a, latencies=0),
            lambda *a: ring_time(*a, steps=len(a[0]) - 1),
            lambda *a: ring_time(*a, steps=2 * len(a[0])),
            lambda *a: ring_time(*a, of=1),
            lambda *a: 8 * ring_time(*a),
            lambda *a: 1e3 * ring_time(*a),
            lambda hosts, K, alpha, payload: alpha + ring_time(hosts, K, 0.0, payload),
        ],
    ),
}
