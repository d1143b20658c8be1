"""A transformer split by us and by PyTorch's own features, in one run on the course's backend.

    python -m bench.sharded

Each rank takes steps of both in turn; a row is the median of a step, after a warm-up, and how far
what both leave is apart.
"""

from __future__ import annotations

import json
import sys

from bench.launch import on_ranks
from helpers.records import Row

SUITE = "sharded"
RANKS = (2, 4)
BATCH = 8
SIZE = {"vocabulary": 96, "context": 32, "layers": 4, "heads": 4, "width": 64}


def rows() -> list[Row]:
    """Milliseconds of a step, ours beside PyTorch's, on two and on four ranks."""
    lines = []
    for ranks in RANKS:
        for name, off, ours, theirs in on_ranks(ranks, "bench.sharded", "--rank", timeout=600):
            given = {"ranks": ranks, "batch": BATCH, "largest difference": off, **SIZE}
            lines.append(Row(f"{name}, {ranks} ranks", ours, "ms", "PyTorch", theirs, given))
    return lines


def _rank_main() -> None:
    from mpi4py import MPI

    from helpers.models.transformer import Config
    from helpers.sharded import peers

    found = peers.compare(Config(**SIZE), BATCH)
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    if "--rank" in sys.argv:
        _rank_main()
    else:
        for row in rows():
            off = row.parameters["largest difference"]
            print(
                f"{row.name:38s}{row.value:9.1f} ms, PyTorch {row.peer_value:9.1f}; off {off:.0e}"
            )
