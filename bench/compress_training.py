"""Seconds until LeNet on four hosts reaches an accuracy, by compressor and link.

    python -m bench compress_training

A forward and backward pass is paced: it takes 20 ms, whatever less it needs, so that four ranks on
fewer cores are four devices of that speed. The looks at the accuracy do not count.
"""

from __future__ import annotations

from collections.abc import Callable

from helpers.cluster import Cluster, Network
from helpers.data_parallel.tasks import links
from helpers.records import Row

SUITE = "compress_training"
RANKS, PACE = 4, 20e-3
LINKS = {"1 Gbit/s": 1e9, "100 Mbit/s": 100e6, "10 Mbit/s": 10e6}
NAMES = ("float32", "float16, adding ring", "QSGD, s = 7", "QSGD, s = 3", "top 0.01, feedback",
         "sign, feedback", "PowerSGD, r = 2")  # fmt: skip


def rows() -> list[Row]:
    """Train by each name on each link; the peer is float32 on the same link."""
    return race(links.to_accuracy, target=0.85, limit=250)


def race(
    train: Callable,
    target: float,
    limit: int,
    seconds: float = 170.0,
    shapes: list | None = None,
) -> list[Row]:
    """Train to a target by each name on each link; the peer of each is float32 on the same link.

    ``train(name, target, limit=, pace=)`` on every rank returns steps and seconds. With `shapes`
    the rows say the bytes that a rank sends in a step.
    """
    found = []
    for link, rate in LINKS.items():
        with Cluster(RANKS, network=Network(RANKS, rate=rate), preload=("torch",)) as cluster:
            cluster.run(train, "float32", target, limit=3, timeout=60)  # to warm up
            dense = None
            for name in NAMES:
                steps, took = cluster.run(
                    train, name, target, limit=limit, pace=PACE, timeout=seconds
                )[0]
                print(link, name, steps, f"{took:.1f} s", flush=True)
                dense = dense or took
                given = {"scheme": name, "link": link, "rate": rate, "target": target}
                given |= {"pace": PACE, "ranks": RANKS, "steps": steps}
                if shapes is not None:
                    given["bytes"] = cluster.run(links.sent, name, shapes, timeout=60)[0]
                found.append(Row(name, took, "s", "uncompressed gradients", dense, given))
    return found
