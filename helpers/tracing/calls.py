"""The table of MPI calls to watch, and the wrappers made from it.

mpi4py has some 150 calls of a few shapes. A shape is what a call says about its peer (a send names
a destination, a receive a source, a collective a root or nobody) and what becomes of its result.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator

from helpers.tracing import collective, point_to_point
from helpers.tracing.point_to_point import Method

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

# names, and what makes a watched method of (name, mpi4py's method)
TABLE: tuple[tuple[str, Callable[[str, Method], Method]], ...] = (
    ("Send Bsend Ssend Rsend Isend Ibsend Issend Irsend", point_to_point.send),
    ("send bsend ssend isend ibsend issend", point_to_point.send_pickled),
    ("Recv recv", point_to_point.receive),
    ("Irecv irecv", point_to_point.ireceive),
    ("Sendrecv", point_to_point.exchange),
    ("Sendrecv_replace", point_to_point.exchange_replace),
    ("sendrecv", point_to_point.exchange_pickled),
    ("Isendrecv", point_to_point.iexchange),
    ("Isendrecv_replace", point_to_point.iexchange_replace),
    ("Probe probe Iprobe iprobe Mprobe mprobe Improbe improbe", point_to_point.probe),
    ("Send_init Bsend_init Ssend_init Rsend_init Recv_init", collective.persistent),
    ("Psend_init Precv_init", collective.persistent),
    (" ".join(f"{name}_init" for name in _DATA), collective.persistent),
    (" ".join(_DATA), collective.collective),
    (" ".join(_LOWER), collective.collective),
    (" ".join(f"I{name}" for name in _LOWER), collective.icollective),
    ("Iagree", collective.icollective),
    ("Free Disconnect Agree Accept Connect", collective.collective),
    ("Spawn Spawn_multiple", collective.maker),
    (_MAKERS, collective.maker),
    ("Idup Idup_with_info Ishrink", collective.later),
)


def wrappers(plain: type) -> Iterator[tuple[str, Method]]:
    """Make what takes the place of each watched method of a communicator class.

    Parameters
    ----------
    plain : type
        One of mpi4py's communicator classes.

    Yields
    ------
    name : str
        MPI's name, as far as the class has it.
    method : callable
        With mpi4py's signature and documentation.
    """
    for names, make in TABLE:
        for name in names.split():
            if hasattr(plain, name):
                yield name, _dressed(name, getattr(plain, name), make)


def _dressed(name: str, plain: Method, make: Callable[[str, Method], Method]) -> Method:
    """Give a watched method mpi4py's defaults, name and documentation."""
    made = make(name, plain)
    parameters = inspect.signature(plain).parameters.values()
    made.__defaults__ = tuple(p.default for p in parameters if p.default is not p.empty)
    # In a stack that another process dumps, the name of the code is all that tells the MPI call.
    made.__code__ = made.__code__.replace(co_name=name, co_filename=f"<traced {name}>")
    return functools.wraps(plain)(made)
