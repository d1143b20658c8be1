"""Check a collective's arguments, and lay arrays out as messages need them."""

from __future__ import annotations

import contextlib
import math
import operator

import numpy as np

from helpers.collectives.parts import consecutive, split


def check_communicator(comm, root=0) -> int:
    """Return ``root`` as an int once ``comm`` is a communicator that has such a rank."""
    if not callable(getattr(comm, "Get_size", None)):
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
    try:
        root = operator.index(root)
    except TypeError:
        raise TypeError(f"root must be a rank, an integer; got {root!r}") from None
    if not 0 <= root < n:
        raise ValueError(f"root must be a rank of the communicator, 0..{n - 1}; got {root}")
    return root


def choose(algorithm, table: dict, function: str):
    """Return the entry of ``table`` called ``algorithm``."""
    try:
        return table[algorithm]
    except (KeyError, TypeError):
        names = ", ".join(repr(name) for name in table)
        raise ValueError(f"{function} knows the algorithms {names}; got {algorithm!r}") from None


def check_pieces(pieces, default: int) -> int:
    """Return ``pieces`` as a positive int, or ``default`` for None."""
    if pieces is None:
        return default
    try:
        number = operator.index(pieces)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"pieces must be an integer of at least 1, or None; got {pieces!r}")
    return number


def must_commute(combine, op, function: str, others: str) -> None:
    """Raise ValueError where the order of ranks matters to ``op``: ``function`` mixes it."""
    if not combine.commutes:
        raise ValueError(
            f"{function} adds up in another order on every rank, but {op!r} does not commute; "
            f"{others} keep the order of ranks"
        )


def must_be_array(name: str, array, writeable: bool = True) -> None:
    """Raise unless ``array`` is a NumPy array (that can be written to)."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array; got {type(array).__name__}: {array!r}")
    if writeable and not array.flags.writeable:
        raise ValueError(f"{name} is to be filled, but it is read-only")


def fitting(out, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return ``out`` once it is a writeable array of this shape and dtype; a new one for None."""
    if out is None:
        return np.empty(shape, dtype)
    must_be_array("out", out)
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(
            f"out must have shape {shape} and dtype {dtype}; "
            f"got shape {out.shape} and dtype {out.dtype}"
        )
    return out


def with_axis(array) -> np.ndarray:
    """Return ``array`` with at least one axis, to be cut along the first."""
    return np.atleast_1d(np.asarray(array))


def cut(length: int, n: int, counts) -> list[slice]:
    """Cut ``length`` rows into n parts: of the given lengths, or as equal as possible for None."""
    if counts is None:
        return split(length, n)
    counts = check_counts(counts, n)
    if sum(counts) != length:
        raise ValueError(
            f"counts must add up to the {length} rows of the array; got {counts}, {sum(counts)}"
        )
    return consecutive(counts)


def check_counts(counts, n: int) -> list[int]:
    """Return ``counts`` as a list of n lengths."""
    try:
        numbers = [operator.index(count) for count in counts]
    except TypeError:
        numbers = []
    if len(numbers) != n or min(numbers) < 0:
        raise ValueError(f"counts must be {n} lengths, one for each rank; got {counts!r}")
    return numbers


def assembled(part: np.ndarray, n: int, rank: int, counts) -> tuple[list[slice], tuple[int, ...]]:
    """Return the slice of every rank's part in the whole, and the whole's shape."""
    numbers = [len(part)] * n if counts is None else check_counts(counts, n)
    if numbers[rank] != len(part):
        raise ValueError(
            f"counts says that rank {rank} has {numbers[rank]} rows, but its array has {len(part)}"
        )
    return consecutive(numbers), (sum(numbers), *part.shape[1:])


def rows(array: np.ndarray) -> np.ndarray:
    """View a C-contiguous array, uncopied, as one that mpi4py can send, with the same first axis.

    What mpi4py does not know (records, text, dates, foreign byte order) is viewed as bytes.
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
    """Return a flat, contiguous copy of ``array``, inside ``result`` where that is contiguous."""
    if result.flags.c_contiguous:
        if result is not array:
            np.copyto(result, array)
        return rows(result.reshape(-1))
    return rows(np.array(array, order="C").reshape(-1))


def deliver(work: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Copy ``work`` into ``result`` unless it is the same memory; return ``result``."""
    if result.size and not np.may_share_memory(work, result):
        result[...] = work.reshape(-1).view(result.dtype).reshape(result.shape)
    return result


@contextlib.contextmanager
def explained(array: np.ndarray):
    """Turn MPI's "message truncated" into a sentence about the ranks' arrays."""
    try:
        yield
    except Exception as error:
        if "truncat" not in str(error).lower():
            raise
        raise ValueError(
            "a message was longer than expected: do all ranks pass arrays of the same shape and "
            f"dtype (here {array.shape}, {array.dtype}), and the same root, algorithm and counts?"
        ) from error
