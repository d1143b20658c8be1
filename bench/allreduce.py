"""How fast our allreduce algorithms are, and MPI_Allreduce in the same run.

Each row's value is GB/s: bytes of the array ÷ median time of the slowest rank.
"""

from __future__ import annotations

from bench.launch import on_ranks
from helpers.records import Row

SUITE = "allreduce"
MB = 1 << 20
SIZES = (4096, MB, 8 * MB, 16 * MB, 64 * MB)  # bytes


def rows() -> list[Row]:
    """Measure 2 and 4 ranks; return one row for each algorithm, size and number of ranks."""
    return [row for ranks in (2, 4) for row in _rows(ranks)]


def _rows(ranks: int) -> list[Row]:
    measured = on_ranks(ranks, _times, timeout=300)
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
        for size, seconds, peer in zip(SIZES, times, measured["MPI_Allreduce"], strict=True)
    ]


def _times() -> dict[str, list[float]] | None:
    from helpers.collectives import ALGORITHMS
    from helpers.collectives.measure import allreduce_times

    return allreduce_times([*ALGORITHMS, "MPI_Allreduce"], SIZES, repeats=11)
