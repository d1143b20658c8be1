"""Answers to the exercises of notebook 01."""

import math

import numpy as np

from tests.exercises.case import Case


def around(comm):
    """The neighbours on the ring: to the right, to the left."""
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def shift_by_request(value, comm, wait=True):
    right, left = around(comm)
    request = comm.isend(value, right)
    received = comm.recv(source=left)
    if wait:
        request.wait()
    return received


def shift_and_drop(value, comm):
    """The bytes go with the request, often before they are read."""
    right, left = around(comm)
    comm.isend(value, right)
    return comm.recv(source=left)


def shift_from_nobody(value, comm):
    """On rank 0 the left neighbour is rank -1, from which a receive returns at once."""
    request = comm.isend(value, around(comm)[0])
    received = comm.recv(source=comm.rank - 1)
    request.wait()
    return received


def shift_that_sends_first(value, comm):
    """Goes well as long as messages are small enough to be sent eagerly."""
    right, left = around(comm)
    comm.send(value, right)
    return comm.recv(source=left)


def shift_by_irecv(value, comm, room=None):
    """Without more ``room`` mpi4py's irecv has too little of it for the large array."""
    right, left = around(comm)
    request = comm.irecv(room, source=left)
    comm.send(value, right)
    return request.wait()


def shift_by_parity(value, comm):
    """Even ranks send first, odd ones receive first: on a ring of odd length too, a turn later."""
    right, left = around(comm)
    if comm.size == 1:
        return value
    if comm.rank % 2 == 0:
        comm.ssend(value, right)
        return comm.recv(source=left)
    received = comm.recv(source=left)
    comm.ssend(value, right)
    return received


def shift_by_issend(value, comm):
    right, left = around(comm)
    request = comm.issend(value, right, tag=comm.rank)
    received = comm.recv(source=left)
    while not request.test()[0]:
        pass
    return received


def one_by_one(value, comm, first=1):
    """With ``first`` 0 the root sends to itself too."""
    if comm.rank:
        return comm.recv(source=0)
    for peer in range(first, comm.size):
        comm.send(value, peer)
    return value


def as_a_tree(value, comm, begin="send"):
    me, distance = comm.rank, 1
    while distance < comm.size:
        if me < distance and me + distance < comm.size:
            getattr(comm, begin)(value, me + distance)
        elif distance <= me < 2 * distance:
            value = comm.recv(source=me - distance)
        distance *= 2
    return value


def as_a_tree_by_value(value, comm):
    """Takes whoever has a value for a rank that has rank 0's."""
    me, distance = comm.rank, 1
    while distance < comm.size:
        if value is not None and me + distance < comm.size:
            comm.send(value, me + distance)
        elif value is None and me < 2 * distance:
            value = comm.recv(source=me - distance)
        distance *= 2
    return value


def as_a_tree_of_own_values(value, comm):
    """A rank that has a value keeps it."""
    came = as_a_tree(value, comm)
    return came if value is None else value


def by_halves(value, comm):
    """The other tree: the farthest first, then each half for itself."""
    me, low, high = comm.rank, 0, comm.size
    while high - low > 1:
        middle = (low + high + 1) // 2
        if me == low:
            comm.send(value, middle)
        elif me == middle:
            value = comm.recv(source=low)
        low, high = (low, middle) if me < middle else (middle, high)
    return value


