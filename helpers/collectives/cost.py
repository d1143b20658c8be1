"""What a collective costs: the α-β-γ model, fitted, compared, and run for thousands of ranks.

A message of m bytes takes α + m·β seconds, and adding m bytes takes m·γ (Hockney 1994; Thakur,
Rabenseifner and Gropp 2005, section 3). An algorithm's time follows from the steps that must come
one after another; it is a fixed part plus a part for each byte, so any two algorithms cross at one
size, which :func:`crossover` gives.

    >>> link = Link("example", alpha=10e-6, beta=1e-9)
    >>> round(allreduce("ring", 4, link).at(4_000_000), 9)  # 6 · (10 µs + 1 MB · 1 ns/B)
    0.00606
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from helpers.collectives.parts import Hosts, one_host
from helpers.collectives.registry import ALGORITHMS, CriticalPath, find
from helpers.timing import seconds


@dataclass(frozen=True)
class Link:
    """What a message costs; no figure is negative.

    Parameters
    ----------
    alpha : float
        Latency: seconds for each message.
    beta : float
        Seconds for each byte sent.
    gamma : float
        Seconds for each byte added to what was there.
    """

    name: str
    alpha: float
    beta: float
    gamma: float = 0.0
    origin: str = ""

    def __post_init__(self) -> None:
        if not (self.alpha >= 0 and self.beta >= 0 and self.gamma >= 0):
            raise ValueError(
                "a link's alpha, beta and gamma must be at least 0 s; got "
                f"alpha={self.alpha}, beta={self.beta}, gamma={self.gamma}"
            )

    @property
    def bandwidth(self) -> float:
        """Bytes per second of a message that never ends."""
        return 1 / self.beta if self.beta else math.inf

    def message(self, size: float) -> float:
        """Return the seconds that one message of ``size`` bytes takes."""
        return self.alpha + size * self.beta

    def __str__(self) -> str:
        slow = self.bandwidth < 1e8
        rate = f"{self.bandwidth / 1e6:.3g} MB/s" if slow else f"{self.bandwidth / 1e9:.3g} GB/s"
        return f"{self.name}: α = {seconds(self.alpha)}, 1/β = {rate}"


class Cost(NamedTuple):
    """What an array costs: seconds whatever its size, and seconds for each byte of it."""

    fixed: float
    per_byte: float

    def at(self, K: float) -> float:
        """Return the seconds that an array of K bytes takes."""
        return self.fixed + self.per_byte * K

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        return Cost(self.fixed + other.fixed, self.per_byte + other.per_byte)


def path(algorithm: str, ranks: int, pieces: int = 1, hosts: Hosts | None = None) -> CriticalPath:
    """Return the longest path of an allreduce, cut into ``pieces`` as by ``collectives.allreduce``.

    The chain's pieces follow one another, so all but the first are hidden; the others' are not.
    """
    chosen = find(algorithm, ALGORITHMS)
    if ranks < 1 or pieces < 1:
        raise ValueError(f"expects ranks >= 1 and pieces >= 1; got {ranks=}, {pieces=}")
    if ranks == 1:
        return CriticalPath(0, 0.0, 0.0)
    where = chosen.on_hosts(one_host(ranks) if hosts is None else hosts)
    return chosen.path(ranks, pieces, **where)


def steps(algorithm: str, ranks: int, pieces: int = 1) -> int:
    """Return how many messages must follow one another.

    >>> steps("ring", 8), steps("tree", 8), steps("recursive_doubling", 8), steps("chain", 8)
    (14, 6, 3, 14)
    """
    return path(algorithm, ranks, pieces).steps


def sent(algorithm: str, ranks: int, hosts: Hosts | None = None) -> float:
    """Return the bytes that the busiest rank sends, as a multiple of the array's size K.

    >>> sent("ring", 4), sent("tree", 4), sent("chain", 4)
    (1.5, 2.0, 2.0)

    Parameters
    ----------
    hosts
        The host of each rank, such as ``(0, 0, 1, 1)``; None: all ranks share one.
    """
    chosen = find(algorithm, ALGORITHMS)
    if ranks == 1:
        return 0.0
    return chosen.sent(ranks, **chosen.on_hosts(one_host(ranks) if hosts is None else hosts))


def allreduce(algorithm: str, ranks: int, link: Link, pieces: int = 1) -> Cost:
    """Return what an allreduce costs, in seconds, when all messages take ``link``.

    Where ranks lie on several hosts, see :func:`helpers.collectives.placement.seconds`.

    Parameters
    ----------
    algorithm
        One of :data:`helpers.collectives.ALGORITHMS`.
    pieces
        Into how many messages the array, or each rank's part, is cut.
    """
    way = path(algorithm, ranks, pieces)
    return Cost(way.messages * link.alpha, way.sent * link.beta + way.added * link.gamma)


def halving_doubling(ranks: int, link: Link) -> Cost:
    """Return what halving and doubling costs on 2^L ranks: the ring's bytes in 2 L steps."""
    if ranks < 1 or ranks & (ranks - 1):
        raise ValueError(f"halving and doubling expects a power of two ranks; got {ranks}")
    levels = ranks.bit_length() - 1
    return Cost(2 * levels * link.alpha, allreduce("ring", ranks, link).per_byte)


