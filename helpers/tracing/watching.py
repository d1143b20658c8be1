"""What takes the place of mpi4py's methods on a traced communicator, compiled from one template.

They come with some fifty signatures of up to seven parameters. The template is filled with mpi4py's
own parameters, since watching is on for every call and a closure over ``*args`` takes 0.1 µs
longer, with keywords 0.3. While recording, it hands the finished call to a closure to be kept.
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
    recorder, peers, shown = self.recorder, {peers}, {shown}
    recording = recorder.events is not None
    {prepare}
    begin = now()
    recorder.current = (name, peers, shown, begin, self._members)
    try:
        made = {made}
    finally:
        recorder.current = None
    if recording:
        return keep(self, made, begin, now(), peers, shown, ({arguments}))
    return {result}
"""
PLAIN = "made"
REQUEST = "traced_request(made, self, name, peers, shown)"
MESSAGE = "traced_message(made, self)"
COMMUNICATOR = "self._adopt(made, name)"
TAGS: dict[int, Any] = {MPI.ANY_TAG: "ANY_TAG"}


class Shape(NamedTuple):
    """How one method is watched; ``anyone`` and ``packed`` take its arguments in mpi4py's order."""

    # Keeps the call and returns its result, given the communicator, what mpi4py returned, when the
    # call began and ended, its peer or (destination, source), its tag, and its arguments.
    keep: Method
    result: str = PLAIN  # what becomes of what mpi4py returned, if nothing is recorded
    anyone: Method | None = None  # makes the call if its source is ANY_SOURCE
    packed: Method | None = None  # makes the call on a pickled object, so that bytes are counted


# names, and what makes the shape of a method of (name, mpi4py's method)
Table = tuple[tuple[str, Callable[[str, Method], Shape]], ...]


def watched(name: str, plain: Method, make: Callable[[str, Method], Shape]) -> Method:
    """Make what takes a method's place, with mpi4py's defaults, name and documentation."""
    shape = make(name, plain)
    names: dict[str, Any] = {
        "name": name,
        "plain": plain,
        **shape._asdict(),
        "traced_request": traced_request,
        "traced_message": traced_message,
        "pickled": _pickled,
        "tags": TAGS,
        "now": perf_counter_ns,
        "Status": MPI.Status,
        "ANY_SOURCE": MPI.ANY_SOURCE,
    }
    anyone, packed = shape.anyone is not None, shape.packed is not None
    exec(_code(parameters_of(plain), shape.result, anyone, packed), names)
    call = names["call"]
    each = inspect.signature(plain).parameters.values()
    call.__defaults__ = tuple(p.default for p in each if p.default is not p.empty)
    # In a stack that another process dumps, the name of the code is all that tells the MPI call.
    call.__code__ = call.__code__.replace(co_name=name, co_filename=f"<traced {name}>")
    return functools.wraps(plain)(call)


def parameters_of(plain: Method) -> tuple[str, ...]:
    """Return mpi4py's names of a method's parameters, ``self`` first."""
    return tuple(inspect.signature(plain).parameters)


def _pickled(value: Any) -> list:
    """Return an object as mpi4py sends it, so that its bytes can be counted."""
    return [MPI.pickle.dumps(value), MPI.BYTE]


@functools.cache  # methods of one signature share the code
def _code(parameters: tuple[str, ...], result: str, anyone: bool, packed: bool) -> CodeType:
    ends = [end for end in ("dest", "source", "root") if end in parameters]
    found = [f"self._world.get({end}, {end})" for end in ends] or ["'all'"]
    tag = "sendtag" if "sendtag" in parameters else "tag" if ends and "tag" in parameters else None
    arguments = ", ".join(parameters)
    prepare, made = [], f"plain({arguments})"
    if "status" in parameters:
        prepare.append("if recording and status is None: status = Status()")
    if anyone:
        made += f" if source != ANY_SOURCE else anyone({arguments})"
    if packed:
        prepare.append(f"if recording: {parameters[1]} = pickled({parameters[1]})")
        made = f"packed({arguments}) if recording else {made}"
    source = TEMPLATE.format(
        parameters=arguments,
        peers=found[0] if len(found) == 1 else f"({', '.join(found)})",
        shown=f"tags.get({tag}, {tag})" if ends == ["source"] else tag,
        prepare="\n    ".join(prepare),
        made=made,
        arguments="".join(f"{name}, " for name in parameters[1:]),
        result=result,
    )
    return compile(source, __name__, "exec")


def kept(comm: Watched, call: tuple, request: MPI.Request | None = None) -> MPI.Request | None:
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
