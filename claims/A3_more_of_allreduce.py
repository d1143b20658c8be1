"""What appendix A3 concludes: what cyclic placement costs."""

from __future__ import annotations

import functools

from helpers.claims import Claim
from helpers.claims.ranks import ranks

LIMIT = 120  # seconds for one call on the ranks


@functools.cache
def _ring(seed: int, rate: float, nbytes: int, repeats: int, placement: str) -> float:
    """Seconds of a ring on four hosts with two ranks each."""
    from helpers.cluster import Network
    from helpers.collectives import measure

    hosts = ranks(8, Network(4, rate=rate, placement=placement))
    found = hosts.run(measure.allreduce_times, ["ring"], [nbytes], repeats, timeout=LIMIT)[0]
    return found["ring"][0]


def placement(seed: int, rate: float, nbytes: int, repeats: int = 5) -> tuple[float, float]:
    """Seconds of the ring in cyclic placement, and in block placement."""
    given = seed, rate, nbytes, repeats
    return _ring(*given, "cyclic"), _ring(*given, "block")


CLAIMS = [
    Claim(
        id="A3-placement",
        sentence="A ring allreduce takes longer in cyclic than in block placement of its ranks.",
        experiment=placement,
        seeds=range(5),
        settings={
            f"{name}, 100 Mbit/s": {"nbytes": nbytes, "rate": 100e6}
            for name, nbytes in (("256 KB", 262_144), ("1 MB", 1_048_576))
        },
        verdict="holds",
        margin=0.5,
        scale="ratio",
        axis="the size",
        ours="cyclic",
        rival="block",
        unit="s",
        smallest={"repeats": 1, "nbytes": 16_384},
    ),
]
