"""Seconds until a transformer on four hosts reaches a loss, by compressor and link.

    python -m bench compress_text

The counterpart of ``compress_training``, whose pace and links it has: as many parameters, AdamW in
place of SGD, text in place of digits. The looks at the loss do not count.
"""

from __future__ import annotations

from bench.compress_training import race
from helpers.data_parallel.tasks import text
from helpers.records import Row

SUITE = "compress_text"
TARGET = 2.75  # nats for each character


def rows() -> list[Row]:
    """Train by each name on each link; the peer is float32 on the same link."""
    return race(
        text.to_loss,
        TARGET,
        limit=300,
        seconds=240.0,
        shapes=text.shapes(),
    )
