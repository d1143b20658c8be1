"""The newest GPU record of the ladder (``make gpu``), for pages that no GPU stands behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers import records
from helpers.paths import GPU_RECORDS

CUDNN = "torch conv2d (cuDNN, fp32)"  # the peer's name in the record
PEAK = "torch matmul, fp32"  # the row whose GFLOP/s stand for the GPU's peak
MISSING = (
    "No GPU record is in this repository yet: nobody has run `make gpu` on a machine with an "
    "NVIDIA GPU and committed what it wrote to data/gpu. What was counted on this CPU stands "
    "above; times on a GPU are left out rather than guessed."
)


@dataclass(frozen=True)
class GpuRecord:
    """Medians of one machine."""

    machine: str
    date: str
    times: dict[tuple[str, int, int], float]  # µs by (rung, size, filter)
    peers: dict[tuple[str, int, int], float]  # µs by (peer, size, filter)
    bandwidth: dict[int, float]  # bytes/s of a device copy, by size
    peak: float  # FLOP/s of a large fp32 matmul, 0 if the record has none


def newest(folder: Path = GPU_RECORDS) -> GpuRecord | None:
    """Return the newest record of the ladder, None where no record holds it."""
    return records.newest(folder, "cuda", _medians)


def _medians(record: records.Record, rows: Sequence[records.Row]) -> GpuRecord:
    peak = 0.0
    times: dict[tuple[str, int, int], float] = {}
    peers: dict[tuple[str, int, int], float] = {}
    bandwidth: dict[int, float] = {}
    for row in rows:
        size, filter_ = row.parameters.get("size", 0), row.parameters.get("filter", 0)
        if row.unit == "µs" and row.name.startswith("convolve_"):
            times[row.name.removeprefix("convolve_"), size, filter_] = row.value
            if row.peer_value is not None:
                peers[row.peer, size, filter_] = row.peer_value
        elif row.name == PEAK:
            peak = 1e9 * row.value
        elif row.unit == "GB/s":
            bandwidth[size] = 1e9 * row.value
    return GpuRecord(record.gpu, record.date[:10], times, peers, bandwidth, peak)


def table(record: GpuRecord, size: int = 4096) -> str:
    """Return a record's times in µs at one size as a Markdown table, a row for each filter."""
    names = dict.fromkeys(key[0] for key in [*record.times, *record.peers])
    every = {**record.times, **record.peers}
    filters = sorted({key[2] for key in record.times if key[1] == size})
    rows = [f"| filter | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for k in filters:
        values = [every.get((name, size, k)) for name in names]
        shown = " | ".join("–" if value is None else f"{value:.1f}" for value in values)
        rows.append(f"| {k} × {k} | {shown} |")
    return "\n".join(rows)
