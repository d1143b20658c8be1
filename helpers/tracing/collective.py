"""Watched collectives, and makers of communicators.

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

from helpers.tracing.activity import COLLECTIVE, Watched
from helpers.tracing.point_to_point import Method, Table, keep
from helpers.tracing.requests import timed, traced_request
from helpers.tracing.sizes import size_of_collective

TEMPLATE = """
def call({arguments}):
    recorder = self.recorder
    if recorder.events is not None:
        return recorded({arguments})
    recorder.current = (name, {peer}, None, now(), self._members)
    try:
        return {result}
    finally:
        recorder.current = None
"""

Finish = Callable[[Any, Any, Any], Any]  # of (communicator, a call's result, peer): what it becomes


def _collective(name: str, plain: Method) -> Method:
    """Every collective that blocks."""
    return _fill(name, plain)


def _icollective(name: str, plain: Method) -> Method:
    """Every collective that does not block."""

    def finish(comm: Watched, request: Any, peer: Any) -> Any:
        return traced_request(request, comm, name, peer, None)

    return _fill(name, plain, finish, immediate=True)


def _maker(name: str, plain: Method) -> Method:
    """What makes a new communicator."""
    return _fill(name, plain, lambda comm, made, _: comm._adopt(made, name))


def _fill(
    name: str, plain: Method, finish: Finish | None = None, immediate: bool = False
) -> Method:
    """Fill the template for one of mpi4py's methods."""
    names: dict[str, Any] = {
        "name": name,
        "plain": plain,
        "recorded": _recorded(name, plain, finish, immediate),
        "finish": finish,
        "now": perf_counter_ns,
    }
    exec(_code(_parameters(plain), finish is not None), names)
    return names["call"]


@functools.cache  # it is asked for twice
def _parameters(plain: Method) -> tuple[str, ...]:
    return tuple(inspect.signature(plain).parameters)


@functools.cache  # methods of one signature share the code
def _code(parameters: tuple[str, ...], finishes: bool) -> CodeType:
    peer = "self._world.get(root, root)" if "root" in parameters else "'all'"
    arguments = ", ".join(parameters)
    result = f"finish(self, plain({arguments}), {peer})" if finishes else f"plain({arguments})"
    source = TEMPLATE.format(arguments=arguments, peer=peer, result=result)
    return compile(source, __name__, "exec")


def _recorded(name: str, plain: Method, finish: Finish | None, immediate: bool) -> Method:
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
        return finish(self, result, peer) if finish else result

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
)
