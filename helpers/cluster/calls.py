"""The table of MPI calls to watch, and the wrappers made from it.

A call belongs to a kind by what it says about its peer: a send names a destination, a receive a
source, a collective a root or nobody. One template per kind is filled with the name and the
parameters of mpi4py's own method, because a wrapper that is on for every call has to be short.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from time import perf_counter_ns

from mpi4py import MPI

SENDS = "Send Bsend Ssend Rsend send bsend ssend"
ISENDS = "Isend Ibsend Issend Irsend isend ibsend issend"
RECEIVES = "Recv recv"
IRECEIVES = "Irecv irecv"
EXCHANGES = "Sendrecv Sendrecv_replace sendrecv"
IEXCHANGES = "Isendrecv Isendrecv_replace"
PROBES = "Probe Iprobe Mprobe Improbe probe iprobe mprobe improbe"
INITS = "Send_init Bsend_init Ssend_init Rsend_init Recv_init Psend_init Precv_init"
_DATA = (  # noqa: SIM905
    "Allgather Allgatherv Allreduce Alltoall Alltoallv Alltoallw Barrier Bcast Exscan Gather "
    "Gatherv Reduce Reduce_scatter Reduce_scatter_block Scan Scatter Scatterv Neighbor_allgather "
    "Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw"
).split()
COLLECTIVES = " ".join(
    [*_DATA, "Free Disconnect Agree Accept Connect Spawn Spawn_multiple"]
    + [name[0].lower() + name[1:] for name in _DATA]
)
ICOLLECTIVES = " ".join(["I" + name[0].lower() + name[1:] for name in _DATA] + ["Iagree"])
COLLECTIVE_INITS = " ".join(f"{name}_init" for name in _DATA)
MAKERS = (
    "Clone Dup Dup_with_info Split Split_type Create Create_group Create_cart Create_graph "
    "Create_dist_graph Create_dist_graph_adjacent Create_intercomm Merge Shrink Sub"
)
IMAKERS = "Idup Idup_with_info Ishrink"

# {name}: the method; {signature}, {arguments}: its parameters, with and without defaults.
_CALL = """
def {name}({signature}):
    recorder = self.recorder
    events = recorder.events
    begin = now()
    recorder.current = ("{name}", {peer}, {tag}, begin, self._size)
    try:
        {call}
        end = now()
    finally:
        recorder.current = None
    if events is not None:
        {record}
    return {result}
