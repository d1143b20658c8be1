"""An mpi4py communicator that tells what it is doing, and can record what it did.

``TracedComm(comm)`` is an ``MPI.Intracomm`` with the same handle, so every library takes it.
Each MPI call sets ``recorder.current`` while it is under way and, while ``recorder.events`` is a
list, appends it. Communicators and requests made from it are traced too.

mpi4py has some 150 calls of a few shapes. A shape is what a call says about its peer (a send names
a destination, a receive a source, a collective a root or nobody) and what becomes of its result.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from helpers.tracing import collective, point_to_point
from helpers.tracing.activity import Recorder
from helpers.tracing.requests import TracedMessage, TracedRequest
from helpers.tracing.watching import Method, watched
from helpers.tracing.windows import TracedWin, world_ranks

NAMES = {MPI.ANY_SOURCE: "ANY_SOURCE", MPI.PROC_NULL: "PROC_NULL"}
PREDEFINED = ("COMM_WORLD", "COMM_SELF")
PLAIN = {
    name: getattr(MPI, name) for name in (*PREDEFINED, "Request", "Message", "Win")
}  # what the module held before anything was installed
TRACED: dict[str, type] = {
    "Request": TracedRequest,
    "Message": TracedMessage,
    "Win": TracedWin,
}


class Traced:
    """What all traced communicators have in common; see :class:`TracedComm`.

    All ranks of a communicator must wrap it, in the same order as other communicators of the same
    ranks, so that the ranks agree on its identity.
    """

    __slots__ = ()
    recorder: Recorder

    def __new__(cls, comm: MPI.Comm | None = None, recorder: Recorder | None = None) -> Any:
        plain: Any = cls.__mro__[2]
        if comm is not None and not isinstance(comm, plain):
            raise TypeError(f"{cls.__name__} expects an MPI.{plain.__name__}; got {comm!r}")
        self: Any = plain.__new__(cls, comm)
        parent = comm if isinstance(comm, Traced) else None
        self.recorder = recorder or (parent.recorder if parent else Recorder())
        if parent is not None:
            self.identity, self._world = parent.identity, parent._world
            self._members = parent._members
        elif self:
            self._identify(None, "Wrap")
        else:  # a null communicator: every call on it will raise
            self.identity, self._world, self._members = None, NAMES, ()
        return self

    @property
    def world_rank(self) -> int:
        """This process's rank in ``COMM_WORLD``."""
        return PLAIN["COMM_WORLD"].Get_rank()

    def waiting(self: Any, call: str, peer: int | str, tag: int | None) -> tuple:
        """Return a value for ``recorder.current`` while a library waits by polling, from now on."""
        return call, self._world.get(peer, peer), tag, perf_counter_ns(), self._members

    def _identify(self: Any, parent: tuple | None, call: str) -> None:
        """Find the world ranks of the members, and a name that all members agree on."""
        for name in PREDEFINED:
            if self == PLAIN[name]:
                parent, call = (name,), ""
        inter = self.Is_inter()
        group = self.Get_remote_group() if inter else self.Get_group()
        self._members = members = world_ranks(group)
        group.Free()
        self._world = {**NAMES, **dict(enumerate(members))}
        key = (parent, call, None if inter else members)
        self.identity = (*key, self.recorder.count(key) if call else 0)

    def _adopt(self: Any, comm: MPI.Comm, call: str) -> MPI.Comm:
        """Return ``comm``, made by ``self.call(...)``, as a traced one (MPI.COMM_NULL stays)."""
        if not comm:
            return comm
        plain = next(base for base in type(comm).__mro__ if base in FAMILIES)
        made: Any = plain.__new__(traced_class(plain), comm)
        made.recorder = self.recorder
        made._identify(self.identity, call)
        return made

    def __reduce__(self: Any) -> Any:
        for name in PREDEFINED:
            if self == PLAIN[name]:
                return predefined, (name,)
        return self.__class__.__mro__[2](self).__reduce__()  # refused, in mpi4py's words


def predefined(name: str) -> MPI.Intracomm:
    """Return ``COMM_WORLD`` or ``COMM_SELF`` as it is now, traced or not (for unpickling)."""
    return getattr(MPI, name)


@functools.cache
def traced_class(plain: type) -> type:
    """Return the traced class for one of mpi4py's communicator classes (:data:`FAMILIES`).

    It is made at its first use: to wrap a hundred methods takes a while, and every rank starts with
    this module.
    """
    slots = ("_members", "_world", "identity", "recorder")
    name = f"Traced{plain.__name__}"
    doc = f"A traced MPI.{plain.__name__}."
    body = {"__slots__": slots, "__doc__": doc, "__module__": __name__}
    cls = type(name, (Traced, plain), body)
    for method, function in _wrappers(plain):
        setattr(cls, method, function)
    return cls


def _wrappers(plain: type) -> Iterator[tuple[str, Method]]:
    """Yield MPI's name and what takes the method's place, for each watched method of the class."""
    for names, make in (*point_to_point.TABLE, *collective.TABLE):
        for name in names.split():
            if hasattr(plain, name):
                yield name, watched(name, getattr(plain, name), make)


FAMILIES = (MPI.Intracomm, MPI.Cartcomm, MPI.Graphcomm, MPI.Distgraphcomm, MPI.Intercomm)
if TYPE_CHECKING:

    class TracedComm(Traced, MPI.Intracomm): ...  # noqa: D101

else:
    TracedComm = traced_class(MPI.Intracomm)
    TracedComm.__name__ = TracedComm.__qualname__ = "TracedComm"
TracedComm.__doc__ = """An ``MPI.Intracomm`` that reports and records its calls to ``.recorder``.

    All ranks must make it, in the same order as other communicators of the same ranks.

    Parameters
    ----------
    comm : MPI.Intracomm, optional
        Traced or not; a null communicator if it is left out.
    recorder : Recorder, optional
        By default that of ``comm`` if it is traced, else a new one.

    Raises
    ------
    TypeError
        If ``comm`` is no intracommunicator.

    Examples
    --------
    >>> comm = TracedComm(MPI.COMM_SELF)
    >>> comm.recorder.start()
    >>> comm.allreduce(3)
    3
    >>> [call[0] for call in comm.recorder.stop()]
    ['allreduce']
    """


def install(recorder: Recorder) -> None:
    """Watch ``MPI.COMM_WORLD`` and ``MPI.COMM_SELF`` themselves, for every later user of them.

    Replaces them, and the classes of requests, messages and windows, in the ``mpi4py.MPI`` module:
    do it before libraries are imported, since ``from mpi4py.MPI import COMM_WORLD`` copies the
    name. Every rank must do it.
    """
    if not isinstance(recorder, Recorder):
        raise TypeError(f"install expects a Recorder; got {recorder!r}")
    for name in PREDEFINED:
        setattr(MPI, name, TracedComm(PLAIN[name], recorder))
    _swap(TRACED)


def uninstall() -> None:
    """Undo :func:`install` (communicators made meanwhile stay traced)."""
    _swap(PLAIN)


@contextmanager
def installed_requests() -> Iterator[None]:
    """Make ``MPI.Request.Waitall`` and its like the traced ones while the block runs."""
    before = {name: getattr(MPI, name) for name in TRACED}
    _swap(TRACED)
    try:
        yield
    finally:
        _swap(before)


def _swap(values: dict) -> None:
    for name, value in values.items():
        setattr(MPI, name, value)
