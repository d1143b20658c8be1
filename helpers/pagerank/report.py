"""A GPU's times in notebook 06, from a record with its machine's name."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from helpers import records
from helpers.pagerank.graphs import Links
from helpers.pagerank.versions import VERSIONS, iterate
from helpers.pagerank.versions import rows as rows_of
from helpers.paths import GPU_RECORDS
from helpers.records import Record, Row

MISSING = "no record yet: run `make gpu` on a machine that has one"


def gpu_column(
    graph: Links, device: str, folder: Path = GPU_RECORDS
) -> tuple[str, dict[str, float]]:
    """Return the GPU's name, and its column of the table: row → ms an iteration.

    On "cuda" the versions run there, synchronised before each reading of the clock. On "cpu" the
    column comes from the newest record that holds rows for as many nodes and, within 5 %, as many
    edges; in place of the name a sentence says so where there is neither GPU nor record. A row is a
    version's number, in single precision, or that and "d", in double.
    """
    if device != "cpu":
        return _measured(graph, device)

    def column(record: Record, rows: Sequence[Row]) -> tuple[str, dict[str, float]] | None:
        found = {}
        for row in rows:
            p = row.parameters
            if row.name.startswith("iteration") and p.get("device") != "cpu":
                near = abs(p["edges"] / graph.edges - 1) < 0.05 and p["nodes"] == graph.nodes
                if near:
                    double = p.get("dtype") == "float64"  # as Version.row has it
                    found[p["version"] + "d" * double] = row.value
        return (f"{record.gpu}, recorded {record.date[:10]}", found) if found else None

    return records.newest(folder, "pagerank", column) or (MISSING, {})


def _measured(graph: Links, device: str) -> tuple[str, dict[str, float]]:
    import torch

    found = {}
    for name, dtype in rows_of(device):
        held = VERSIONS[name](graph, dtype, device)
        iterate(held, 3)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        iterate(held, 100)
        torch.cuda.synchronize()
        found[held.row] = (time.perf_counter() - begin) * 10  # ms an iteration
        del held
    return torch.cuda.get_device_name(), found
