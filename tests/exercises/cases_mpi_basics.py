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


def shift_by_irecv_with_room(value, comm):
    n, me = comm.Get_size(), comm.Get_rank()
    request = comm.irecv(bytearray(1 << 23), source=(me - 1) % n)
    comm.send(value, (me + 1) % n)
    return request.wait()


def shift_to_itself(value, comm):
    return value


def broadcast_from(value, root, comm):
    if comm.Get_rank() == root:
        for peer in range(comm.Get_size()):
            if peer != root:
                comm.send(value, peer)
        return value
    return comm.recv(source=root)


def broadcast_from_rank_0(value, root, comm):
    if comm.Get_rank() == 0:
        for peer in range(1, comm.Get_size()):
            comm.send(value, peer)
        return value
    return comm.recv(source=0)


def broadcast_that_forgets_the_root(value, root, comm):
    if comm.Get_rank() == root:
        for peer in range(comm.Get_size()):
            if peer != root:
                comm.send(value, peer)
        return None
    return comm.recv(source=root)


def broadcast_to_itself_too(value, root, comm):
    if comm.Get_rank() == root:
        for peer in range(comm.Get_size()):
            comm.send(value, peer)
        return value
    return comm.recv(source=root)


def broadcast_by_mpi(value, root, comm):
    return comm.bcast(value, root)


def broadcast_as_a_tree(value, root, comm):
    n = comm.Get_size()
    place, distance = (comm.Get_rank() - root) % n, 1
    while distance < n:
        if place < distance and place + distance < n:
            comm.send(value, (root + place + distance) % n)
        elif distance <= place < 2 * distance:
            value = comm.recv(source=(root + place - distance) % n)
        distance *= 2
    return value


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


def once_a_text(text):
    for word in set(text.split()):
        yield word, 1


def every_word(text):
    for word in text.split():
        yield word, 1


def every_word_with_its_text(text):
    """Wrong where two texts are alike."""
    return [(word, text) for word in text.split()]


def add(word, ones):
    return sum(ones)


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


CASES = {
    "statements": Case(
        right="ACE", wrong=["A", "ABCE", "abcde", "BD", "yes", " ", 3], also=["a, c, e"]
    ),
    "shift": Case(
        right=shift_by_request,
        also=[shift_by_irecv_with_room, shift_by_parity],
        wrong=[
            *(shift_the_wrong_way, shift_that_sends_first, shift_without_a_ring),
            *(shift_to_itself, "left", shift_by_irecv, shift_by_sendrecv),
            *(shift_that_does_not_wait, shift_by_the_worlds_rank, shift_that_ends_the_rank),
            shift_without_end,
        ],
    ),
    "broadcast": Case(
        right=broadcast_from,
        wrong=[
            *(broadcast_from_rank_0, broadcast_that_forgets_the_root, broadcast_to_itself_too),
            broadcast_by_mpi,
        ],
        also=[broadcast_as_a_tree],
    ),
    "grid_sums": Case(right=sums, wrong=[sums_swapped, sums_over_everything, sum_of_the_row_only]),
    "document_frequency": Case(
        right=(once_a_text, add),
        wrong=[
            (every_word, add),
            (lambda text: once_a_text(text.lower()), add),
            (once_a_text, lambda word, ones: max(ones)),
            (every_word_with_its_text, lambda word, texts: len(set(texts))),
            (lambda text: [text], add),
            (lambda text: [(text, 1)], add),
        ],
    ),
    "ranks_for": Case(
        right=fewest, wrong=[without_a_limit, not_rounded, rounded_down, lambda s, f: s]
    ),
    "half_size": Case(
        right=lambda alpha, beta: alpha / beta,
        wrong=[lambda alpha, beta: beta / alpha, lambda alpha, beta: 2 * alpha / beta],
    ),
}
