"""The GPU column of notebook 06: measured here, or read from a record with its machine's name."""

from __future__ import annotations

import time
from pathlib import Path

RECORDS = Path(__file__).resolve().parents[2] / "data" / "gpu"


def gpu_column(graph, device: str, folder: Path = RECORDS) -> tuple[str, dict[str, float]]:
    """Return (name of the GPU, {version's number: ms an iteration}) for ``graph``.

    On ``device`` "cuda" the versions run there, synchronised before each reading of the clock.
    Otherwise the newest record under ``folder`` that holds rows for as many nodes and, within 5 %,
    as many edges. Without either: a sentence that says so, and no figures.
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
                    found[p["version"]] = row.value
        if found:
            return f"{record.gpu}, recorded {record.date[:10]}", found
    return "no record yet: run `make gpu` on a machine that has one", {}


def _measured(graph, device: str) -> tuple[str, dict[str, float]]:
    import torch

    from helpers.pagerank.versions import VERSIONS, iterate

    found = {}
    for name, version in VERSIONS.items():
        if name in ("dgl", "bits"):
            continue
        held = version(graph, "float32", device)
        iterate(held, 3)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        iterate(held, 100)
        torch.cuda.synchronize()
        found[held.number] = (time.perf_counter() - begin) * 10  # ms an iteration
        del held
    return torch.cuda.get_device_name(), found
