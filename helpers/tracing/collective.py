"""Watched collectives, and makers of communicators (see :mod:`helpers.tracing.watching`)."""

from __future__ import annotations

from typing import Any

from helpers.tracing.activity import COLLECTIVE, Watched
from helpers.tracing.sizes import size_of_collective
from helpers.tracing.watching import (
    COMMUNICATOR,
    PLAIN,
    REQUEST,
    Method,
    Shape,
    Table,
    kept,
    parameters_of,
)


def _collective(name: str, plain: Method, result: str = PLAIN) -> Shape:
    """Every collective that blocks."""
    size = size_of_collective(name, parameters_of(plain))

    def keep(
        comm: Watched, made: Any, begin: int, end: int, peer: Any, tag: Any, given: tuple
    ) -> Any:
        n = size(comm, given, made) if size else 0
        call = (name, COLLECTIVE, comm.identity, peer, None, n, begin, end, None, None)
        if result == REQUEST:
            return kept(comm, call, made)
        kept(comm, call)
        return comm._adopt(made, name) if result == COMMUNICATOR else made

    return Shape(keep, result)


def _icollective(name: str, plain: Method) -> Shape:
    """Every collective that does not block."""
    return _collective(name, plain, REQUEST)


def _maker(name: str, plain: Method) -> Shape:
    """What makes a new communicator."""
    return _collective(name, plain, COMMUNICATOR)


_DATA = (  # noqa: SIM905
    "Allgather Allgatherv Allreduce Alltoall Alltoallv Alltoallw Barrier Bcast Exscan Gather "
    "Gatherv Reduce Reduce_scatter Reduce_scatter_block Scan Scatter Scatterv Neighbor_allgather "
    "Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw"
).split(" ")
_LOWER = [name[0].lower() + name[1:] for name in _DATA]
_MAKERS = (
    "Clone Dup Dup_with_info Split Split_type Create Create_group Create_cart Create_graph "
    "Create_dist_graph Create_dist_graph_adjacent Create_intercomm Merge Shrink Sub"
)

TABLE: Table = (
    (" ".join(_DATA), _collective),
    (" ".join(_LOWER), _collective),
    ("Free Disconnect Agree Accept Connect", _collective),
    (" ".join(f"I{name}" for name in _LOWER), _icollective),
    ("Iagree", _icollective),
    (_MAKERS, _maker),
    ("Spawn Spawn_multiple", _maker),
)