"""
_SOURCE = "self._world.get(source, source)"
_DEST = "self._world.get(dest, dest)"
_SHOWN = '"ANY_TAG" if {0} == ANY_TAG else {0}'
_RECORD = "recorder.add(events, {0})"


def wrappers(plain: type, context: dict) -> Iterator[tuple[str, object]]:
    """Yield (name, function) for each watched method that the communicator class has."""
    for names, kind in _KINDS:
        for name in names.split():
            if hasattr(plain, name):
                method = getattr(plain, name)
                parts = kind(name, list(inspect.signature(method).parameters))
                yield name, build(name, method, parts, context, _CALL)


def build(name: str, method, parts: dict, context: dict, template: str):
    """Fill ``template`` for one mpi4py method; keep its name, signature and documentation."""
    parameters = list(inspect.signature(method).parameters.values())
    defaults = {
        f"_{p.name}": p.default for p in parameters if p.default is not inspect.Parameter.empty
    }
    signature = ", ".join(
        f"{p.name}=_{p.name}" if f"_{p.name}" in defaults else p.name for p in parameters
    )
    arguments = ", ".join(p.name for p in parameters)
    parts = {"call": "result = plain({arguments})", "result": "result", **parts}
    fill = {"name": name, "signature": signature, "arguments": arguments}
    source = template
    for _ in range(2):  # a part may itself use {name} and {arguments}
        source = re.sub(r"\{(\w+)\}", lambda m: {**parts, **fill}[m[1]], source)
    names = {"plain": method, "now": perf_counter_ns, "ANY_TAG": MPI.ANY_TAG, "MPI": MPI}
    names |= {
        "Status": MPI.Status,
        "BYTE": MPI.BYTE,
        "nbytes": nbytes,
        "got": got,
        "pickled": pickled,
    }
    names |= defaults | context
    exec(compile(source, f"<traced {name}>", "exec"), names)
    return functools.wraps(method)(names[name])


def _send(name: str, parameters: list[str]) -> dict:
    """Blocking and non-blocking sends. A lower-case one pickles once, as mpi4py itself does."""
    parts = {"peer": _DEST, "tag": "tag"}
    immediate = name[0] in "iI"
    if name[0].islower():
        upper = name.capitalize()
        parts["call"] = (
            "if events is None:\n            result = plain({arguments})\n"
            "        else:\n            data = MPI.pickle.dumps(obj)\n"
            "            size = len(data)\n"
            f"            result = MPI.Comm.{upper}(self, [data, BYTE], dest, tag)"
        )
        size = "size"
    else:
        size = "nbytes(buf)"
    half = f"(self.identity, {_DEST}, tag, size)"
    record = (
        f'size = {size}\n        record = ["{name}", self.identity, {_DEST}, tag, size, begin, '
        f"end, {half}, None, None, ()]\n        recorder.add(events, record)"
    )
    parts["record"] = record
    if immediate:
        parts["record"] += "\n    else:\n        record = None"
        parts["result"] = f'traced_request(result, self, "{name}", {_DEST}, tag, record)'
    return parts


def _receive(name: str, parameters: list[str]) -> dict:
    tag = _SHOWN.format("tag")
    if name[0] in "iI":
        record = (
            f'record = ["{name}", self.identity, {_SOURCE}, {tag}, 0, begin, end, '
            "None, (self.identity, None, None, 0), None, ()]\n        recorder.add(events, record)"
            "\n    else:\n        record = None"
        )
        result = f'traced_request(result, self, "{name}", {_SOURCE}, {tag}, record)'
        return {"peer": _SOURCE, "tag": tag, "record": record, "result": result}
    record = (
        "half = got(self, status)\n        recorder.add(events, "
        f'["{name}", *half, begin, end, None, half, None, ()])'
    )
    return {"peer": _SOURCE, "tag": tag, "call": _STATUS, "record": record}


_STATUS = (
    "if events is not None and status is None:\n            status = Status()\n"
    "        result = plain({arguments})"
)


def _exchange(name: str, parameters: list[str]) -> dict:
    data = parameters[1]
    half = f"(self.identity, {_DEST}, sendtag, size)"
    immediate = name[0] == "I"
    call = "result = plain({arguments})" if immediate else _STATUS
    size = f"nbytes({data})"
    if name == "sendrecv":  # what mpi4py does, with the pickled bytes at hand to be counted
        size = "size"
        call = (
            "if events is None:\n            result = plain({arguments})\n"
            "        else:\n            status = status or Status()\n"
            "            data = MPI.pickle.dumps(sendobj)\n            size = len(data)\n"
            "            request = MPI.Comm.Isend(self, [data, BYTE], dest, sendtag)\n"
            "            result = MPI.Comm.recv(self, recvbuf, source, recvtag, status)\n"
            "            request.Wait()"
        )
    received = "(self.identity, None, None, 0)" if immediate else "got(self, status)"
    record = (
        f'size = {size}\n        record = ["{name}", self.identity, {_DEST}, sendtag, size, begin, '
        f"end, {half}, {received}, None, ()]\n        recorder.add(events, record)"
    )
    parts = {"peer": f"({_DEST}, {_SOURCE})", "tag": "sendtag", "call": call, "record": record}
    if immediate:
        parts["record"] += "\n    else:\n        record = None"
        parts["result"] = (
            f'traced_request(result, self, "{name}", ({_DEST}, {_SOURCE}), sendtag, record)'
        )
    return parts


def _probe(name: str, parameters: list[str]) -> dict:
    """Probes. A loop that polls in vain becomes one record: the last is stretched."""
    polls = name in ("Iprobe", "iprobe", "Improbe", "improbe")
    record = f'["{name}", self.identity, {_SOURCE}, {_SHOWN.format("tag")}, 0, begin, end'
    miss = "recorder.poll(events, " + record + ", None, None, None, ()])"
    hit = f'recorder.add(events, ["{name}", *got(self, status), begin, end, None, None, None, ()])'
    parts = {"peer": _SOURCE, "tag": _SHOWN.format("tag"), "call": _STATUS, "record": hit}
    if polls:
        parts["record"] = f"if result:\n            {hit}\n        else:\n            {miss}"
    if "mprobe" in name.lower():
        parts["result"] = "result and TracedMessage(result, self)"
    return parts


def _collective(name: str, parameters: list[str]) -> dict:
    peer = "self._world.get(root, root)" if "root" in parameters else '"all"'
    data = next((p for p in parameters if p in ("buf", "sendbuf", "obj", "sendobj")), None)
    size = "0"
    if data:
        size = f"nbytes({data})" if data.endswith("buf") else f"pickled({data})"
    if name.lower() in ("scatter", "scatterv", "iscatter", "iscatterv"):
        size = "0"
        if name[0] in "SI":  # what arrives here, or at the root what it hands out
            size = "nbytes(sendbuf) if root == self.Get_rank() else nbytes(recvbuf)"
    if name == "bcast":
        size = "pickled(result)"
    record = (
        f'record = ["{name}", self.identity, {peer}, None, {size}, begin, end, '
        "None, None, None, ()]\n        recorder.add(events, record)"
    )
    parts = {"peer": peer, "tag": "None", "record": record}
    if name in ICOLLECTIVES.split():
        parts["record"] += "\n    else:\n        record = None"
        parts["result"] = f'traced_request(result, self, "{name}", {peer}, None, record)'
    return parts


def _init(name: str, parameters: list[str]) -> dict:
    """Persistent requests: nothing moves before Start, so nothing is recorded here."""
    peer, tag, size = '"all"', "None", "0"
    if "dest" in parameters:
        peer, tag, size = _DEST, "tag", "nbytes(buf)"
    elif "source" in parameters:
        peer, tag = _SOURCE, _SHOWN.format("tag")
    elif "root" in parameters:
        peer = "self._world.get(root, root)"
    if "partitions" in parameters:
        size = "0"
    what = "send" if "dest" in parameters else "receive" if "source" in parameters else "collective"
    result = f'traced_request(result, self, "{name}", {peer}, {tag}, None, ("{what}", {size}))'
    return {"peer": peer, "tag": tag, "record": "pass", "result": result}


def _maker(name: str, parameters: list[str]) -> dict:
    parts = _collective(name, parameters)
    parts["result"] = f'traced_comm(result, self, "{name}")'
    if name in IMAKERS.split():
        parts["record"] += "\n    else:\n        record = None"
        parts["result"] = (
            f'(traced_comm(result[0], self, "{name}"), '
            f'traced_request(result[1], self, "{name}", "all", None, record))'
        )
    return parts


def nbytes(spec) -> int:
    """Return the size in bytes of an mpi4py buffer specification (0 for None and IN_PLACE)."""
    if spec is None or spec is MPI.IN_PLACE:
        return 0
    size = getattr(spec, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(spec, list | tuple) and spec:
        kind = spec[-1]
        if isinstance(kind, str):
            kind = MPI.Datatype.fromcode(kind)
        counts = spec[1] if len(spec) > 1 else None
        if isinstance(counts, tuple | list) and len(spec) < 4 and counts:
            counts = counts[0]  # (counts, displacements)
        if isinstance(kind, MPI.Datatype) and isinstance(counts, int):
            return counts * kind.Get_size()
        if isinstance(kind, MPI.Datatype) and hasattr(counts, "__iter__"):
            return int(sum(counts)) * kind.Get_size()
        return nbytes(spec[0])
    try:
        return MPI.buffer(spec).nbytes
    except TypeError:
        return 0


def pickled(value) -> int:
    """Return how many bytes mpi4py sends for ``value`` (found by pickling it once more)."""
    return len(MPI.pickle.dumps(value))


def got(comm, status: MPI.Status) -> tuple:
    """Return (communicator, source's world rank, tag, bytes) of the message that arrived."""
    source = status.Get_source()
    return (
        comm.identity,
        comm._world.get(source, source),
        status.Get_tag(),
        status.Get_count(MPI.BYTE),
    )


_KINDS = (
    (SENDS, _send),
    (ISENDS, _send),
    (RECEIVES, _receive),
    (IRECEIVES, _receive),
    (EXCHANGES, _exchange),
    (IEXCHANGES, _exchange),
    (PROBES, _probe),
    (COLLECTIVES, _collective),
    (ICOLLECTIVES, _collective),
    (INITS, _init),
    (COLLECTIVE_INITS, _init),
    (MAKERS, _maker),
    (IMAKERS, _maker),
)
