"""What a watched MPI call does while recording: the call, timed, and one record of it.

Each function here takes a method's name, mpi4py's own method and its parameters, and returns what
takes its place. Sizes are those of the messages: what a send sent, what a receive got; of a
collective, what this rank put in (for one that only the root feeds, what came out).
"""

from __future__ import annotations

from time import perf_counter_ns

from mpi4py import MPI

from helpers.tracing.activity import COLLECTIVE, EXCHANGE, PROBE, RECEIVE, SEND
from helpers.tracing.requests import got, timed, traced_message, traced_request

_ANY_TAG, _BYTE, _Status = MPI.ANY_TAG, MPI.BYTE, MPI.Status


def send(name: str, plain, parameters: list[str]):
    """Send and its relatives, blocking or not, on a buffer."""
    immediate = name[0] == "I"

    def recorded(self, buf, dest, tag):
        peer = self._world.get(dest, dest)
        result, begin, end = timed(self, name, peer, tag, plain, self, buf, dest, tag)
        record = (name, SEND, self.identity, peer, tag, nbytes(buf), begin, end, None, None)
        return _keep(self, record, result if immediate else None)

    return recorded


def send_pickled(name: str, plain, parameters: list[str]):
    """Send and its relatives on an object: pickled once, as mpi4py does, so that it is counted."""
    upper = getattr(MPI.Comm, name.capitalize())
    immediate = name[0] == "i"

    def recorded(self, obj, dest, tag):
        peer = self._world.get(dest, dest)
        begin = perf_counter_ns()
        data = MPI.pickle.dumps(obj)
        buf = [data, _BYTE]
        result, _, end = timed(self, name, peer, tag, upper, self, buf, dest, tag)
        record = (name, SEND, self.identity, peer, tag, len(data), begin, end, None, None)
        return _keep(self, record, result if immediate else None)

    return recorded


def _keep(comm, record: tuple, request):
    """Keep the record; return the request as a traced one, or None."""
    if request is not None:
        record = list(record)  # to be completed
        request = traced_request(request, comm, record[0], record[3], record[4], None, record)
    comm.recorder.add(record)
    return request


def receive(name: str, plain, parameters: list[str]):
    """Recv, recv."""

    def recorded(self, buf, source, tag, status):
        status = _Status() if status is None else status
        peer = self._world.get(source, source)
        shown = "ANY_TAG" if tag == _ANY_TAG else tag
        result, begin, end = timed(self, name, peer, shown, plain, self, buf, source, tag, status)
        peer, tag, size = got(self, status)
        record = (name, RECEIVE, self.identity, peer, tag, size, begin, end, None, None)
        self.recorder.add(record)
        return result

    return recorded


def ireceive(name: str, plain, parameters: list[str]):
    """Irecv, irecv: peer, tag and size are filled in when the request is done."""

    def recorded(self, buf, source, tag):
        peer = self._world.get(source, source)
        shown = "ANY_TAG" if tag == _ANY_TAG else tag
        result, begin, end = timed(self, name, peer, shown, plain, self, buf, source, tag)
        record = (name, RECEIVE, self.identity, peer, shown, 0, begin, end, None, None)
        return _keep(self, record, result)

    return recorded


