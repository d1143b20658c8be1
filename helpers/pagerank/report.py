"""Figures of notebook 06 that come from a record, with its machine's name: a GPU's, and growth."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"
RECORDS = DATA / "gpu"


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


def recorded_growth(folder: Path = DATA / "bench") -> Growth | None:
    """Return the newest record of growth under ``folder``, None where there is none."""
    from helpers import records

    for record in records.load(folder, "pagerank"):
        rows = [row for row in record.suites["pagerank"] if row.name.startswith("growth, ")]
        times = {r.parameters["edges"]: r.value / 1e3 for r in rows if r.unit == "ms"}
        sizes = {r.parameters["edges"]: r.value for r in rows if r.unit == "B"}
        nodes = {r.parameters["edges"]: r.parameters["nodes"] for r in rows}
        edges = tuple(sorted(set(times) & set(sizes)))
        if edges:
            found = (tuple(column[e] for e in edges) for column in (nodes, times, sizes))
            n, spent, held = found
            return Growth(f"{record.machine['name']}, {record.date[:10]}", n, edges, spent, held)
    return None


def recorded_fold(folder: Path = DATA / "bench") -> tuple[str, float, float] | None:
    """Return (machine and date, s by a matrix product, s by scaling columns) of version 3's matrix.

    From the newest record under ``folder`` that measured it at full size; None without one.
    """
    from helpers import records

    for record in records.load(folder, "pagerank"):
        for row in record.suites["pagerank"]:
            if row.name.startswith("matrix with Out folded in") and row.peer_value:
                where = f"{record.machine['name']}, {record.date[:10]}"
                return where, row.value, row.peer_value
    return None


def gpu_column(graph, device: str, folder: Path = RECORDS) -> tuple[str, dict[str, float]]:
    """Return (name of the GPU, {row of the table: ms an iteration}) for ``graph``.

    A row is a version's number, in single precision, or that and "d", in double. On ``device``
    "cuda" the versions run there, synchronised before each reading of the clock. Otherwise the
    newest record under ``folder`` that holds rows for as many nodes and, within 5 %, as many edges.
    Without either: a sentence that says so, and no figures.
    """
    if device != "cpu":
        return _measured(graph, device)
    from helpers import records

    for record in records.load(folder, "pagerank"):
        found = {}
        for row in record.suites["pagerank"]:
            p = row.parameters
            if row.name.startswith("iteration") and p.get("device") != "cpu":
                near = abs(p["edges"] / graph.edges - 1) < 0.05 and p["nodes"] == graph.nodes
                if near:
                    double = p.get("dtype") == "float64"  # as Version.row has it
                    found[p["version"] + "d" * double] = row.value
        if found:
            return f"{record.gpu}, recorded {record.date[:10]}", found
    return "no record yet: run `make gpu` on a machine that has one", {}


def _measured(graph, device: str) -> tuple[str, dict[str, float]]:
    import torch

    from helpers.pagerank.versions import VERSIONS, iterate

    found = {}
    for name, dtype in (*((name, "float32") for name in VERSIONS), ("csr", "float64")):
        if name in ("dgl", "bits"):
            continue
        held = VERSIONS[name](graph, dtype, device)
        iterate(held, 3)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        iterate(held, 100)
        torch.cuda.synchronize()
        found[held.row] = (time.perf_counter() - begin) * 10  # ms an iteration
        del held
    return torch.cuda.get_device_name(), found
