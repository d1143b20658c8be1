"""The collectives as a caller sees them: arguments checked, sums of arrays of numbers.

All ranks of ``comm`` must make the same call, with arrays of one dtype. Arrays may be of any size
(0 included), on any number of ranks; lists and scalars are taken too. What is wrong on one rank, or
differs between ranks, raises TypeError or ValueError on all of them: MPI itself does not compare
what ranks pass, and such a call hangs, ends a rank or returns wrong numbers. To find out takes one
allreduce of a few numbers (:func:`same_call`); :meth:`.registry.Allreduce.in_place` does without.
Messages travel on ``comm`` itself with tags from ``parts.FIRST_TAG`` on: if you keep receives from
any source or with any tag open on it, pass ``comm.Dup()``.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from helpers.collectives import ring, rooted, tree
from helpers.collectives.parts import lengths, split
from helpers.collectives.registry import ALGORITHMS, added, find

if TYPE_CHECKING:
    from mpi4py import MPI

SHOWN = 4  # of the calls that differ, in an error
LEAST = -(2**62)  # what a rank says of a length that it does not know


def allreduce(
    array: npt.ArrayLike,
    comm: MPI.Intracomm,
    algorithm: str = "ring",
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Add up arrays of one shape, element by element, over all ranks.

    Parameters
    ----------
    array : array_like
        This rank's contribution: any shape, the same on every rank.
    algorithm : str
        One of :data:`helpers.collectives.ALGORITHMS`.
    out : numpy.ndarray, optional
        Where the sum goes; ``out=array`` adds up in place. None: into a new array.

    Returns
    -------
    numpy.ndarray
        The sum, of the same shape and dtype; the same bits on every rank.
    """
    n = ranks_of(comm)
    with same_call("allreduce", comm) as passes:
        chosen = find(algorithm, ALGORITHMS)
        array = numbers(array)
        result = room(out, array.shape, array.dtype)
        passes(array, algorithm=algorithm)
    if result is not array:
        np.copyto(result, array)
    chosen.start(result.reshape(-1), comm, added, chosen.pieces(result.nbytes, n))
    return result


def reduce(array: npt.ArrayLike, comm: MPI.Intracomm, root: int = 0) -> np.ndarray | None:
    """Add up arrays of one shape over all ranks by a tree, on one of them.

    Parameters
    ----------
    array : array_like
        This rank's contribution: any shape, the same on every rank.

    Returns
    -------
    numpy.ndarray or None
        On ``root`` the sum, of the same shape and dtype; None elsewhere.
    """
    n = ranks_of(comm)
    with same_call("reduce", comm) as passes:
        root = rank_in(n, root)
        work = numbers(array).copy()
        passes(work, root=root)
    tree.reduce(work.reshape(-1), comm, added, root)
    return work if comm.Get_rank() == root else None


def broadcast(array: np.ndarray, comm: MPI.Intracomm, root: int = 0) -> np.ndarray:
    """Fill an array on every rank by a tree with the values that it has on one of them; return it.

    Parameters
    ----------
    array : numpy.ndarray
        Of one shape and dtype on every rank, as in ``MPI_Bcast``; overwritten but on ``root``.
    """
    n = ranks_of(comm)
    with same_call("broadcast", comm) as passes:
        root = rank_in(n, root)
        work = numbers(array)
        if comm.Get_rank() != root:
            work = room(array, work.shape, work.dtype)
        passes(work, root=root)
    tree.broadcast(work.reshape(-1), comm, root)
    return array