def to_two_children(value, comm):
    """Fast enough on four ranks, and not on seven."""
    if comm.rank:
        value = comm.recv(source=(comm.rank - 1) // 2)
    for child in (2 * comm.rank + 1, 2 * comm.rank + 2):
        if child < comm.size:
            comm.send(value, child)
    return value


def handed_over(value, comm, begin="send"):
    last = comm.size - 1
    if last == 0:
        return value
    if comm.rank == 0:
        getattr(comm, begin)(value, last)
    return comm.recv(source=0) if comm.rank == last else None


def handed_over_by_request(value, comm):
    """A single rank sends to itself."""
    last = comm.size - 1
    request = comm.isend(value, last) if comm.rank == 0 else None
    received = comm.recv() if comm.rank == last else None
    if request is not None:
        request.wait()
    return received


def to_one_too_far(value, comm):
    if comm.rank == 0:
        comm.send(value, comm.size)
    return comm.recv(source=0) if comm.rank == comm.size - 1 else None


def handed_over_if_true(value, comm):
    """Takes 0 for no value."""
    return value if comm.size == 1 else handed_over(value, comm) or None


def on_the_last(value, comm):
    return value if comm.rank == comm.size - 1 else None


def hands_over_and_everybody_listens(value, comm):
    if comm.rank:
        return comm.recv(source=0)
    comm.send(value, comm.size - 1)
    return value if comm.size == 1 else None


def rules(board, reach=1):
    near = range(-reach, reach + 1)
    around = sum(np.roll(board, (i, j), (0, 1)).astype(int) for i in near for j in near if i or j)
    return (around == 3) | (board & (around == 2))


def life(meet):
    """Make an answer of how a rank hears the rows above and below its own."""

    def answer(mine, steps, comm):
        for _ in range(steps):
            above, below = meet(mine, comm, *around(comm))
            mine = rules(np.vstack([above, mine, below]))[1:-1]
        return mine

    return answer


def by_rows(mine, comm, right, left):
    below = comm.sendrecv(mine[0], dest=left, source=right)
    return comm.sendrecv(mine[-1], dest=right, source=left), below


def without_ends(mine, comm, right, left):
    """The first row of the first rank has no neighbour above."""
    above, below = by_rows(mine, comm, right, left)
    return above if comm.rank else np.zeros_like(above), below


def by_requests(mine, comm, right, left):
    requests = [comm.isend(mine[0], left, tag=0), comm.isend(mine[-1], right, tag=1)]
    below, above = comm.recv(source=right, tag=0), comm.recv(source=left, tag=1)
    for request in requests:
        request.wait()
    return above, below


def by_blocks(mine, comm, right, left):
    """Sends all of a rank's rows where the first or the last one is enough."""
    below = comm.sendrecv(mine, dest=left, source=right)[0]
    return comm.sendrecv(mine, dest=right, source=left)[-1], below


def by_a_block_and_a_row(mine, comm, right, left):
    below = comm.sendrecv(mine[0], dest=left, source=right)
    return comm.sendrecv(mine, dest=right, source=left)[-1], below


def sending_first(mine, comm, right, left):
    """Right for short rows, which are sent eagerly."""
    comm.send(mine[0], left)
    comm.send(mine[-1], right)
    below = comm.recv(source=right)
    return comm.recv(source=left), below


def life_of_everybody(mine, steps, comm):
    """Right, but every rank gathers the board and computes all of it."""
    board = np.vstack(comm.allgather(mine))
    for _ in range(steps):
        board = rules(board)
    return np.array_split(board, comm.size)[comm.rank]


def sums(value, comm, row=lambda me, n: me // 2, column=lambda me, n: me % 2):
    me, n = comm.rank, comm.size
    along, down = comm.Split(row(me, n), me), comm.Split(column(me, n), me)
    return along.allreduce(value), down.allreduce(value)


def sums_on_a_grid_of_mpi(value, comm):
    grid = comm.Create_cart((comm.size // 2, 2))
    return grid.Sub((False, True)).allreduce(value), grid.Sub((True, False)).allreduce(value)


def sums_of_gathered_values(value, comm):
    """Right without a group: everybody hears everything."""
    me, everything = comm.rank, comm.allgather(value)
    row = me - me % 2
    return sum(everything[row : row + 2]), sum(everything[me % 2 :: 2])


def fewest(speed_up, serial):
    if serial and speed_up >= 1 / serial * (1 - 1e-9):
        return math.inf
    return math.ceil((1 - serial) / (1 / speed_up - serial) - 1e-9)


def not_before_rounding(speed_up, serial):
    """Right but for the last bit: 50 ranks for 49 times as fast without a serial part."""
    rest = 1 / speed_up - serial
    return math.ceil((1 - serial) / rest) if rest > 1e-9 else math.inf


def not_rounded(speed_up, serial):
    rest = 1 / speed_up - serial
    return (1 - serial) / rest if rest > 1e-9 else math.inf


def rounded_down(speed_up, serial):
    ranks = not_rounded(speed_up, serial)
    return ranks if math.isinf(ranks) else math.floor(ranks)


CASES = {
    "statements": Case(
        right="ACE",
        wrong=[3],
        told={"1 of your 5 judgements is not right": "ABCE"},
        also=["A, C and E", {"E", "C", "A"}],
    ),
    "shift": Case(
        right=shift_by_request,
        also=[
            lambda value, comm: shift_by_irecv(value, comm, bytearray(1 << 23)),
            shift_by_issend,
        ],
        wrong=[
            lambda value, comm: comm.sendrecv(value, around(comm)[1], source=around(comm)[0]),
            lambda value, comm: comm.sendrecv(value, around(comm)[0], source=around(comm)[1]),
            lambda value, comm: comm.allgather(value)[comm.rank - 1],
            lambda value, comm: shift_by_request(value, comm, wait=False),
            shift_by_parity,
        ],
        hangs=[
            shift_that_sends_first,
            lambda value, comm: comm.sendrecv(value, comm.rank + 1, source=comm.rank - 1),
        ],
        told={
            "it raised MPI's error: Message truncated. If you use irecv": shift_by_irecv,
            "right, but rank 0 of 4 begins a message and does not wait for": shift_and_drop,
            "a message to rank 0 was sent but never received; it received from": shift_from_nobody,
        },
    ),
    "tree_broadcast": Case(
        right=as_a_tree,
        wrong=[
            lambda value, comm: [None, as_a_tree(value, comm)][comm.rank > 0],
            lambda value, comm: one_by_one(value, comm, first=0),
            *(lambda value, comm: comm.bcast(value), to_two_children),
            lambda value, comm: as_a_tree(value, comm, begin="isend"),
        ],
        told={
            "right, but on 4 ranks it takes 3 steps": one_by_one,
            "on 4 ranks, rank r's value is r: a message to rank 1": as_a_tree_by_value,
            "that of rank 1 is 1; what rank 1 returned: 1 is not right": as_a_tree_of_own_values,
        },
        also=[by_halves],
    ),
    "hand_over": Case(
        right=handed_over,
        wrong=[
            *(on_the_last, lambda value, comm: handed_over(value, comm) or value),
            lambda value, comm: on_the_last(as_a_tree(value, comm), comm),
            lambda value, comm: handed_over(value, comm, begin="isend"),
        ],
        hangs=[hands_over_and_everybody_listens],
        told={
            "on rank 0 it raised MPI's error: Invalid rank": to_one_too_far,
            "the value 0: what rank 3 of 4 returned: None is not right": handed_over_if_true,
        },
        also=[handed_over_by_request],
    ),
    "life": Case(
        right=life(by_rows),
        also=[life(by_requests)],
        wrong=[
            life(without_ends),
            life(lambda *given: by_rows(*given)[::-1]),  # nobody notices on one rank
            lambda mine, steps, comm: mine,
        ],
        told={
            "right, but by allgather: send each neighbour only": life_of_everybody,
            "in 2 steps, and neighbours need less than 17,024 B": life(by_blocks),
            "right, but by sendrecv: rank 0 of 2 sends": life(by_a_block_and_a_row),
        },
        hangs=[life(sending_first)],
    ),
    "grid_sums": Case(
        right=sums,
        also=[sums_of_gathered_values, sums_on_a_grid_of_mpi],
        wrong=[
            lambda value, comm: sums(value, comm)[::-1],
            lambda value, comm: {*sums(value, comm)},
            lambda value, comm: (sums(value, comm)[0],) * 2,
            # right with two rows; with three, the second row is taken for the rest
            lambda value, comm: sums(value, comm, row=lambda me, n: me < 2),
            # as many columns as make two rows
            lambda value, comm: sums(
                value, comm, lambda me, n: me // (n // 2), lambda me, n: me % (n // 2)
            ),
        ],
    ),
    "ranks_for": Case(
        right=fewest,
        also=[lambda s, f: float(fewest(s, f)), not_before_rounding],
        wrong=[
            *(not_rounded, rounded_down),
            lambda s, f: None if fewest(s, f) == math.inf else fewest(s, f),
        ],
    ),
}
