"""The collectives as a caller sees them: arguments checked, any array taken, ``out=`` honoured.

All ranks of ``comm`` must make the same call, with arrays of one dtype. Arrays may be
non-contiguous, of any size (0 included), on any number of ranks; lists and scalars are taken too.
Bad arguments raise TypeError or ValueError before the first message. Messages travel on ``comm``
itself with tags from ``parts.TAG`` on: if you keep receives from any source or with any tag open on
it, pass ``comm.Dup()``.
"""

from __future__ import annotations

import numpy as np

from helpers.collectives import arguments as check
from helpers.collectives import chain, doubling, ring, rooted, tree
from helpers.collectives.parts import TAG, lengths
from helpers.collectives.reduction import Reduction

ALGORITHMS = {
    "chain": chain.allreduce,
    "tree": tree.allreduce,
    "recursive_doubling": doubling.allreduce,
    "ring": ring.allreduce,
}
FAMILIES = {"chain": chain, "tree": tree}


def allreduce(array, comm, op=None, algorithm: str = "ring", out=None, pieces: int | None = None):
    """Return the element-wise reduction over all ranks of ``array``: the same bits on every rank.

    ``op`` is an ``MPI.Op`` (None: the sum), ``algorithm`` one of :data:`ALGORITHMS`; ``out=array``
    reduces in place. ``pieces`` cuts the message (for the ring: each N-th of it) into that many
    messages; None is one, or for the ring as many as keep each below ``ring.SEGMENT`` bytes.

    An ``op`` that does not commute is refused by the ring, which adds up in another order on every
    rank; the other three keep the order of ranks.
    """
    run = check.choose(algorithm, ALGORITHMS, "allreduce")
    check.check_communicator(comm)
    array = np.asarray(array)
    combine = Reduction(op, array.dtype)
    if algorithm == "ring":
        check.must_commute(combine, op, "the ring", "'chain', 'tree' and 'recursive_doubling'")
    result = check.fitting(out, array.shape, array.dtype)
    work = check.workspace(array, result)
    default = ring.pieces_of(work, comm.Get_size()) if algorithm == "ring" else 1
    with combine, check.explained(array):
        run(work, comm, combine, check.check_pieces(pieces, default))
    return check.deliver(work, result)


def reduce(array, comm, op=None, root=0, algorithm="tree", out=None, pieces: int | None = None):
    """Return the reduction over all ranks of ``array`` on ``root``, and None on the others.

    ``algorithm`` is "tree" or "chain". An ``op`` that does not commute keeps the order of ranks:
    the result forms on the tree's rank 0 or the chain's last rank and goes on to ``root`` from it.
    """
    family = check.choose(algorithm, FAMILIES, "reduce")
    root = check.check_communicator(comm, root)
    rank, last = comm.Get_rank(), comm.Get_size() - 1
    array = np.asarray(array)
    combine = Reduction(op, array.dtype)
    result = check.fitting(out if rank == root else None, array.shape, array.dtype)
    work = check.workspace(array, result)
    end = root if combine.commutes else {"tree": 0, "chain": last}[algorithm]
    with combine, check.explained(array):
        family.reduce(work, comm, combine, end, check.check_pieces(pieces, 1))
        if rank == end != root:
            comm.Send(work, root, TAG)
        elif rank == root != end:
            comm.Recv(work, end, TAG)
    return check.deliver(work, result) if rank == root else None


def broadcast(array, comm, root=0, algorithm="tree", pieces: int | None = None):
    """Fill ``array`` on every rank with the values it has on ``root``, and return it.

    As in ``MPI_Bcast``, every rank passes an array of the same shape and dtype, to be overwritten.
    ``algorithm`` is "tree" or "chain"; ``pieces`` messages follow one another along it.
    """
    family = check.choose(algorithm, FAMILIES, "broadcast")
    root = check.check_communicator(comm, root)
    receives = comm.Get_rank() != root
    check.must_be_array("array", array, writeable=receives)
    work = check.rows(np.ascontiguousarray(array).reshape(-1))
    with check.explained(array):
        family.broadcast(work, comm, root, check.check_pieces(pieces, 1))
    return check.deliver(work, array) if receives else array


def scatter(array, comm, root=0, counts=None, out=None):
    """Return this rank's part of the root's ``array``, cut along its first axis.

    ``counts`` (N lengths, on the root) says how long the parts are; None: as equal as possible.
    Only the root knows the shape: the others pass ``array=None`` and an ``out`` to be filled.
    """
    root = check.check_communicator(comm, root)
    n, rank = comm.Get_size(), comm.Get_rank()
    if rank == root:
        array = check.with_axis(array)
        parts = check.cut(len(array), n, counts)
        out = check.fitting(out, (lengths(parts)[root], *array.shape[1:]), array.dtype)
        whole = check.rows(np.ascontiguousarray(array))
    elif out is None:
        raise ValueError(
            f"scatter needs out= on rank {rank}, an array for its part: only rank {root}, the "
            "root, knows how long that is"
        )
    else:
        check.must_be_array("out", out)
        parts, whole = [], None
    part = check.rows(np.empty(np.atleast_1d(out).shape, out.dtype))
    with check.explained(out):
        rooted.scatter(whole, part, comm, root, parts)
    return check.deliver(part, out)


def gather(array, comm, root=0, counts=None, out=None):
    """Return all ranks' arrays laid end to end along the first axis on ``root``, None elsewhere.

    ``counts`` (N lengths, on the root) says how long they are; None: all as long as the root's own.
    """
    root = check.check_communicator(comm, root)
    array = check.with_axis(array)
    part = check.rows(np.ascontiguousarray(array))
    if comm.Get_rank() != root:
        rooted.gather(part, None, comm, root, [])
        return None
    parts, shape = check.assembled(array, comm.Get_size(), root, counts)
    result = check.fitting(out, shape, array.dtype)
    work = check.rows(np.empty(shape, array.dtype))
    with check.explained(array):
        rooted.gather(part, work, comm, root, parts)
    return check.deliver(work, result)


def allgather(array, comm, counts=None, out=None):
    """Return all ranks' arrays laid end to end along the first axis, on every rank (by a ring).

    ``counts`` (N lengths, the same on all ranks) says how long they are; None: all equally long.
    """
    check.check_communicator(comm)
    n, rank = comm.Get_size(), comm.Get_rank()
    array = check.with_axis(array)
    parts, shape = check.assembled(array, n, rank, counts)
    result = check.fitting(out, shape, array.dtype)
    work = check.rows(np.empty(shape, array.dtype))
    work[parts[rank]] = check.rows(np.ascontiguousarray(array))
    with check.explained(array):
        ring.allgather(work, comm, parts)
    return check.deliver(work, result)


def reduce_scatter(array, comm, op=None, counts=None, out=None):
    """Return this rank's part, cut along the first axis, of the reduction of ``array`` (by a ring).

    ``counts`` (N lengths, the same on all ranks) says how long the parts are; None: as equal as
    possible. ``op`` must commute.
    """
    check.check_communicator(comm)
    n, rank = comm.Get_size(), comm.Get_rank()
    array = check.with_axis(array)
    combine = Reduction(op, array.dtype)
    check.must_commute(combine, op, "reduce_scatter", "reduce and then scatter")
    parts = check.cut(len(array), n, counts)
    result = check.fitting(out, (lengths(parts)[rank], *array.shape[1:]), array.dtype)
    work = check.rows(np.array(array, order="C"))
    with combine, check.explained(array):
        ring.reduce_scatter(work, comm, combine, parts)
    return check.deliver(work[parts[rank]], result)
