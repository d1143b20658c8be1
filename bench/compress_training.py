"""Seconds to an accuracy: LeNet on four hosts, by each compressor, on links of three speeds.

    python -m bench compress_training

A forward and backward pass is paced: it takes 20 ms, whatever less it needs, so that four ranks on
fewer cores are four devices of that speed. The looks at the accuracy do not count.
"""

from __future__ import annotations

from helpers.cluster import Cluster, Network
from helpers.data_parallel import link_runs
from helpers.records import Row

SUITE = "compress_training"
RANKS, PACE, TARGET, LIMIT = 4, 20e-3, 0.85, 250
LINKS = {"1 Gbit/s": 1e9, "100 Mbit/s": 100e6, "10 Mbit/s": 10e6}
NAMES = ("float32", "float16, adding ring", "QSGD, s = 7", "QSGD, s = 3", "top 0.01, feedback",
         "sign, feedback", "PowerSGD, r = 2")  # fmt: skip


def rows() -> list[Row]:
    """Train by each name on each link; the peer is float32 on the same link."""
    found = []
    for link, rate in LINKS.items():
        with Cluster(RANKS, network=Network(RANKS, rate=rate), preload=("torch",)) as cluster:
            cluster.run(link_runs.to_accuracy, "float32", TARGET, limit=3, timeout=60)
            dense = None
            for name in NAMES:
                settings = {"limit": LIMIT, "pace": PACE}
                steps, seconds = cluster.run(
                    link_runs.to_accuracy, name, TARGET, timeout=170, **settings
                )[0]
                print(link, name, steps, f"{seconds:.1f} s", flush=True)
                dense = dense or seconds
                parameters = {"scheme": name, "link": link, "rate": rate, "target": TARGET,
                              "pace": PACE, "ranks": RANKS, "steps": steps}  # fmt: skip
                found.append(Row("seconds to an accuracy", seconds, "s", "float32", dense,
                                 parameters))  # fmt: skip
    return found
