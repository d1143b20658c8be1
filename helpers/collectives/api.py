"""The collectives as a caller sees them: arguments checked, any array taken, ``out=`` honoured.

All ranks of ``comm`` must make the same call, with arrays of one dtype. Arrays may be
non-contiguous, of any size (0 included), on any number of ranks; lists and scalars are taken too.
What is wrong on one rank, or differs between ranks, raises TypeError or ValueError on all of them.
To find out takes one allreduce of a few numbers (:mod:`.agreement`);
:meth:`.registry.Allreduce.in_place` does without. Messages travel on ``comm`` itself with tags from
``parts.FIRST_TAG`` on: if you keep receives from any source or with any tag open on it, pass
``comm.Dup()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from helpers.collectives import arguments as check
from helpers.collectives import chain, ring, rooted, tree
from helpers.collectives.agreement import same_call
from helpers.collectives.combiner import Combiner
from helpers.collectives.hosts import Hosts
from helpers.collectives.parts import FIRST_TAG, lengths, split
from helpers.collectives.registry import ALGORITHMS

if TYPE_CHECKING:
    from mpi4py import MPI

FAMILIES = {"chain": chain, "tree": tree}


def allreduce(
    array: npt.ArrayLike,
    comm: MPI.Intracomm,
    op: MPI.Op | None = None,
    algorithm: str = "ring",
    out: np.ndarray | None = None,
    pieces: int | None = None,
    hosts: Hosts | None = None,
) -> np.ndarray:
    """Reduce arrays of one shape, element by element, over all ranks.

    Parameters
    ----------
    array : array_like
        This rank's contribution: any shape, the same on every rank.
    op : mpi4py.MPI.Op, optional
        The operation; None: the sum. One that does not commute is refused by the ring, which adds
        up in another order on every rank; the other three keep the order of ranks.
    algorithm : str
        One of :data:`helpers.collectives.ALGORITHMS`.
    out : numpy.ndarray, optional
        Where the result goes; ``out=array`` reduces in place. None: into a new array.
    pieces : int, optional
        Into how many messages the array (for the ring: each N-th of it) is cut; None: one, or for
        the ring as many as keep each below ``ring.SEGMENT`` bytes.
    hosts : tuple of int, optional
        The host of every rank, for an algorithm that tells hosts apart; None asks MPI.

    Returns
    -------
    numpy.ndarray
        The result, of the same shape and dtype; the same bits on every rank.

    Raises
    ------
    TypeError, ValueError
        On every rank, for bad arguments and for calls that differ between ranks.
    """
    n = check.check_communicator(comm)
    with same_call("allreduce", comm) as passes:
        chosen = check.choose(algorithm, ALGORITHMS, "allreduce")
        array = check.as_array(array)
        combine = Combiner(op, array.dtype)
        if not (chosen.keeps_order or combine.commutes):
            *first, last = (repr(other.name) for other in ALGORITHMS.values() if other.keeps_order)
            raise ValueError(
                f"the {chosen.name} adds up in another order on every rank, but {combine.name} "
                f"does not commute; {', '.join(first)} and {last} keep the order of ranks"
            )
        result = check.fitting(out, array.shape, array.dtype)
        work = check.workspace(array, result)
        pieces = check.check_pieces(pieces, chosen.pieces(work.nbytes, n), len(work))
        hosts = check.check_hosts(hosts, n)
        passes(array, op=combine.name, algorithm=algorithm, pieces=pieces, hosts=hosts)
    chosen.start(work, comm, combine, pieces, hosts)
    return check.deliver(work, result)


def reduce(
    array: npt.ArrayLike,
    comm: MPI.Intracomm,
    op: MPI.Op | None = None,
    root: int = 0,
    algorithm: str = "tree",
    out: np.ndarray | None = None,
    pieces: int | None = None,
) -> np.ndarray | None:
    """Reduce arrays of one shape, element by element, over all ranks, on one of them.

    Parameters
    ----------
    array : array_like
        This rank's contribution: any shape, the same on every rank.
    op : mpi4py.MPI.Op, optional
        The operation; None: the sum. One that does not commute keeps the order of ranks: the result
        forms on the tree's rank 0 or the chain's last rank and goes on to ``root`` from it.
    algorithm : str
        "tree" or "chain".
    out : numpy.ndarray, optional
        Where the result goes, on ``root``; None: into a new array.
    pieces : int, optional
        Into how many messages the array is cut; None: one.

    Raises
    ------
    TypeError, ValueError
        On every rank, for bad arguments and for calls that differ between ranks.
    """
    n, rank = check.check_communicator(comm), comm.Get_rank()
    with same_call("reduce", comm) as passes:
        family = check.choose(algorithm, FAMILIES, "reduce")
        root = check.check_root(root, n)
        array = check.as_array(array)
        combine = Combiner(op, array.dtype)
        result = check.fitting(out if rank == root else None, array.shape, array.dtype)
        work = check.workspace(array, result)
        pieces = check.check_pieces(pieces, 1, len(work))
        passes(array, op=combine.name, root=root, algorithm=algorithm, pieces=pieces)
    end = root if combine.commutes else {"tree": 0, "chain": n - 1}[algorithm]
    family.reduce(work, comm, combine, end, pieces)
    if rank == end != root:
        comm.Send(work, root, FIRST_TAG)
    elif rank == root != end:
        comm.Recv(work, end, FIRST_TAG)
    return check.deliver(work, result) if rank == root else None


def broadcast(
    array: np.ndarray,
    comm: MPI.Intracomm,
    root: int = 0,
    algorithm: str = "tree",
    pieces: int | None = None,
) -> np.ndarray:
    """Fill an array on every rank with the values that it has on one of them.

    Parameters
    ----------
    array : numpy.ndarray
        Of one shape and dtype on every rank, as in ``MPI_Bcast``; overwritten but on ``root``.
    algorithm : str
        "tree" or "chain".
    pieces : int, optional
        How many messages follow one another along it; None: one.

    Returns
    -------
    numpy.ndarray
        ``array`` itself.

    Raises
    ------
    TypeError, ValueError
        On every rank, for bad arguments and for calls that differ between ranks.
    """
    n, rank = check.check_communicator(comm), comm.Get_rank()
    with same_call("broadcast", comm) as passes:
        family = check.choose(algorithm, FAMILIES, "broadcast")
        root = check.check_root(root, n)
        receives = rank != root
        check.must_be_array("array", array, writeable=receives)
        work = check.rows(np.ascontiguousarray(array).reshape(-1))
        pieces = check.check_pieces(pieces, 1, len(work))
        passes(array, root=root, algorithm=algorithm, pieces=pieces)
    family.broadcast(work, comm, root, pieces)
    return check.deliver(work, array) if receives else array


def scatter(
    array: npt.ArrayLike | None,
    comm: MPI.Intracomm,
    root: int = 0,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Hand out the parts of one rank's array, cut along its first axis.

    Parameters
    ----------
    array : array_like or None
        The whole, on ``root``; None elsewhere.
    out : numpy.ndarray
        Where this rank's part goes. Only the root knows its shape, and may leave it out.

    Raises
    ------
    TypeError, ValueError
        On every rank, for bad arguments and for calls that differ between ranks.
    """
    n, rank = check.check_communicator(comm), comm.Get_rank()
    with same_call("scatter", comm) as passes:
        root = check.check_root(root, n)
        if rank == root:
            rows = check.with_axis(array)  # type: ignore[arg-type]
            parts = split(len(rows), n)
            out = check.fitting(out, (lengths(parts)[root], *rows.shape[1:]), rows.dtype)
            whole = check.rows(np.ascontiguousarray(rows))
        elif out is None:
            raise ValueError(
                f"scatter needs out= on rank {rank}, an array for its part: only rank {root}, the "
                "root, knows how long that is"
            )
        else:
            check.must_be_array("out", out)
            parts, whole = [], np.empty(0)
        part = check.rows(np.empty(np.atleast_1d(out).shape, out.dtype))
        known = dict(enumerate(lengths(parts))) or {rank: len(part)}
        passes(np.atleast_1d(out), known, root=root)
    rooted.scatter(whole, part, comm, root, parts)
    return check.deliver(part, out)


