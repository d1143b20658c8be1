"""What notebook 08 concludes: what an allreduce costs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from helpers.claims import Claim
from helpers.claims.ranks import ranks

if TYPE_CHECKING:
    from helpers.collectives.cost import Link

LIMIT = 120  # seconds for one call on the ranks
SIZES = (1_024, 4_194_304)
SHORT = {"repeats": 1}


@functools.cache
def _times(seed: int, repeats: int) -> tuple[dict, Link]:
    """Seconds of a ring of four for each size, and the fit of a ping-pong made just before."""
    from helpers.collectives import cost, measure

    cluster = ranks()
    gamma = max(cluster.run(measure.addition, timeout=LIMIT))
    alone = cluster.run(measure.ping_pong, timeout=LIMIT)[0]
    found = cluster.run(measure.allreduce_times, ["ring"], SIZES, repeats, timeout=LIMIT)[0]
    return dict(zip(SIZES, found["ring"], strict=True)), cost.fit(alone, "ping-pong", gamma)


def measured_and_predicted(seed: int, nbytes: int, repeats: int = 9) -> tuple[float, float]:
    """Seconds of a ring as measured, and by the model with the fit of a ping-pong."""
    from helpers.collectives import cost

    found, link = _times(seed, repeats)
    return found[nbytes], cost.allreduce("ring", 4, link).at(nbytes)


def two_levels(seed: int, rate: float, nbytes: int, repeats: int = 5) -> tuple[float, float]:
    """Seconds by two levels, and by one ring through all ranks: four hosts, two ranks on each."""
    from helpers.cluster import Network
    from helpers.collectives import measure

    hosts, names = ranks(8, Network(4, rate=rate)), ["two_level", "ring"]
    found = hosts.run(measure.allreduce_times, names, [nbytes], repeats, timeout=LIMIT)[0]
    return found["two_level"][0], found["ring"][0]


CLAIMS = [
    Claim(
        id="08-ping-pong",
        sentence="A ring allreduce takes longer than a ping-pong of two ranks predicts.",
        experiment=measured_and_predicted,
        seeds=range(5),
        settings={"1 KB": {"nbytes": 1_024}, "4 MB": {"nbytes": 4_194_304}},
        verdict="holds",
        margin=0.5,
        scale="ratio",
        axis="the size",
        ours="measured",
        rival="predicted",
        unit="s",
        smallest=SHORT,
    ),
    Claim(
        id="08-two-levels",
        sentence="Between hosts with two ranks each, an allreduce in two levels takes less time "
        "than one ring.",
        experiment=two_levels,
        seeds=range(5),
        settings={
            "16 KB, 100 Mbit/s": {"nbytes": 16_384, "rate": 100e6},
            "1 MB, 100 Mbit/s": {"nbytes": 1_048_576, "rate": 100e6},
            "1 MB, 1 Gbit/s": {"nbytes": 1_048_576, "rate": 1e9},
        },
        verdict="depends on the size and the link",
        margin=0.1,
        larger=False,
        scale="ratio",
        axis="the size and the link",
        ours="two levels",
        rival="one ring",
        unit="s",
        smallest=SHORT,
    ),
]
