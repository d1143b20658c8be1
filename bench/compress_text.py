"""Seconds to a loss: a small transformer on four hosts, by each compressor, at three links.

    python -m bench compress_text

The counterpart of ``compress_training``, whose pace and links it has: as many parameters, AdamW in
place of SGD, text in place of digits. The looks at the loss do not count.
"""

from __future__ import annotations

from bench.compress_training import LINKS, NAMES, PACE, RANKS
from helpers.cluster import Cluster, Network
from helpers.data_parallel import link_runs, text_runs
from helpers.records import Row

SUITE = "compress_text"
TARGET, LIMIT = 2.75, 300  # nats for each character; steps


def rows() -> list[Row]:
    """Train by each name on each link; the peer is float32 on the same link."""
    found, shapes = [], text_runs.shapes()
    for link, rate in LINKS.items():
        with Cluster(RANKS, network=Network(RANKS, rate=rate), preload=("torch",)) as cluster:
            cluster.run(text_runs.to_loss, "float32", TARGET, limit=3, timeout=60)
            dense = None
            for name in NAMES:
                settings = {"limit": LIMIT, "pace": PACE}
                steps, seconds = cluster.run(
                    text_runs.to_loss, name, TARGET, timeout=240, **settings
                )[0]
                print(link, name, steps, f"{seconds:.1f} s", flush=True)
                dense = dense or seconds
                sent = cluster.run(link_runs.sent, name, shapes, timeout=60)[0]
                parameters = {"scheme": name, "link": link, "rate": rate, "target": TARGET,
                              "pace": PACE, "ranks": RANKS, "steps": steps,
                              "bytes": sent}  # fmt: skip
                found.append(Row("seconds to a loss", seconds, "s", "float32", dense,
                                 parameters))  # fmt: skip
    return found
