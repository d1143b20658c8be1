"""What a collective costs: the α-β-γ model, fitted, compared, and run for thousands of ranks.

A message of m bytes takes α + m·β seconds, and adding m bytes takes m·γ (Hockney 1994; Thakur,
Rabenseifner and Gropp 2005, section 3). An algorithm's time follows from the steps that must come
one after another; it is a fixed part plus a part for each byte, so any two algorithms cross at one
size, which :func:`crossover` gives.

    >>> link = Link("example", alpha=10e-6, beta=1e-9)
    >>> allreduce("ring", 4, link).at(4_000_000)        # 6 · (10 µs + 1 MB · 1 ns/B)
    0.00606
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from helpers.timing import seconds

ALGORITHMS = ("chain", "tree", "recursive_doubling", "ring")


@dataclass(frozen=True)
class Link:
    """What a message costs: ``alpha`` s each, ``beta`` s a byte, and ``gamma`` s a byte added.

    ``origin`` says where the figures are from. Raises ValueError for a negative figure.
    """

    name: str
    alpha: float
    beta: float
    gamma: float = 0.0
    origin: str = ""

    def __post_init__(self):
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
        """Seconds for one message of ``size`` bytes."""
        return self.alpha + size * self.beta

    def __str__(self) -> str:
        return f"{self.name}: α = {seconds(self.alpha)}, 1/β = {self.bandwidth / 1e9:.3g} GB/s"


class Cost(NamedTuple):
    """Seconds: ``fixed``, and ``per_byte`` for each byte of the array."""

    fixed: float
    per_byte: float

    def at(self, K: float) -> float:
        """Seconds for an array of ``K`` bytes."""
        return self.fixed + self.per_byte * K

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.fixed + other.fixed, self.per_byte + other.per_byte)


class Path(NamedTuple):
    """What lies one after another: messages, and bytes sent and added as multiples of K."""

    messages: float
    sent: float
    added: float

    def cost(self, link: Link) -> Cost:
        return Cost(self.messages * link.alpha, self.sent * link.beta + self.added * link.gamma)


def path(algorithm: str, ranks: int, pieces: int = 1) -> Path:
    """Return the longest path of an allreduce, cut into ``pieces`` as ``collectives.allreduce``.

    The chain's pieces follow one another, so all but the first are hidden; the others' are not.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"the cost is known of {', '.join(ALGORITHMS)}; got {algorithm!r}")
    if ranks < 1 or pieces < 1:
        raise ValueError(f"expects ranks >= 1 and pieces >= 1; got {ranks=}, {pieces=}")
    N, p = ranks, pieces
    if N == 1:
        return Path(0, 0.0, 0.0)
    if algorithm == "chain":
        steps = N - 2 + p  # N−1 for the first piece, one more for each of the others
        return Path(2 * steps, 2 * steps / p, steps / p)
    if algorithm == "tree":
        levels = (N - 1).bit_length()  # ⌈log₂ N⌉
        return Path(2 * levels * p, 2.0 * levels, float(levels))
    if algorithm == "recursive_doubling":
        levels = N.bit_length() - 1  # ⌊log₂ N⌋
        fold = int(N & (N - 1) != 0)  # one step before and one after unless N is a power of two
        return Path((levels + 2 * fold) * p, float(levels + 2 * fold), float(levels + fold))
    return Path(2 * (N - 1) * p, 2 * (N - 1) / N, (N - 1) / N)


def steps(algorithm: str, ranks: int, pieces: int = 1) -> int:
    """Return how many messages must follow one another.

    >>> steps("ring", 8), steps("tree", 8), steps("recursive_doubling", 8), steps("chain", 8)
    (14, 6, 3, 14)
    """
    return int(path(algorithm, ranks, pieces).messages)


def sent(algorithm: str, ranks: int) -> float:
    """Return the bytes that the busiest rank sends, as a multiple of the array's size K.

    >>> sent("ring", 4), sent("tree", 4), sent("chain", 4)
    (1.5, 2.0, 2.0)
    """
    N = ranks
    if N == 1 or algorithm == "ring":
        return path(algorithm, N).sent
    levels = (N - 1).bit_length()
    if algorithm == "chain":
        return 2.0 if N > 2 else 1.0
    if algorithm == "tree":
        return float(levels)
    path(algorithm, N)  # refuses unknown names
    return float(levels)  # ⌊log₂ N⌋ exchanges, and one array more if N is no power of two


def allreduce(algorithm: str, ranks: int, link: Link, pieces: int = 1) -> Cost:
    """Return what an allreduce over ``ranks`` ranks costs when all messages take ``link``."""
    return path(algorithm, ranks, pieces).cost(link)


@dataclass(frozen=True)
class Machine:
    """``nodes`` of ``per_node`` ranks (GPUs): ``inside`` joins those of a node, ``between`` nodes.

    A node has ``ports`` links to the network, of ``between``'s bandwidth each.
    """

    nodes: int
    per_node: int
    inside: Link
    between: Link
    ports: int = 1

    def __post_init__(self):
        if min(self.nodes, self.per_node, self.ports) < 1:
            raise ValueError(
                "a machine needs at least one node, rank a node and port; got "
                f"nodes={self.nodes}, per_node={self.per_node}, ports={self.ports}"
            )

    @property
    def ranks(self) -> int:
        return self.nodes * self.per_node

    def flat_ring(self) -> Cost:
        """One ring through all ranks, node after node: every step waits for its slowest link."""
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
        """A binomial tree in every node under a binomial tree of the nodes."""
        return allreduce("tree", self.per_node, self.inside) + allreduce(
            "tree", self.nodes, self.between
        )

    def two_level(self, algorithm: str = "ring") -> Cost:
        """Reduce-scatter in every node, allreduce of each part between nodes, allgather in it.

        Each of a node's G ranks reduces its own part, K/G bytes, with its fellows in other nodes;
        the G of them share the node's ports.
        """
        share = max(1.0, self.per_node / self.ports)  # ranks behind one port
        port = Link("shared", self.between.alpha, self.between.beta * share, self.between.gamma)
        part = allreduce(algorithm, self.nodes, port)
        return allreduce("ring", self.per_node, self.inside) + Cost(
            part.fixed, part.per_byte / self.per_node
        )


def crossover(low: Cost, high: Cost) -> float | None:
    """Return the size in bytes from which ``high`` is the faster; None if it never is.

    0 if it is from the start.
    """
    if low.fixed >= high.fixed and low.per_byte >= high.per_byte:
        return 0.0 if low != high else None
    if low.per_byte <= high.per_byte:
        return None
    return (high.fixed - low.fixed) / (low.per_byte - high.per_byte)


def fit(samples: Iterable[tuple[float, float]], name: str = "fitted", gamma: float = 0.0) -> Link:
    """Fit α and β to (bytes, seconds) of single messages; return them as a Link.

    Minimises the *relative* error, so that short messages count as much as long ones; neither
    figure may become negative. Raises ValueError for fewer than two different sizes.
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