def scatter(
    array: npt.ArrayLike | None,
    comm: MPI.Intracomm,
    root: int = 0,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Hand out the parts of one rank's array, cut along its first axis.

    Parameters
    ----------
    array : (M, ...) array_like or None
        The whole, on ``root``; None elsewhere.
    out : numpy.ndarray
        Where this rank's part goes. Only the root knows its shape, and may leave it out.

    Returns
    -------
    (m, ...) numpy.ndarray
        This rank's part: of N parts each has ⌊M/N⌋ rows or one more.
    """
    n, rank = ranks_of(comm), comm.Get_rank()
    with same_call("scatter", comm) as passes:
        root = rank_in(n, root)
        whole, parts = np.empty(0), []
        if rank == root:
            whole = np.atleast_1d(numbers(array))  # type: ignore[arg-type]
            parts = split(len(whole), n)
            out = room(out, (lengths(parts)[root], *whole.shape[1:]), whole.dtype)
        elif not isinstance(out, np.ndarray):
            raise ValueError(
                f"scatter needs out= on rank {rank}, an array for its part: only rank {root}, the "
                f"root, knows how long that is; got {out!r}"
            )
        out = room(out, out.shape, out.dtype)
        passes(out, dict(enumerate(lengths(parts))) or {rank: len(out)}, root=root)
    rooted.scatter(whole, out, comm, root, parts)
    return out


def gather(array: npt.ArrayLike, comm: MPI.Intracomm, root: int = 0) -> np.ndarray | None:
    """Lay all ranks' arrays end to end along the first axis, on one rank.

    Parameters
    ----------
    array : (m, ...) array_like
        Of one shape on every rank.

    Returns
    -------
    (N·m, ...) numpy.ndarray or None
        On ``root`` the parts of all N ranks, in rank order; None elsewhere.
    """
    n, rank = ranks_of(comm), comm.Get_rank()
    with same_call("gather", comm) as passes:
        root = rank_in(n, root)
        part = np.atleast_1d(numbers(array))
        passes(part, root=root)
    whole = np.empty((n * len(part), *part.shape[1:]) if rank == root else 0, part.dtype)
    rooted.gather(part, whole, comm, root, split(len(whole), n))
    return whole if rank == root else None


def allgather(array: npt.ArrayLike, comm: MPI.Intracomm) -> np.ndarray:
    """Lay all ranks' arrays end to end along the first axis, on every rank (by a ring).

    Parameters
    ----------
    array : (m, ...) array_like
        Of one shape on every rank.

    Returns
    -------
    (N·m, ...) numpy.ndarray
        The parts of all N ranks, in rank order.
    """
    n = ranks_of(comm)
    with same_call("allgather", comm) as passes:
        part = np.atleast_1d(numbers(array))
        passes(part)
    whole = np.empty((n * len(part), *part.shape[1:]), part.dtype)
    parts = split(len(whole), n)
    whole[parts[comm.Get_rank()]] = part
    ring.allgather(whole, comm, parts)
    return whole


def ranks_of(comm: Any) -> int:
    """Return how many ranks ``comm`` has: TypeError unless it joins the ranks of one group."""
    if not callable(getattr(comm, "Allreduce", None)) or getattr(comm, "is_inter", False):
        raise TypeError(
            "comm must be an mpi4py communicator of one group, such as MPI.COMM_WORLD; "
            f"got {type(comm).__name__}: {comm!r}"
        )
    return comm.Get_size()


def rank_in(n: int, root: Any) -> int:
    """Return ``root`` as an int: TypeError if it is none, ValueError if no rank is called that."""
    root = operator.index(root)
    if not 0 <= root < n:
        raise ValueError(f"root must be a rank of the communicator, 0..{n - 1}; got {root}")
    return root


def numbers(array: npt.ArrayLike) -> np.ndarray:
    """Return a contiguous array of what the caller passed: TypeError for what MPI cannot add up."""
    found = np.asarray(array, order="C")
    if np.ma.isMaskedArray(array) or found.dtype.kind not in "iufc" or not found.dtype.isnative:
        raise TypeError(
            "an array must hold numbers in this machine's byte order, and have no mask; got "
            f"{type(array).__name__} of dtype {found.dtype}"
        )
    return found


def room(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return ``out``, or a new array for None: ValueError unless it can be filled as it is."""
    if out is None:
        return np.empty(shape, dtype)
    plain = isinstance(out, np.ndarray) and not np.ma.isMaskedArray(out)
    if not (plain and out.flags.c_contiguous and out.flags.writeable) or (
        (out.shape, out.dtype) != (shape, dtype)
    ):
        raise ValueError(
            f"an array to be filled must be writeable, contiguous, of shape {shape} and dtype "
            f"{dtype}; got {type(out).__name__} of shape {np.shape(out)} and dtype "
            f"{getattr(out, 'dtype', None)}"
        )
    return out


@contextlib.contextmanager
def same_call(function: str, comm: Any) -> Iterator[Callable[..., None]]:
    """Compare, at the end of the block, what ranks passed to a collective.

    An error inside the block, on whichever ranks, becomes an error on all, and so does a difference
    (ValueError). ``passes(array, lengths=None, **others)`` says what this rank passes: an array of
    one dtype and shape, and what else must be equal. ``lengths`` names ranks and the rows of their
    parts, as far as this rank knows; then only the rows are to be alike.
    """
    n = comm.Get_size()
    words, known = f"{function}()", {}

    def passes(array: np.ndarray, lengths: Mapping[int, int] | None = None, **others: Any) -> None:
        nonlocal words, known
        rows = lengths is not None  # then ranks may have different numbers of them
        shape = f"rows of shape {array.shape[1:]}" if rows else f"shape {array.shape}"
        given = [f"{name}={x}" for name, x in others.items() if x is not None]
        text = [f"{array.dtype}, {shape}", *given]
        words, known = f"{function}({', '.join(text)})", dict(lengths or {})

    try:
        yield passes
    except Exception as error:
        if n > 1:
            _differences(f"{function}, which it refused ({error})", known, comm)
        raise
    differ = _differences(words, known, comm) if n > 1 else ""
    if differ:
        raise ValueError(f"all ranks must make the same call: {differ}")


def _differences(words: str, known: Mapping[int, int], comm: Any) -> str:
    """Return what ranks said, by rank, or nothing if they agree; every rank calls."""
    from mpi4py import MPI

    said = np.full((1 + comm.Get_size(), 2), LEAST)
    said[0] = crc32(words.encode()), -crc32(words.encode())
    for rank, length in known.items():
        said[1 + rank] = length, -length
    comm.Allreduce(MPI.IN_PLACE, said, MPI.MAX)
    if (said[:, 0] <= -said[:, 1]).all():  # the largest is the smallest, or nobody knows it
        return ""
    if known:
        words += f" with {', '.join(f'{k} rows for rank {r}' for r, k in known.items())}"
    ranks: dict[str, list[int]] = {}
    for rank, one in enumerate(comm.allgather(words)):
        ranks.setdefault(one, []).append(rank)
    lines = [f"{_spelt(those)} called {one}" for one, those in ranks.items()]
    more = [f"and {len(lines) - SHOWN} other calls"] if len(lines) > SHOWN else []
    return "; ".join(lines[:SHOWN] + more)


def _spelt(ranks: list[int]) -> str:
    *first, last = map(str, ranks)
    return f"ranks {', '.join(first)} and {last}" if first else f"rank {last}"