def exchange(name: str, plain, parameters: list[str]):
    """Sendrecv."""

    def recorded(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status):
        status = _Status() if status is None else status
        peer = self._world.get(dest, dest)
        peers = (peer, self._world.get(source, source))
        arguments = (self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
        result, begin, end = timed(self, name, peers, sendtag, plain, *arguments)
        got_ = got(self, status)
        size = nbytes(sendbuf)
        record = (name, EXCHANGE, self.identity, peer, sendtag, size, begin, end, None, got_)
        self.recorder.add(record)
        return result

    return recorded


def exchange_replace(name: str, plain, parameters: list[str]):
    """Sendrecv_replace."""

    def replaced(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status):
        return plain(self, sendbuf, dest, sendtag, source, recvtag, status)

    inner = exchange(name, replaced, parameters)
    return lambda self, buf, dest, sendtag, source, recvtag, status: inner(
        self, buf, dest, sendtag, None, source, recvtag, status
    )


def exchange_pickled(name: str, plain, parameters: list[str]):
    """Lower-case sendrecv, done as mpi4py does it, with the pickled bytes at hand."""

    def both(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status):
        request = MPI.Comm.Isend(self, sendbuf, dest, sendtag)
        result = MPI.Comm.recv(self, recvbuf, source, recvtag, status)
        request.Wait()
        return result

    inner = exchange(name, both, parameters)
    return lambda self, sendobj, dest, *rest: inner(
        self, [MPI.pickle.dumps(sendobj), _BYTE], dest, *rest
    )


def iexchange(name: str, plain, parameters: list[str]):
    """Isendrecv."""

    def recorded(self, sendbuf, dest, sendtag, recvbuf, source, recvtag):
        peer = self._world.get(dest, dest)
        peers = (peer, self._world.get(source, source))
        arguments = (self, sendbuf, dest, sendtag, recvbuf, source, recvtag)
        result, begin, end = timed(self, name, peers, sendtag, plain, *arguments)
        size = nbytes(sendbuf)
        record = (name, EXCHANGE, self.identity, peer, sendtag, size, begin, end, None, None)
        return _keep(self, record, result)

    return recorded


def iexchange_replace(name: str, plain, parameters: list[str]):
    """Isendrecv_replace."""

    def replaced(self, sendbuf, dest, sendtag, recvbuf, source, recvtag):
        return plain(self, sendbuf, dest, sendtag, source, recvtag)

    inner = iexchange(name, replaced, parameters)
    return lambda self, buf, dest, sendtag, source, recvtag: inner(
        self, buf, dest, sendtag, None, source, recvtag
    )


def probe(name: str, plain, parameters: list[str]):
    """Probe, Iprobe: a loop that polls in vain becomes one record."""

    def recorded(self, source, tag, status):
        result, record = _probed(self, name, plain, source, tag, status)
        self.recorder.add(tuple(record)) if result else self.recorder.poll(record)
        return result

    return recorded


def mprobe(name: str, plain, parameters: list[str]):
    """Mprobe, Improbe: the message found is traced in its turn."""

    def recorded(self, source, tag, status):
        result, record = _probed(self, name, plain, source, tag, status)
        self.recorder.add(tuple(record)) if result else self.recorder.poll(record)
        return traced_message(result, self)

    return recorded


def _probed(self, name, plain, source, tag, status):
    status = _Status() if status is None else status
    peer = self._world.get(source, source)
    shown = "ANY_TAG" if tag == _ANY_TAG else tag
    result, begin, end = timed(self, name, peer, shown, plain, self, source, tag, status)
    peer, shown, size = got(self, status) if result else (peer, shown, 0)
    return result, [name, PROBE, self.identity, peer, shown, size, begin, end, None, None]


def collective(name: str, plain, parameters: list[str], finish=None):
    """Every blocking collective, and with ``finish`` what makes something of its result."""
    at = parameters.index("root") - 1 if "root" in parameters else None
    size = _collective_size(name, parameters)

    def recorded(self, *arguments):
        peer = "all" if at is None else self._world.get(arguments[at], arguments[at])
        result, begin, end = timed(self, name, peer, None, plain, self, *arguments)
        n = size(self, arguments, result) if size else 0
        record = (name, COLLECTIVE, self.identity, peer, None, n, begin, end, None, None)
        if finish is not None:
            return finish(self, name, result, record)
        self.recorder.add(record)
        return result

    return recorded


def icollective(name: str, plain, parameters: list[str]):
    """Every non-blocking collective."""
    return collective(name, plain, parameters, lambda comm, _, result, r: _keep(comm, r, result))


def maker(name: str, plain, parameters: list[str]):
    """What makes a new communicator."""

    def finish(comm, name, result, record):
        comm.recorder.add(record)
        return comm._adopt(result, name)

    return collective(name, plain, parameters, finish)


def later(name: str, plain, parameters: list[str]):
    """What makes a new communicator in the background: a communicator and a request."""

    def finish(comm, name, result, record):
        comm.recorder.add(record)
        return comm._adopt_later(result, name)

    return collective(name, plain, parameters, finish)


def _collective_size(name: str, parameters: list[str]):
    """Return a function of (comm, arguments, result): the bytes to record; None for no data."""
    lower = name.lower().removeprefix("i") if name[0] in "Ii" else name.lower()
    if name[0].islower():
        if name == "barrier":
            return None
        if name in ("bcast", "scatter"):
            return lambda comm, arguments, result: pickled(result)
        return lambda comm, arguments, result: pickled(arguments[0])
    if lower in ("scatter", "scatterv"):
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


def nbytes(spec) -> int:
    """Return the size in bytes of an mpi4py buffer specification (0 for None and IN_PLACE)."""
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


def _nbytes_of_spec(buf, *rest) -> int:
    """The size of [buf, counts, displacements, type], of which all but ``buf`` may be missing."""
    kind = rest[-1] if rest else None
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


def pickled(value) -> int:
    """Return how many bytes mpi4py sends for ``value`` (found by pickling it once more)."""
    return len(MPI.pickle.dumps(value))
