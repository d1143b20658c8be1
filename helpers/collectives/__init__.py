"""MPI's collectives by hand, on point-to-point messages, and what they cost.

    >>> from helpers.collectives import allreduce
    >>> total = allreduce(gradient, comm, algorithm="ring")     # on every rank  # doctest: +SKIP

One module per family, each short enough to be read aloud: :mod:`.chain`, :mod:`.tree`,
:mod:`.doubling`, :mod:`.ring`, :mod:`.rooted`. They only pass messages; the arithmetic is in
:mod:`.reduction`, the checks of arguments in :mod:`.calls`. :mod:`.schedule` says who sends what to
whom at which step, :mod:`.cost` how long it takes, :mod:`.links` what a link can do.
"""

from helpers.collectives.api import (
    ALGORITHMS,
    allgather,
    allreduce,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

__all__ = [
    "ALGORITHMS",
    "allgather",
    "allreduce",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
