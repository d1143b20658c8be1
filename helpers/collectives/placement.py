"""What an allreduce costs when its ranks lie on several hosts, and each host has one link.

The model of :mod:`helpers.collectives.cost` takes every message for as long as any other. Between
hosts it is not so: ranks of one host share its link, and those that do not cross share nothing.
Here each step of a schedule takes as long as its slowest part: a message within a host, or all that
a host sends, or receives, in that step through its link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from helpers.collectives.cost import Link
from helpers.collectives.parts import Hosts, lengths, split
from helpers.collectives.registry import ALGORITHMS, find
from helpers.collectives.schedule import Schedule, model


def seconds(
    algorithm: str,
    sizes: Sequence[int],
    hosts: Hosts,
    inside: Link,
    between: Link,
) -> list[float]:
    """Predict an allreduce of ranks that lie on several hosts.

    Two ranks on each of two hosts, 1 MB/s between them. In block placement, one rank of each host
    sends to another host; in cyclic placement, both do, through the same link:

    >>> slow, memory = Link("1 MB/s", 0.0, 1e-6), Link("memory", 0.0, 0.0)
    >>> seconds("ring", [4000], (0, 0, 1, 1), memory, slow)
    [0.006]
    >>> seconds("ring", [4000], (0, 1, 0, 1), memory, slow)
    [0.012]

    Parameters
    ----------
    sizes
        Of the arrays, in bytes.
    hosts
        The host of each rank.
    inside, between
        A message between two ranks of a host, and between two hosts that have their links to
        themselves.

    Returns
    -------
    list of float
        Seconds for each of ``sizes``.
    """
    find(algorithm, ALGORITHMS)
    schedule = model(algorithm, len(hosts), hosts=hosts)
    return [_seconds(schedule, size, hosts, inside, between) for size in sizes]


def _seconds(schedule: Schedule, size: int, hosts: Hosts, inside: Link, between: Link) -> float:
    chunks, total = lengths(split(size, schedule.chunks)), 0.0
    for step in range(1, schedule.steps + 1):
        within, out, into = [0.0], Counter[int](), Counter[int]()
        for one in schedule.at(step):
            bytes_sent = chunks[one.chunk]
            here, there = hosts[one.source], hosts[one.dest]
            if here == there:
                within.append(inside.message(bytes_sent))
            else:
                out[here] += bytes_sent
                into[there] += bytes_sent
        crossed = [between.message(load) for load in (*out.values(), *into.values())]
        total += max(within + crossed)
    return total
