"""Where the course's files lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "data"
BENCH_RECORDS = DATA / "bench"
CLAIM_RECORDS = DATA / "claims"
GPU_RECORDS = DATA / "gpu"
