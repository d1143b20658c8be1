"""Dropout on ranks that share a model: the same where they hold the same, different elsewhere.

What all tensor ranks hold alike must be dropped alike, or their copies part. What each holds a part
of (its heads, its positions) must be dropped differently, or one draw decides for all parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Streams:
    """Two streams of random numbers: torch's own, shared, and one of this rank's."""

    def __init__(self, seed: int, rank: int):
        if rank < 0:
            raise ValueError(f"Streams expects a rank from 0; got {rank}")
        self._own = torch.Generator().manual_seed(seed * 1009 + 1 + rank).get_state()
        torch.manual_seed(seed)

    @contextmanager
    def own(self) -> Iterator[None]:
        """Draw from this rank's stream in a block."""
        shared = torch.get_rng_state()
        torch.set_rng_state(self._own)
        try:
            yield
        finally:
            self._own = torch.get_rng_state()
            torch.set_rng_state(shared)