def gather(
    array: npt.ArrayLike,
    comm: MPI.Intracomm,
    root: int = 0,
    out: np.ndarray | None = None,
) -> np.ndarray | None:
    """Lay all ranks' arrays end to end along the first axis, on one rank.

    Parameters
    ----------
    array : array_like
        This rank's part.
    out : numpy.ndarray, optional
        Where the whole goes, on ``root``; None: into a new array.

    Raises
    ------
    TypeError, ValueError
        On every rank, for bad arguments and for calls that differ between ranks.
    """
    n, rank = check.check_communicator(comm), comm.Get_rank()
    with same_call("gather", comm) as passes:
        root = check.check_root(root, n)
        array = check.with_axis(array)
        part = check.rows(np.ascontiguousarray(array))
        parts: list[slice] = []
        work = np.empty(0)
        if rank == root:
            parts, shape = check.assembled(array, n)
            result = check.fitting(out, shape, array.dtype)
            work = check.rows(np.empty(shape, array.dtype))
        passes(array, root=root)
    rooted.gather(part, work, comm, root, parts)
    return check.deliver(work, result) if rank == root else None


def allgather(
    array: npt.ArrayLike,
    comm: MPI.Intracomm,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Lay all ranks' arrays end to end along the first axis, on every rank (by a ring).

    Parameters
    ----------
    array : array_like
        This rank's part.
    out : numpy.ndarray, optional
        Where the whole goes; None: into a new array.

    Raises
    ------
    TypeError, ValueError
        On every rank, for bad arguments and for calls that differ between ranks.
    """
    n, rank = check.check_communicator(comm), comm.Get_rank()
    with same_call("allgather", comm) as passes:
        array = check.with_axis(array)
        parts, shape = check.assembled(array, n)
        result = check.fitting(out, shape, array.dtype)
        work = check.rows(np.empty(shape, array.dtype))
        work[parts[rank]] = check.rows(np.ascontiguousarray(array))
        passes(array)
    ring.allgather(work, comm, parts)
    return check.deliver(work, result)
