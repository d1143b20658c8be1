"""Allreduce by hand beside MPI_Allreduce, both in place, in turns within one run.

Each row's value is GB/s: bytes of the array ÷ median time of the slowest rank. Run one case by
itself with ``python -m bench.allreduce RANKS MEGABYTES``.
"""

from __future__ import annotations

import json
import sys

from bench.launch import on_ranks
from helpers.records import Row

SUITE = "allreduce"
MB = 1 << 20
SIZES = (4096, MB, 8 * MB, 16 * MB, 64 * MB)  # bytes


def rows() -> list[Row]:
    """Measure 2 and 4 ranks; return one row for each algorithm, size and number of ranks."""
    return [row for ranks in (2, 4) for row in rows_of(ranks, SIZES)]


def rows_of(ranks: int, sizes=SIZES, timeout: float = 300.0) -> list[Row]:
    """Measure all algorithms on ``ranks`` ranks, in a fresh mpiexec."""
    asked = map(str, sizes)
    measured = on_ranks(ranks, "bench.allreduce", "--on-ranks", *asked, timeout=timeout)
    return [
        Row(
            f"allreduce {algorithm}",
            size / seconds / 1e9,
            "GB/s",
            peer="MPI_Allreduce, in place",
            peer_value=size / peer / 1e9,
            parameters={"ranks": ranks, "bytes": size, "dtype": "float32"},
        )
        for algorithm, times in measured.items()
        if algorithm != "MPI_Allreduce"
        for size, seconds, peer in zip(sizes, times, measured["MPI_Allreduce"], strict=True)
    ]


def _on_ranks(sizes: list[int]) -> None:
    from mpi4py import MPI

    from helpers.collectives import ALGORITHMS
    from helpers.collectives.measure import allreduce_times

    names = [*ALGORITHMS, "MPI_Allreduce"]
    times = allreduce_times(names, sizes, repeats=11)
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(json.dumps(times))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--on-ranks"]:
        _on_ranks([int(size) for size in sys.argv[2:]])
    else:
        for row in rows_of(int(sys.argv[1]), [int(float(mb) * MB) for mb in sys.argv[2:]]):
            print(
                f"{row.name:32s} {row.parameters['bytes'] / MB:8.3f} MB  {row.value:6.2f} GB/s  "
                f"MPI {row.peer_value:6.2f}  ratio {row.ratio:.2f}"
            )
