"""A GPU's ceilings from a record, with its machine's name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from helpers import records
from helpers.paths import GPU_RECORDS

Roof = tuple[str, dict[str, float], dict[str, float]]
MISSING = "no record of a GPU yet: run `make gpu` on a machine that has one"


def gpu_roof(folder: Path = GPU_RECORDS) -> Roof:
    """Return a GPU's name, peaks (flop/s by type of number) and bandwidths (bytes/s by level).

    The name has the date of the newest record that holds both; a sentence says so where there is
    none.
    """
    return records.newest(folder, "roofline", _roof) or (MISSING, {}, {})


def _roof(record: records.Record, rows: Sequence[records.Row]) -> Roof | None:
    peaks, bands = (
        {row.name.removeprefix(kind): row.value * 1e9 for row in rows if row.name.startswith(kind)}
        for kind in ("matmul, ", "read, ")
    )
    if not (peaks and bands):
        return None
    return f"{record.gpu}, recorded {record.date[:10]}", peaks, bands
