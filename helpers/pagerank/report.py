"""Figures of notebook 06 that come from a record, with its machine's name: a GPU's, and growth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers import records
from helpers.pagerank.graphs import Links
from helpers.pagerank.versions import VERSIONS, iterate
from helpers.pagerank.versions import rows as rows_of
from helpers.paths import BENCH_RECORDS, GPU_RECORDS
from helpers.records import Record, Row

MISSING = "no record yet: run `make gpu` on a machine that has one"


@dataclass(frozen=True)
class Growth:
    """Version 4 on ever larger graphs, as one machine ran it: one entry for each graph.

    ``label`` names machine and date. ``seconds`` are of one iteration, ``bytes`` what the sparse
    matrix and two vectors take, ``nodes`` and ``edges`` the graph's size.
    """

    label: str
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    seconds: tuple[float, ...]
    bytes: tuple[float, ...]


def recorded_growth(folder: Path = BENCH_RECORDS) -> Growth | None:
    """Return how version 4 grew.

    Parameters
    ----------
    folder
        Where records are looked for.

    Returns
    -------
    Growth or None
        From the newest record that holds it; None where there is none.
    """
    return records.newest(folder, "pagerank", _growth)


def _growth(record: Record, rows: Sequence[Row]) -> Growth | None:
    rows = [row for row in rows if row.name.startswith("growth, ")]
    times = {r.parameters["edges"]: r.value / 1e3 for r in rows if r.unit == "ms"}
    sizes = {r.parameters["edges"]: r.value for r in rows if r.unit == "B"}
    nodes = {r.parameters["edges"]: r.parameters["nodes"] for r in rows}
    edges = tuple(sorted(set(times) & set(sizes)))
    if not edges:
        return None
    n, spent, held = (tuple(column[e] for e in edges) for column in (nodes, times, sizes))
    return Growth(f"{record.machine['name']}, {record.date[:10]}", n, edges, spent, held)


def recorded_fold(folder: Path = BENCH_RECORDS) -> tuple[str, float, float] | None:
    """Return how long it took to fold the diagonal into version 3's matrix.

    Parameters
    ----------
    folder
        Where records are looked for.

    Returns
    -------
    tuple or None
        Machine and date, seconds by a matrix product, seconds by scaling columns; from the newest
        record that measured it at full size, None where there is none.
    """
    return records.newest(folder, "pagerank", _fold)


def _fold(record: Record, rows: Sequence[Row]) -> tuple[str, float, float] | None:
    for row in rows:
        if row.name.startswith("matrix with Out folded in") and row.peer_value:
            where = f"{record.machine['name']}, {record.date[:10]}"
            return where, row.value, row.peer_value
    return None


def gpu_column(
    graph: Links, device: str, folder: Path = GPU_RECORDS
) -> tuple[str, dict[str, float]]:
    """Return the GPU's column of the table.

    Parameters
    ----------
    graph
        What the versions run on.
    device
        On "cuda" they run there, synchronised before each reading of the clock. On "cpu" the column
        comes from the newest record that holds rows for as many nodes and, within 5 %, as many
        edges.
    folder
        Where records are looked for.

    Returns
    -------
    name : str
        The GPU's; a sentence that says so where there is neither GPU nor record.
    column : dict of str to float
        Row of the table → ms an iteration. A row is a version's number, in single precision, or
        that and "d", in double.
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
