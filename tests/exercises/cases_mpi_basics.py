"""Answers to the exercises of notebook 01."""

import math

from tests.exercises.case import Case


def shift_by_request(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    request = comm.isend(value, (me + 1) % n)
    received = comm.recv(source=(me - 1) % n)
    request.wait()
    return received


def shift_the_wrong_way(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    return comm.sendrecv(value, (me - 1) % n, source=(me + 1) % n)


def shift_that_sends_first(value, comm):
    """Goes well as long as messages are small enough to be sent eagerly."""
    n, me = comm.Get_size(), comm.Get_rank()
    comm.send(value, (me + 1) % n)
    return comm.recv(source=(me - 1) % n)


def shift_without_a_ring(value, comm):
    me = comm.Get_rank()
    return comm.sendrecv(value, me + 1, source=me - 1)


def shift_by_irecv(value, comm):
    """Right, but mpi4py's irecv has too little room for the large array."""
    n, me = comm.Get_size(), comm.Get_rank()
    request = comm.irecv(source=(me - 1) % n)
    comm.send(value, (me + 1) % n)
    return request.wait()


def shift_by_sendrecv(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    return comm.sendrecv(value, (me + 1) % n, source=(me - 1) % n)


def shift_that_does_not_wait(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    comm.isend(value, (me + 1) % n)
    return comm.recv(source=(me - 1) % n)


def shift_by_the_worlds_rank(value, comm):
    request = comm.isend(value, (rank + 1) % comm.Get_size())  # noqa: F821
    received = comm.recv(source=(rank - 1) % comm.Get_size())  # noqa: F821
    request.wait()
    return received


def shift_that_ends_the_rank(value, comm):
    import os

    os._exit(3)


def shift_without_end(value, comm):
    while comm.Get_rank() == 0:
        pass
    return shift_by_request(value, comm)


def shift_by_parity(value, comm):
    """Even ranks send first, odd ones receive first: on a ring of odd length too, a turn later."""
    n, me = comm.Get_size(), comm.Get_rank()
    if n == 1:
        return value
    if me % 2 == 0:
        comm.ssend(value, (me + 1) % n)
        return comm.recv(source=(me - 1) % n)
    received = comm.recv(source=(me - 1) % n)
    comm.ssend(value, (me + 1) % n)
    return received


def shift_as_a_chain(value, comm):
    """No request: rank 0 waits for all others."""
    n, me = comm.Get_size(), comm.Get_rank()
    if n == 1:
        return value
    if me == 0:
        comm.send(value, 1)
        return comm.recv(source=n - 1)
    received = comm.recv(source=me - 1)
    comm.send(value, (me + 1) % n)
    return received


def shift_by_issend(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    request = comm.issend(value, (me + 1) % n, tag=me)
    received = comm.recv(source=(me - 1) % n)
    while not request.test()[0]:
        pass
    return received


def shift_by_irecv_with_room(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    request = comm.irecv(bytearray(1 << 23), source=(me - 1) % n)
    comm.send(value, (me + 1) % n)
    return request.wait()


def shift_to_itself(value, comm):
    return value


def broadcast_one_by_one(value, comm):
    if comm.Get_rank() == 0:
        for peer in range(1, comm.Get_size()):
            comm.send(value, peer)
        return value
    return comm.recv(source=0)


def broadcast_as_a_chain(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    if me > 0:
        value = comm.recv(source=me - 1)
    if me < n - 1:
        comm.send(value, me + 1)
    return value


def broadcast_that_forgets_the_root(value, comm):
    value = broadcast_as_a_tree(value, comm)
    return value if comm.Get_rank() else None


def broadcast_to_itself_too(value, comm):
    if comm.Get_rank() == 0:
        for peer in range(comm.Get_size()):
            comm.send(value, peer)
        return value
    return comm.recv(source=0)


def broadcast_by_mpi(value, comm):
    return comm.bcast(value)


def broadcast_as_a_tree(value, comm):
    n, me, distance = comm.Get_size(), comm.Get_rank(), 1
    while distance < n:
        if me < distance and me + distance < n:
            comm.send(value, me + distance)
        elif distance <= me < 2 * distance:
            value = comm.recv(source=me - distance)
        distance *= 2
    return value


def broadcast_by_halves(value, comm):
    """The other tree: the farthest first, then each half for itself."""
    me, low, high = comm.Get_rank(), 0, comm.Get_size()
    while high - low > 1:
        middle = (low + high + 1) // 2
        if me == low:
            comm.send(value, middle)
        elif me == middle:
            value = comm.recv(source=low)
        low, high = (low, middle) if me < middle else (middle, high)
    return value


def broadcast_to_two_children(value, comm):
    """Fast enough on four ranks, and not on seven."""
    n, me = comm.Get_size(), comm.Get_rank()
    if me:
        value = comm.recv(source=(me - 1) // 2)
    for child in (2 * me + 1, 2 * me + 2):
        if child < n:
            comm.send(value, child)
    return value


def broadcast_that_does_not_wait(value, comm):
    n, me, distance = comm.Get_size(), comm.Get_rank(), 1
    while distance < n:
        if me < distance and me + distance < n:
            comm.isend(value, me + distance)
        elif distance <= me < 2 * distance:
            value = comm.recv(source=me - distance)
        distance *= 2
    return value


def broadcast_from_whoever_has_it(value, comm):
    """The same tree, read by the ranks: receive once, then pass on."""
    me, distance = comm.Get_rank(), 1
    if me:
        value = comm.recv()
    while distance <= me:
        distance *= 2
    while me + distance < comm.Get_size():
        comm.send(value, me + distance)
        distance *= 2
    return value


def handed_over(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    if n == 1:
        return value
    if me == 0:
        comm.send(value, dest=n - 1)
    if me == n - 1:
        return comm.recv(source=0)
    return None


def handed_over_by_request(value, comm):
    """A single rank sends to itself."""
    last = comm.size - 1
    request = comm.isend(value, last) if comm.rank == 0 else None
    received = comm.recv() if comm.rank == last else None
    if request is not None:
        request.wait()
    return received


def hands_over_without_waiting(value, comm):
    last = comm.Get_size() - 1
    if last == 0:
        return value
    if comm.Get_rank() == 0:
        comm.isend(value, last)
    return comm.recv(source=0) if comm.Get_rank() == last else None


def hands_over_from_rank_to_rank(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    if me > 0:
        value = comm.recv(source=me - 1)
    if me < n - 1:
        comm.send(value, me + 1)
    return value if me == n - 1 else None


def hands_over_and_everybody_listens(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    if me == 0:
        comm.send(value, n - 1)
        return value if n == 1 else None
    return comm.recv(source=0)


def hands_its_own(value, comm):
    return value if comm.Get_rank() == comm.Get_size() - 1 else None


def hands_over_to_rank_3(value, comm):
    if comm.Get_rank() == 0:
        comm.send(value, dest=3)
    return comm.recv(source=0) if comm.Get_rank() == 3 else None


def hands_over_and_keeps(value, comm):
    return handed_over(value, comm) or value


def hands_over_by_a_collective(value, comm):
    value = comm.bcast(value)
    return value if comm.Get_rank() == comm.Get_size() - 1 else None


def whoever_asks(tasks, comm):
    results, status, left = {}, MPI.Status(), list(tasks)  # noqa: F821 - known on the ranks
    for _ in range(len(tasks) + comm.Get_size() - 1):
        done = comm.recv(source=MPI.ANY_SOURCE, status=status)  # noqa: F821
        if done is not None:
            results[done[0]] = done[1]
        comm.send(left.pop(0) if left else None, dest=status.Get_source())
    return results


def whoever_asks_of_three(tasks, comm):
    """Right for the notebook's four ranks only."""
    results, status, left, at_home = {}, MPI.Status(), list(tasks), 0  # noqa: F821
    while at_home < 3:
        done = comm.recv(source=MPI.ANY_SOURCE, status=status)  # noqa: F821
        if done is not None:
            results[done[0]] = done[1]
        at_home += not left
        comm.send(left.pop(0) if left else None, dest=status.Get_source())
    return results


def in_turns(tasks, comm):
    results, left, working = {}, list(tasks), list(range(1, comm.Get_size()))
    while working:
        for worker in list(working):
            done = comm.recv(source=worker)
            if done is not None:
                results[done[0]] = done[1]
            task = left.pop(0) if left else None
            comm.send(task, dest=worker)
            if task is None:
                working.remove(worker)
    return results


def forgets_the_last_results(tasks, comm):
    results, status, left = {}, MPI.Status(), list(tasks)  # noqa: F821
    while left:
        done = comm.recv(source=MPI.ANY_SOURCE, status=status)  # noqa: F821
        if done is not None:
            results[done[0]] = done[1]
        comm.send(left.pop(0), dest=status.Get_source())
    return results


def all_to_the_first(tasks, comm):
    results = {}
    for task in tasks:
        done = comm.recv(source=1)
        if done is not None:
            results[done[0]] = done[1]
        comm.send(task, dest=1)
    if tasks:
        task, result = comm.recv(source=1)
        results[task] = result
    for worker in range(1, comm.Get_size()):
        if worker > 1 or not tasks:
            comm.recv(source=worker)
        comm.send(None, dest=worker)
    return results


def _rules(board, np):
    around = sum(
        np.roll(board, (i, j), (0, 1)).astype(int) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j
    )
    return (around == 3) | (board & (around == 2))


def life_by_rows(board, steps, comm):
    import numpy as np

    n, me = comm.Get_size(), comm.Get_rank()
    mine = np.array_split(board, n)[me]
    for _ in range(steps):
        below = comm.sendrecv(mine[0], dest=(me - 1) % n, source=(me + 1) % n)
        above = comm.sendrecv(mine[-1], dest=(me + 1) % n, source=(me - 1) % n)
        mine = _rules(np.vstack([above, mine, below]), np)[1:-1]
    return mine


def life_without_corners(board, steps, comm):
    """Forgets that the first row of the first rank has a neighbour above."""
    import numpy as np

    n, me = comm.Get_size(), comm.Get_rank()
    mine = np.array_split(board, n)[me]
    for _ in range(steps):
        below = comm.sendrecv(mine[0], dest=(me - 1) % n, source=(me + 1) % n)
        above = comm.sendrecv(mine[-1], dest=(me + 1) % n, source=(me - 1) % n)
        above = np.zeros_like(above) if me == 0 else above
        mine = _rules(np.vstack([above, mine, below]), np)[1:-1]
    return mine


def life_with_the_sides_swapped(board, steps, comm):
    import numpy as np

    n, me = comm.Get_size(), comm.Get_rank()
    mine = np.array_split(board, n)[me]
    for _ in range(steps):
        below = comm.sendrecv(mine[0], dest=(me - 1) % n, source=(me + 1) % n)
        above = comm.sendrecv(mine[-1], dest=(me + 1) % n, source=(me - 1) % n)
        mine = _rules(np.vstack([below, mine, above]), np)[1:-1]
    return mine


def life_on_every_rank(board, steps, comm):
    """No message at all: everybody computes everything."""
    import numpy as np

    for _ in range(steps):
        board = _rules(board, np)
    return np.array_split(board, comm.Get_size())[comm.Get_rank()]


def life_by_allgather(board, steps, comm):
    import numpy as np

    n, me = comm.Get_size(), comm.Get_rank()
    for _ in range(steps):
        board = np.vstack(comm.allgather(np.array_split(_rules(board, np), n)[me]))
    return np.array_split(board, n)[me]


def sums(value, comm):
    me = comm.Get_rank()
    row, column = comm.Split(me // 2, me), comm.Split(me % 2, me)
    return row.allreduce(value), column.allreduce(value)


def sums_swapped(value, comm):
    return sums(value, comm)[::-1]


def sums_over_everything(value, comm):
    return comm.allreduce(value), comm.allreduce(value)


def sum_of_the_row_only(value, comm):
    return sums(value, comm)[0]


def sums_for_four_ranks(value, comm):
    """Right with two rows; with three, the second row is taken for the rest."""
    me = comm.Get_rank()
    row, column = comm.Split(me < 2, me), comm.Split(me % 2, me)
    return row.allreduce(value), column.allreduce(value)


def sums_in_two_rows(value, comm):
    """As many columns as make two rows: right for four ranks."""
    me, columns = comm.Get_rank(), comm.Get_size() // 2
    row, column = comm.Split(me // columns, me), comm.Split(me % columns, me)
    return row.allreduce(value), column.allreduce(value)


def sums_on_a_grid_of_mpi(value, comm):
    grid = comm.Create_cart((comm.size // 2, 2))
    return grid.Sub((False, True)).allreduce(value), grid.Sub((True, False)).allreduce(value)


def sums_in_an_array(value, comm):
    import numpy as np

    return np.array(sums(value, comm))


def sums_of_gathered_values(value, comm):
    """Right without a group: everybody hears everything."""
    me, everything = comm.Get_rank(), comm.allgather(value)
    row = me - me % 2
    return sum(everything[row : row + 2]), sum(everything[me % 2 :: 2])


def fewest(speed_up, serial):
    if serial and speed_up >= 1 / serial * (1 - 1e-9):
        return math.inf
    return math.ceil((1 - serial) / (1 / speed_up - serial) - 1e-9)


def without_a_limit(speed_up, serial):
    return math.ceil(speed_up / (1 - serial))


def not_rounded(speed_up, serial):
    rest = 1 / speed_up - serial
    return (1 - serial) / rest if rest > 1e-9 else math.inf


def rounded_down(speed_up, serial):
    ranks = not_rounded(speed_up, serial)
    return ranks if math.isinf(ranks) else math.floor(ranks)


def through_by_a_system(small, large):
    import numpy as np

    (x, s), (y, t) = small, large
    return np.linalg.solve([[1.0, x], [1.0, y]], [s, t])


CASES = {
    "statements": Case(
        right="ACE",
        wrong=["A", "ABCE", "abcde", "BD", "yes", " ", 3, {"A": 1, "C": 2, "E": 3}],
        also=["a, c, e", "A, C and E", "A.\nC.\nE.", ["A", "C", "E"], {"E", "C", "A"}],
    ),
    "shift": Case(
        right=shift_by_request,
        also=[shift_by_irecv_with_room, shift_by_issend],
        wrong=[
            *(shift_the_wrong_way, shift_to_itself, "left", shift_by_irecv, shift_by_sendrecv),
            lambda value, comm: comm.allgather(value)[comm.Get_rank() - 1],
            *(shift_that_does_not_wait, shift_by_the_worlds_rank, shift_that_ends_the_rank),
            *(shift_by_parity, shift_as_a_chain),  # without requests
        ],
        hangs=[shift_that_sends_first, shift_without_a_ring, shift_without_end],
    ),
    "tree_broadcast": Case(
        right=broadcast_as_a_tree,
        wrong=[
            *(broadcast_one_by_one, broadcast_as_a_chain, broadcast_that_forgets_the_root),
            *(broadcast_to_itself_too, broadcast_by_mpi, broadcast_to_two_children),
            broadcast_that_does_not_wait,
        ],
        also=[broadcast_by_halves, broadcast_from_whoever_has_it],
    ),
    "hand_over": Case(
        right=handed_over,
        wrong=[
            *(hands_its_own, hands_over_and_keeps, hands_over_from_rank_to_rank),
            *(hands_over_by_a_collective, hands_over_without_waiting),
        ],
        hangs=[hands_over_to_rank_3, hands_over_and_everybody_listens],
        also=[handed_over_by_request],
    ),
    "hand_out": Case(
        right=whoever_asks,
        wrong=[in_turns, forgets_the_last_results, all_to_the_first],
        hangs=[whoever_asks_of_three],
    ),
    "life": Case(
        right=life_by_rows,
        wrong=[
            *(life_without_corners, life_with_the_sides_swapped, life_on_every_rank),
            life_by_allgather,
        ],
    ),
    "grid_sums": Case(
        right=sums,
        also=[sums_of_gathered_values, sums_in_an_array, sums_on_a_grid_of_mpi],
        wrong=[
            *(sums_swapped, sums_over_everything, sum_of_the_row_only),
            lambda value, comm: {*sums(value, comm)},
            *(sums_for_four_ranks, sums_in_two_rows),
        ],
    ),
    "ranks_for": Case(
        right=fewest,
        also=[lambda s, f: float(fewest(s, f))],
        wrong=[
            *(without_a_limit, not_rounded, rounded_down, lambda s, f: s),
            lambda s, f: None if fewest(s, f) == math.inf else fewest(s, f),
        ],
    ),
    "through": Case(
        also=[through_by_a_system, lambda *pair: iter(through_by_a_system(*pair))],
        right=lambda a, b: (
            a[1] - a[0] * (b[1] - a[1]) / (b[0] - a[0]),
            (b[1] - a[1]) / (b[0] - a[0]),
        ),
        wrong=[
            lambda a, b: (a[1], (b[1] - a[1]) / (b[0] - a[0])),
            lambda a, b: ((b[1] - a[1]) / (b[0] - a[0]), a[1]),
            lambda a, b: (a[1], b[1] / b[0]),
            lambda a, b: a[1],
        ],
    ),
}
