"""How many bytes an MPI call moves, read from its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI

Size = Callable[[Any, Sequence[Any], Any], int]  # of (communicator, arguments, result)


def nbytes(spec: Any) -> int:
    """Return the bytes of an mpi4py buffer specification; 0 for what is none.

    >>> nbytes(bytearray(10)), nbytes([bytearray(10), 2, MPI.FLOAT]), nbytes(MPI.IN_PLACE)
    (10, 8, 0)
    """
    if spec is None or spec is MPI.IN_PLACE:
        return 0
    size = getattr(spec, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(spec, list | tuple) and spec:
        return _nbytes_of_spec(*spec)
    try:
        return MPI.buffer(spec).nbytes
    except (TypeError, BufferError):
        return 0


def _nbytes_of_spec(buf: Any, *rest: Any) -> int:
    """The size of [buf, counts, displacements, type], of which all but ``buf`` may be missing."""
    kind: Any = rest[-1] if rest else None
    if isinstance(kind, str):
        kind = MPI.Datatype.fromcode(kind)
    each = isinstance(kind, list | tuple) and kind and isinstance(kind[0], MPI.Datatype)
    if each or isinstance(kind, MPI.Datatype):
        rest = rest[:-1]
    else:
        kind = None
    counts = rest[0] if rest else None
    if len(rest) == 1 and isinstance(counts, list | tuple) and len(counts) == 2:
        # (counts, displacements), unless these are the plain counts of two ranks
        counts = counts[0] if hasattr(counts[0], "__len__") else counts
    if counts is None:
        return nbytes(buf)
    if each:  # one datatype for each rank, as Alltoallw takes
        return int(sum(c * t.Get_size() for c, t in zip(counts, kind, strict=False)))
    total = sum(counts) if hasattr(counts, "__iter__") else counts
    return int(total) * (kind.Get_size() if kind else getattr(buf, "itemsize", 1))


def pickled(value: Any) -> int:
    """Return how many bytes mpi4py sends for an object, found by pickling it once more."""
    return len(MPI.pickle.dumps(value))


def size_of_collective(name: str, parameters: Sequence[str]) -> Size | None:
    """Return a function of (communicator, arguments, result) that counts what this rank puts in.

    ``parameters`` are mpi4py's names, ``self`` first; ``arguments`` come without ``self``. Where
    only the root feeds a call, the bytes that came out count. None for a call without data.
    """
    if name[0].islower():
        if name == "barrier":
            return None
        if name in ("bcast", "scatter"):
            return lambda comm, arguments, result: pickled(result)
        return lambda comm, arguments, result: pickled(arguments[0])
    if name.lower().removeprefix("i") in ("scatter", "scatterv"):
        at = parameters.index("root") - 1
        return lambda comm, arguments, result: nbytes(
            arguments[0 if arguments[at] == comm.Get_rank() else 1]
        )
    if parameters[1:2] and parameters[1] in ("buf", "sendbuf"):
        in_place = "recvbuf" in parameters
        return lambda comm, arguments, result: nbytes(
            arguments[1] if in_place and arguments[0] is MPI.IN_PLACE else arguments[0]
        )
    return None
