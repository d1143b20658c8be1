"""What takes the place of mpi4py's methods on a traced communicator, compiled from one template.

They come with some fifty signatures of up to seven parameters. The template is filled with mpi4py's
own parameters, since watching is on for every call and a closure over ``*args`` takes 0.1 µs
longer, with keywords 0.3. While recording, it hands over to a closure.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from time import perf_counter_ns
from types import CodeType
from typing import Any, NamedTuple

from mpi4py import MPI

from helpers.tracing.activity import Watched
from helpers.tracing.requests import traced_message, traced_request

Method = Callable[..., Any]

TEMPLATE = """
def call({parameters}):
    recorder = self.recorder
    if recorder.events is not None:
        return recorded({parameters})
    peers, shown = {peers}, {shown}
    recorder.current = (name, peers, shown, now(), self._members)
    try:
        return {result}
    finally:
        recorder.current = None
"""
PLAIN = "{made}"
REQUEST = "traced_request({made}, self, name, peers, shown)"
MESSAGE = "traced_message({made}, self)"
COMMUNICATOR = "self._adopt({made}, name)"
TAGS: dict[int, Any] = {MPI.ANY_TAG: "ANY_TAG"}


class Shape(NamedTuple):
    """How one method is watched; both functions take its arguments in mpi4py's order."""

    do: Method  # makes the call
    recorded: Method  # makes and keeps it
    result: str = PLAIN  # what becomes of what it made


# names, and what makes the shape of a method of (name, mpi4py's method)
Table = tuple[tuple[str, Callable[[str, Method], Shape]], ...]


def watched(name: str, plain: Method, make: Callable[[str, Method], Shape]) -> Method:
    """Make what takes a method's place, with mpi4py's defaults, name and documentation."""
    shape = make(name, plain)
    names: dict[str, Any] = {
        "name": name,
        "do": shape.do,
        "recorded": shape.recorded,
        "traced_request": traced_request,
        "traced_message": traced_message,
        "tags": TAGS,
        "now": perf_counter_ns,
    }
    exec(_code(parameters_of(plain), shape.result), names)
    call = names["call"]
    each = inspect.signature(plain).parameters.values()
    call.__defaults__ = tuple(p.default for p in each if p.default is not p.empty)
    # In a stack that another process dumps, the name of the code is all that tells the MPI call.
    call.__code__ = call.__code__.replace(co_name=name, co_filename=f"<traced {name}>")
    return functools.wraps(plain)(call)


def parameters_of(plain: Method) -> tuple[str, ...]:
    """Return mpi4py's names of a method's parameters, ``self`` first."""
    return tuple(inspect.signature(plain).parameters)


@functools.cache  # methods of one signature share the code
def _code(parameters: tuple[str, ...], result: str) -> CodeType:
    ends = [end for end in ("dest", "source", "root") if end in parameters]
    found = [f"self._world.get({end}, {end})" for end in ends] or ["'all'"]
    tag = "sendtag" if "sendtag" in parameters else "tag" if ends and "tag" in parameters else None
    arguments = ", ".join(parameters)
    source = TEMPLATE.format(
        parameters=arguments,
        peers=found[0] if len(found) == 1 else f"({', '.join(found)})",
        shown=f"tags.get({tag}, {tag})" if ends == ["source"] else tag,
        result=result.format(made=f"do({arguments})"),
    )
    return compile(source, __name__, "exec")


def keep(comm: Watched, call: tuple, request: MPI.Request | None = None) -> MPI.Request | None:
    """Keep a call while recording; return its request, if any, which will complete the call."""
    if request is None:
        comm.recorder.add(call)
        return None
    later = list(call)
    comm.recorder.add(later)
    made = traced_request(request, comm, call[0], call[3], call[4], later)
    if comm.recorder.held is not None:
        comm.recorder.held.append(made)
    return made
