"""How codes travel: all to all ranks by our ring allgather, or by a ring that adds on the way.

With codes of c bytes, N ranks and P values, the allgather sends (N − 1)·c(P) bytes from each rank:
the more ranks, the more. A ring that adds sends 2(N − 1)·c(P/N), but has to round each partial sum
anew: N roundings in place of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from helpers.collectives import ring
from helpers.collectives.parts import FIRST_TAG, consecutive, lengths, split
from helpers.data_parallel.compression.compressors import Compressor

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def allgather(code: np.ndarray, compressor: Compressor, comm: Intracomm, out: np.ndarray) -> None:
    """Set `out` to the mean of what all ranks' codes stand for, alike to the bit everywhere."""
    ranks, rank = comm.Get_size(), comm.Get_rank()
    codes = np.empty(ranks * len(code), np.uint8)
    parts = split(len(codes), ranks)
    codes[parts[rank]] = code
    ring.allgather(codes, comm, parts)
    out[:] = 0
    for part in parts:  # in one order on all ranks: the same bits
        compressor.add(codes[part], out)
    out /= ranks


def adding_ring(values: np.ndarray, compressor: Compressor, comm: Intracomm) -> None:
    """Replace values by their mean over all ranks, rounding what each message carries."""
    n, rank = comm.Get_size(), comm.Get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    parts = split(len(values), n)
    for step in range(n - 1):
        give, take = (rank - step - 1) % n, (rank - step - 2) % n
        mine = values[parts[take]]
        arriving = np.empty(compressor.nbytes(len(mine)), np.uint8)
        code = compressor.encode(values[parts[give]])
        comm.Sendrecv(code, right, FIRST_TAG + give, arriving, left, FIRST_TAG + take)
        compressor.add(arriving, mine)
    places = consecutive(compressor.nbytes(count) for count in lengths(parts))
    codes = np.empty(places[-1].stop, np.uint8)
    codes[places[rank]] = compressor.encode(values[parts[rank]])
    ring.allgather(codes, comm, places)
    values[:] = 0
    for part, place in zip(parts, places, strict=True):
        compressor.add(codes[place], values[part])
    values /= n
