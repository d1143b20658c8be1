"""A GPU's ceilings from a record, with its machine's name."""

from __future__ import annotations

from pathlib import Path

RECORDS = Path(__file__).resolve().parents[2] / "data" / "gpu"


def gpu_roof(folder: Path = RECORDS) -> tuple[str, dict[str, float], dict[str, float]]:
    """Return (a line naming the GPU and date, peaks in flop/s, bandwidths in bytes/s).

    From the newest record under ``folder`` with a suite "roofline"; without one, a line that says
    so and two empty dicts.
    """
    from helpers import records

    for record in records.load(folder, "roofline"):
        peaks, bands = {}, {}
        for row in record.suites["roofline"]:
            kind, _, name = row.name.partition(", ")
            if kind == "matmul":
                peaks[name] = row.value * 1e9
            elif kind == "read":
                bands[name] = row.value * 1e9
        if peaks and bands:
            return f"{record.gpu}, recorded {record.date[:10]}", peaks, bands
    return "no record of a GPU yet: run `make gpu` on a machine that has one", {}, {}
