"""Debian 12's dependency graph: which package needs which.

Built by ``data/debian/dependencies.py``, which states what an edge is.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from helpers.datasets import DataError, read_checked

FILE = Path("debian") / "dependencies.txt.xz"


@dataclass(frozen=True)
class Dependencies:
    """The graph. ``sources`` and ``targets``, int32 (E,): package sources[e] needs targets[e].

    ``names`` and ``sections`` of the N packages; ``about``: origin, version and date of the
    snapshot and the sha256 of the index it was made from.
    """

    names: tuple[str, ...]
    sections: tuple[str, ...]
    sources: np.ndarray
    targets: np.ndarray
    about: dict

    def adjacency(self):
        """The graph as a SciPy CSR array (N, N), float64: 1 at (package, what it needs)."""
        from scipy import sparse

        n = len(self.names)
        starts = np.searchsorted(self.sources, np.arange(n + 1)).astype(np.int32)
        ones = np.ones(len(self.targets))
        return sparse.csr_array((ones, self.targets, starts), shape=(n, n))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def number(self, name: str) -> int:
        """A package's row. Raises KeyError naming a package that is not in the snapshot."""
        if name not in self._numbers:
            raise KeyError(f"{name!r} is no package of {self.about['origin']}")
        return self._numbers[name]


def load_dependencies(data: Path | None = None) -> Dependencies:
    """Return Debian 12's dependency graph, 63 436 packages and 264 191 edges.

    Raises DataError for a missing or damaged file.
    """
    first, *lines = lzma.decompress(read_checked(FILE, data)).decode().splitlines()
    about = json.loads(first)
    rows = [line.split("\t") for line in lines]
    counts = [len(row[2].split()) for row in rows]
    steps = np.array(" ".join(row[2] for row in rows).split(), dtype=np.int64)
    sources = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    # Each row holds differences: a sum along the whole, less what was there when the row began.
    running = np.cumsum(steps)
    starts = np.cumsum(counts) - counts
    before = np.concatenate([[0], running])[starts]
    targets = (running - np.repeat(before, counts)).astype(np.int32)
    if len(rows) != about["nodes"] or len(targets) != about["edges"]:
        raise DataError(
            f"{FILE} holds {len(rows)} packages and {len(targets)} edges; expected "
            f"{about['nodes']} and {about['edges']}"
        )
    names, sections = (tuple(row[i] for row in rows) for i in (0, 1))
    return Dependencies(names, sections, sources, targets, about)
