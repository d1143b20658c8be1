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


def allgather_by_pickles(work, comm):
    """Right in another way: what is sent is pickled, which adds some bytes."""
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for step in range(n - 1):
        give, take = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        take[:] = comm.sendrecv(give, (rank + 1) % n, source=(rank - 1) % n)
    return work


def whole_array_each_time(work, comm):
    """Right, but in each step the whole array is sent."""
    n, rank = comm.Get_size(), comm.Get_rank()
    mine, theirs = work.copy(), work.copy()
    for step in range(n - 1):
        comm.Sendrecv(mine, (rank + 1) % n, 0, theirs, (rank - 1) % n, 0)
        number, length = (rank - step - 1) % n, len(work) // n
        part = slice(number * length, (number + 1) * length)
        mine[part] = theirs[part]
    return mine


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


def by_requests_that_are_forgotten(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for step in range(n - 1):
        comm.Isend(parts[(rank - step) % n], (rank + 1) % n, step)
        comm.Recv(parts[(rank - step - 1) % n], (rank - 1) % n, step)
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


def double_by_pickles(x, comm):
    """Right in another way: what is sent is pickled, which adds some bytes."""
    total, distance = x.copy(), 1
    while distance < comm.Get_size():
        partner = comm.Get_rank() ^ distance
        total, distance = total + comm.sendrecv(total, partner, source=partner), 2 * distance
    return total


def double_without_waiting(x, comm):
    """Right, but it goes away from what is still being sent."""
    total, distance = x.copy(), 1
    while distance < comm.Get_size():
        partner, theirs = comm.Get_rank() ^ distance, np.empty_like(x)
        comm.Isend(total, partner)
        comm.Recv(theirs, partner)
        total, distance = total + theirs, 2 * distance
    return total


def double_in_place(x, comm):
    """Right, but the caller's numbers are gone."""
    x[:] = double(x, comm)
    return x


def double_into_float64(x, comm):
    """Right as long as the numbers are float64."""
    total, theirs, distance = x.copy(), np.empty(len(x)), 1
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


def double_on_a_ring(x, comm):
    """Right sums, in as many steps: but whom a rank sends to is not who sends to it."""
    n, rank, total, distance = comm.Get_size(), comm.Get_rank(), x.copy(), 1
    while distance < n:
        theirs = np.empty_like(total)
        comm.Sendrecv(total, (rank + distance) % n, 0, theirs, (rank - distance) % n, 0)
        total, distance = total + theirs, 2 * distance
    return total


def double_from_afar(x, comm, distance=None):
    """Right in another way: the farthest partner first, by recursion."""
    distance = comm.Get_size() // 2 if distance is None else distance
    if distance == 0:
        return x.copy()
    theirs, partner = np.empty_like(x), comm.Get_rank() ^ distance
    comm.Sendrecv(x, partner, 0, theirs, partner, 0)
    return double_from_afar(x + theirs, comm, distance // 2)


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


def all_crossings(hosts):
    n = len(hosts)
    return sum(hosts[rank] != hosts[(rank + 1) % n] for rank in range(n)) / len(set(hosts))


def not_a_circle(hosts):
    leaving = Counter(one for one, other in pairwise(hosts) if one != other)
    return max(leaving.values(), default=1)


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


def chosen(K, alpha, beta):
    return "ring" if 14 * (alpha + K / 8 * beta) < 3 * (alpha + K * beta) else "recursive_doubling"


def parts_to_everybody(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    requests = [comm.isend(parts[rank], other) for other in range(n) if other != rank]
    for other in range(n):
        if other != rank:
            parts[other][:] = comm.irecv(bytearray(2_000_000), other).wait()
    for request in requests:
        request.wait()
    return work


def parts_by_scatter(work, comm):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    comm.Scatter(work.copy() if rank == 0 else None, parts[rank])
    for step in range(n - 1):
        here, there = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        comm.Sendrecv(here, (rank + 1) % n, 0, there, (rank - 1) % n, 0)
    return work


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
    "allgather": Case(
        right=allgather,
        wrong=[
            parts_to_everybody,
            *(own_part_each_time, everybody_to_everybody, nothing_moves, forgets_to_return),
            *(lambda work, comm: 1 / 0, "allgather", forgets_to_return_anywhere),
            *(whole_array_each_time, by_requests_that_are_forgotten),
            lambda work, comm: allgather(work, comm).tolist(),  # the next cells need an array
        ],
        hangs=[receive_first],
        also=[by_requests, the_other_way_round, into_a_new_array, allgather_by_pickles],
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
    "doubling": Case(
        right=double,
        also=[double_by_pickles, double_from_afar],
        wrong=[
            *(double_what_was_brought, only_neighbours, whole_ring, by_mpis_own),
            *(double_in_place, double_into_float64, double_without_waiting, double_on_a_ring),
        ],
    ),
    "halving_doubling": Case(right=halve_and_double, wrong=[halve_only, whole_ring, double]),
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
    "seating": Case(
        right=seats,
        wrong=[ranks_of_a_host, all_crossings, not_a_circle, lambda hosts: len(set(hosts))],
        also=[lambda hosts: np.int64(seats(hosts)), lambda hosts: float(seats(hosts))],
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
