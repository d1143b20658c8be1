"""Check a collective's arguments, and lay arrays out as messages need them."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from helpers.collectives.hosts import Hosts, numbered
from helpers.collectives.parts import split

Entry = TypeVar("Entry")


def check_communicator(comm: Any) -> int:
    """Return how many ranks ``comm`` has: TypeError unless it joins the ranks of one group."""
    if not callable(getattr(comm, "Allreduce", None)):
        raise TypeError(
            "comm must be an mpi4py communicator such as MPI.COMM_WORLD; "
            f"got {type(comm).__name__}: {comm!r}"
        )
    try:
        n = comm.Get_size()
        between_groups = getattr(comm, "is_inter", False)
    except Exception as error:
        raise ValueError(f"comm cannot be used on this rank (MPI.COMM_NULL?): {error}") from error
    if between_groups:
        raise TypeError("comm must join the ranks of one group; got an intercommunicator")
    return n


def check_root(root: Any, n: int) -> int:
    """Return ``root`` as an int: TypeError if it is none, ValueError if no rank is called that."""
    try:
        root = operator.index(root)
    except TypeError:
        raise TypeError(f"root must be a rank, an integer; got {root!r}") from None
    if not 0 <= root < n:
        raise ValueError(f"root must be a rank of the communicator, 0..{n - 1}; got {root}")
    return root


def check_hosts(hosts: Sequence[Any] | None, n: int) -> Hosts | None:
    """Return hosts as numbers, None as it is: ValueError unless there is one for each rank."""
    if hosts is None:
        return None
    try:
        found = numbered(list(hosts))
    except TypeError:
        found = ()
    if len(found) != n:
        raise ValueError(f"hosts must name a host for each of {n} ranks; got {hosts!r}")
    return found


def choose(algorithm: Any, table: Mapping[str, Entry], function: str) -> Entry:
    """Return the entry of a table: ValueError, with the names, if there is none."""
    try:
        return table[algorithm]
    except (KeyError, TypeError):
        names = ", ".join(repr(name) for name in table)
        raise ValueError(f"{function} knows the algorithms {names}; got {algorithm!r}") from None


def check_pieces(pieces: Any, default: int, most: int) -> int:
    """Return ``pieces`` as an int from 1, ``default`` for None; beyond ``most`` they are empty."""
    if pieces is None:
        return default
    try:
        number = operator.index(pieces)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"pieces must be an integer of at least 1, or None; got {pieces!r}")
    return min(number, max(1, most))


def must_be_array(name: str, array: Any, writeable: bool = True) -> None:
    """Refuse what is no NumPy array (TypeError), or is read-only and to be filled (ValueError)."""
    if not isinstance(array, np.ndarray) or np.ma.isMaskedArray(array):
        raise TypeError(f"{name} must be a NumPy array; got {type(array).__name__}: {array!r}")
    if writeable and not array.flags.writeable:
        raise ValueError(f"{name} is to be filled, but it is read-only")


def fitting(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return ``out``, or a new array for None: an error unless its shape and dtype are these."""
    if out is None:
        return np.empty(shape, dtype)
    must_be_array("out", out)
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(
            f"out must have shape {shape} and dtype {dtype}; "
            f"got shape {out.shape} and dtype {out.dtype}"
        )
    return out


def with_axis(array: npt.ArrayLike) -> np.ndarray:
    """Return an array that can be cut along its first axis."""
    return np.atleast_1d(as_array(array))


def as_array(array: npt.ArrayLike) -> np.ndarray:
    """Return an array of what the caller passed, which has no mask: numbers below one count."""
    if np.ma.isMaskedArray(array):
        raise TypeError(
            "a masked array would lose its mask: pass array.filled(0), or what stands for nothing "
            f"in the operation; got {array!r}"
        )
    return np.asarray(array)


def assembled(part: np.ndarray, n: int) -> tuple[list[slice], tuple[int, ...]]:
    """Return where the ranks' parts, all as long as this one, go in the whole; and its shape."""
    whole = (n * len(part), *part.shape[1:])
    return split(whole[0], n), whole


def rows(array: np.ndarray) -> np.ndarray:
    """View a C-contiguous array, uncopied, as one that mpi4py can send, with the same first axis.

    What mpi4py does not know (records, text, dates, foreign byte order) is viewed as bytes.

    TypeError for Python objects.
    """
    if array.dtype.hasobject:
        raise TypeError(
            f"arrays of dtype {array.dtype} hold references to Python objects, which mean nothing "
            "on another rank; convert them to numbers, or use comm.allreduce (lower case)"
        )
    if array.dtype.kind in "biufc" and array.dtype.isnative:
        return array
    width = array.dtype.itemsize * math.prod(array.shape[1:])  # bytes in a row
    return array.reshape(-1).view(np.uint8).reshape(len(array), width)


def workspace(array: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Return a flat, contiguous copy of an array to work on in place, inside ``result`` if it can
    be.
    """
    if result.flags.c_contiguous:
        if result is not array:
            np.copyto(result, array)
        return rows(result.reshape(-1))
    return rows(np.array(array, order="C").reshape(-1))


def deliver(work: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Copy what was worked on to where the result goes, unless it is there."""
    if result.size and not np.may_share_memory(work, result):
        result[...] = work.reshape(-1).view(result.dtype).reshape(result.shape)
    return result
