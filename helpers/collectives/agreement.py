"""All ranks make the same call, or each raises the same error before the first message of it.

MPI does not compare what ranks pass: a call that differs between them hangs, ends a rank or returns
wrong numbers. Here every rank puts what it passes into a number. One allreduce of the numbers, and
of their negatives, tells all ranks whether the largest is the smallest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from zlib import crc32

import numpy as np

SHOWN = 4  # of the calls that differ, in an error
LEAST = -(2**62)  # what a rank says of a length that it does not know


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