@dataclass(frozen=True)
class Machine:
    """Nodes of several ranks (GPUs) each, joined by another link inside than between them.

    ``ports`` is how many links of ``between``'s bandwidth a node has to the network.
    """

    nodes: int
    per_node: int
    inside: Link
    between: Link
    ports: int = 1

    def __post_init__(self) -> None:
        if min(self.nodes, self.per_node, self.ports) < 1:
            raise ValueError(
                "a machine needs at least one node, rank a node and port; got "
                f"nodes={self.nodes}, per_node={self.per_node}, ports={self.ports}"
            )

    @property
    def ranks(self) -> int:
        """How many there are in all nodes."""
        return self.nodes * self.per_node

    def flat_ring(self) -> Cost:
        """Return the cost of one ring through all ranks: every step waits for its slowest link."""
        links = ([self.inside] if self.per_node > 1 else []) + (
            [self.between] if self.nodes > 1 else []
        )
        if not links:
            return Cost(0.0, 0.0)
        slowest = Link(
            "slowest",
            max(link.alpha for link in links),
            max(link.beta for link in links),
            max(link.gamma for link in links),
        )
        return allreduce("ring", self.ranks, slowest)

    def tree(self) -> Cost:
        """Return the cost of a binomial tree in every node under a binomial tree of the nodes."""
        return allreduce("tree", self.per_node, self.inside) + allreduce(
            "tree", self.nodes, self.between
        )

    def two_level(self, halving: bool = False) -> Cost:
        """Return the cost of two levels, one after the other.

        Reduce-scatter in every node, allreduce of each part between nodes, allgather in every node.
        Each of a node's G ranks reduces its own part, K/G bytes, with its fellows in other nodes,
        by a ring or by halving and doubling; the G of them share the node's ports.
        """
        share = max(1.0, self.per_node / self.ports)  # ranks behind one port
        port = Link("shared", self.between.alpha, self.between.beta * share, self.between.gamma)
        part = (
            halving_doubling(self.nodes, port) if halving else allreduce("ring", self.nodes, port)
        )
        return allreduce("ring", self.per_node, self.inside) + Cost(
            part.fixed, part.per_byte / self.per_node
        )

    def ways(self) -> dict[str, Cost]:
        """Return the costs of the four ways that notebook 08 compares, on 2^L nodes."""
        return {
            "flat ring": self.flat_ring(),
            "tree": self.tree(),
            "two levels, ring": self.two_level(),
            "two levels, halving": self.two_level(halving=True),
        }


def crossover(low: Cost, high: Cost) -> float | None:
    """Return the bytes from which ``high`` is the faster: 0 if always, None if never."""
    if low.fixed >= high.fixed and low.per_byte >= high.per_byte:
        return 0.0 if low != high else None
    if low.per_byte <= high.per_byte:
        return None
    return (high.fixed - low.fixed) / (low.per_byte - high.per_byte)


def fit(samples: Iterable[tuple[float, float]], name: str = "fitted", gamma: float = 0.0) -> Link:
    """Fit α and β, neither negative, to single messages by least squares of the *relative* error.

    Short messages then count as much as long ones.

    Parameters
    ----------
    samples
        Bytes and seconds of each message, of two sizes at least, else ValueError.
    gamma
        Seconds for each byte added, measured elsewhere.
    """
    import numpy as np
    from scipy.optimize import nnls

    size, time = np.array(list(samples), float).reshape(-1, 2).T
    if len(np.unique(size)) < 2 or not (time > 0).all():
        raise ValueError(
            "a fit needs messages of at least two sizes, with times above 0 s; got sizes "
            f"{sorted(set(size.tolist()))}"
        )
    weighted = np.stack([1 / time, size / time], axis=1)
    scale = weighted.max(axis=0)
    (alpha, beta), _ = nnls(weighted / scale, np.ones(len(time)))
    return Link(name, float(alpha / scale[0]), float(beta / scale[1]), gamma, "measured here")
