"""MPI's collectives by hand, on point-to-point messages, and what they cost.

    >>> from helpers.collectives import allreduce
    >>> total = allreduce(gradient, comm, algorithm="ring")     # on every rank  # doctest: +SKIP

One module per family of algorithms, :mod:`.chain` for instance. Each passes messages, says what
they cost, and enters itself in :mod:`.registry`, from which the calls (:mod:`.api`), the cost model
(:mod:`.cost`), schedules (:mod:`.schedule`) and pictures have it: a new algorithm is one module and
its name in the import below. :mod:`.links` says what a link can do.
"""

# Each enters itself in the registry; the order is that of tables and pictures.
from helpers.collectives import rooted, chain, tree, doubling, ring, two_level  # isort: skip  # noqa: F401

from helpers.collectives.api import (
    allgather,
    allreduce,
    broadcast,
    gather,
    reduce,
    scatter,
)
from helpers.collectives.registry import ALGORITHMS

__all__ = [
    "ALGORITHMS",
    "allgather",
    "allreduce",
    "broadcast",
    "gather",
    "reduce",
    "scatter",
]
