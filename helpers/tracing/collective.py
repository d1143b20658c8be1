"""Watched collectives, and makers of communicators and of persistent requests.

They come with some forty signatures of up to seven parameters. What takes a method's place is
compiled from one template with mpi4py's own parameters, since watching is on for every call and a
closure over ``*args`` takes 0.1 µs longer, with keywords 0.3. While recording, it hands over to a
closure.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from time import perf_counter_ns
from types import CodeType
from typing import Any

from mpi4py import MPI

from helpers.tracing.activity import COLLECTIVE, RECEIVE, SEND, Watched
from helpers.tracing.point_to_point import Method, Table, keep
from helpers.tracing.requests import timed, traced_request
from helpers.tracing.sizes import nbytes, size_of_collective

TEMPLATE = """
def call({arguments}):
    recorder = self.recorder
    if recorder.events is not None and recorded:
        return recorded({arguments})
    recorder.current = (name, {peer}, {tag}, now(), self._members)
    try:
        return {result}
    finally:
        recorder.current = None
"""

# What becomes of a call's result: a function of (communicator, result, peer, tag, first argument).
Finish = Callable[[Watched, Any, Any, Any, Any], Any]


def _collective(name: str, plain: Method) -> Method:
    """Every collective that blocks."""
    return _fill(name, plain, _recorded(name, plain))


def _icollective(name: str, plain: Method) -> Method:
    """Every collective that does not block."""

    def finish(comm: Watched, request: Any, peer: Any, tag: Any, _: Any) -> Any:
        return traced_request(request, comm, name, peer, tag)

    return _fill(name, plain, _recorded(name, plain, immediate=True), finish)


def _maker(name: str, plain: Method) -> Method:
    """What makes a new communicator."""

    def finish(comm: Any, made: Any, *_: Any) -> Any:
        return comm._adopt(made, name)

    return _fill(name, plain, _recorded(name, plain, finish), finish)


def _later(name: str, plain: Method) -> Method:
    """What makes a new communicator in the background: a communicator and a request."""

    def finish(comm: Any, made: Any, *_: Any) -> Any:
        return comm._adopt_later(made, name)

    return _fill(name, plain, _recorded(name, plain, finish), finish)


def _persistent(name: str, plain: Method) -> Method:
    """Send_init and its relatives, which move nothing themselves: each Start will be recorded."""
    if name.startswith(("Send", "Bsend", "Ssend", "Rsend")):
        kind = SEND
    else:
        kind = RECEIVE if name == "Recv_init" else COLLECTIVE

    def finish(comm: Watched, request: Any, peer: Any, tag: Any, buf: Any) -> Any:
        start = (kind, nbytes(buf) if kind == SEND else 0)
        return traced_request(request, comm, name, peer, tag, start)

    return _fill(name, plain, None, finish)


def _fill(
    name: str, plain: Method, recorded: Method | None, finish: Finish | None = None
) -> Method:
    """Fill the template for one of mpi4py's methods."""
    names: dict[str, Any] = {
        "name": name,
        "plain": plain,
        "recorded": recorded,
        "finish": finish,
        "now": perf_counter_ns,
        "ANY_TAG": MPI.ANY_TAG,
    }
    exec(_code(_parameters(plain), finish is not None), names)
    return names["call"]


@functools.cache  # it is asked for twice
def _parameters(plain: Method) -> tuple[str, ...]:
    return tuple(inspect.signature(plain).parameters)


@functools.cache  # methods of one signature share the code
def _code(parameters: tuple[str, ...], finishes: bool) -> CodeType:
    peer, tag = "'all'", "None"
    if "root" in parameters:
        peer = "self._world.get(root, root)"
    elif "dest" in parameters:
        peer, tag = "self._world.get(dest, dest)", "tag"
    elif "source" in parameters:
        peer, tag = "self._world.get(source, source)", "'ANY_TAG' if tag == ANY_TAG else tag"
    arguments = ", ".join(parameters)
    result = f"plain({arguments})"
    if finishes:
        result = f"finish(self, {result}, {peer}, {tag}, {(*parameters, None)[1]})"
    source = TEMPLATE.format(arguments=arguments, peer=peer, tag=tag, result=result)
    return compile(source, __name__, "exec")


def _recorded(
    name: str, plain: Method, finish: Finish | None = None, immediate: bool = False
) -> Method:
    """Make what does the call while recording, its arguments in mpi4py's order."""
    parameters = _parameters(plain)
    at = parameters.index("root") - 1 if "root" in parameters else None
    size = size_of_collective(name, parameters)

    def recorded(self: Watched, *arguments: Any) -> Any:
        peer = "all" if at is None else self._world.get(arguments[at], arguments[at])
        result, begin, end = timed(self, name, peer, None, plain, self, *arguments)
        n = size(self, arguments, result) if size else 0
        call = (name, COLLECTIVE, self.identity, peer, None, n, begin, end, None, None)
        if immediate:
            return keep(self, call, result)
        self.recorder.add(call)
        return finish(self, result, peer, None, None) if finish else result

    return recorded


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
    ("Idup Idup_with_info Ishrink", _later),
    (" ".join(f"{name}_init" for name in _DATA), _persistent),
    ("Send_init Bsend_init Ssend_init Rsend_init Recv_init Psend_init Precv_init", _persistent),
)
