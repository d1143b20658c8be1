"""Recursive halving and doubling (Rabenseifner 2004) as a picture: who sends which chunk when.

It is no algorithm of :data:`helpers.collectives.ALGORITHMS`: notebook 08's reader writes it.
"""

from __future__ import annotations

from helpers.collectives.schedule import Schedule, Transfer


def schedule(ranks: int) -> Schedule:
    """Return the schedule of an allreduce by halving and doubling, with a chunk for each rank.

    Partners exchange halves at distance N/2, quarters at N/4, and so on, until rank r has the sums
    of chunk r; then they exchange what they have, in reverse order.
    ValueError unless there are a power of two ranks.
    """
    if ranks < 1 or ranks & (ranks - 1):
        raise ValueError(f"halving and doubling expects a power of two ranks; got {ranks}")
    distances = [1 << k for k in range(ranks.bit_length() - 1)]
    transfers: list[Transfer] = []
    for step, distance in enumerate([*reversed(distances), *distances], start=1):
        halving = step <= len(distances)
        for rank in range(ranks):
            partner = rank ^ distance
            whose = partner if halving else rank  # the chunks near this rank are sent
            chunks = [chunk for chunk in range(ranks) if chunk ^ whose < distance]
            transfers += [Transfer(step, rank, partner, chunk) for chunk in chunks]
    held = tuple((frozenset({rank}),) * ranks for rank in range(ranks))
    title = "allreduce: halving and doubling"
    return Schedule("halving", ranks, 1, ranks, tuple(transfers), held, "model", title)
