"""The table of MPI calls to watch, and the wrappers made from it.

A call belongs to a kind by what it says about its peer: a send names a destination, a receive a
source, a collective a root or nobody. While nothing is recorded a wrapper only notes the call in
``recorder.current``; since that is on for every call, the wrapper is generated from a template with
mpi4py's own parameters, which is faster than passing them on as ``*args``. While recording, it
hands over to :mod:`helpers.tracing.recorded`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from time import perf_counter_ns

from mpi4py import MPI

from helpers.tracing import recorded
from helpers.tracing.requests import traced_message, traced_request

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

DEST = "self._world.get(dest, dest)"
SOURCE = "self._world.get(source, source)"
ROOT = "self._world.get(root, root)"
ANY_TAG = "'ANY_TAG' if {0} == ANY_TAG else {0}"
REQUEST = "traced_request({call}, self, '{name}', {peer}, {tag}{more})"
MESSAGE = "traced_message({call}, self)"
LATER = "self._adopt_later({call}, '{name}')"
NEW = "self._adopt({call}, '{name}')"

# (names, peer, tag, what becomes of the result, what takes over while recording); a peer of None is
# the root where the call has one, and all ranks where it has none.
TABLE = (
    ("Send Bsend Ssend Rsend", DEST, "tag", "{call}", recorded.send),
    ("send bsend ssend", DEST, "tag", "{call}", recorded.send_pickled),
    ("Isend Ibsend Issend Irsend", DEST, "tag", REQUEST, recorded.send),
    ("isend ibsend issend", DEST, "tag", REQUEST, recorded.send_pickled),
    ("Recv recv", SOURCE, ANY_TAG.format("tag"), "{call}", recorded.receive),
    ("Irecv irecv", SOURCE, ANY_TAG.format("tag"), REQUEST, recorded.ireceive),
    ("Sendrecv", f"({DEST}, {SOURCE})", "sendtag", "{call}", recorded.exchange),
    ("Sendrecv_replace", f"({DEST}, {SOURCE})", "sendtag", "{call}", recorded.exchange_replace),
    ("sendrecv", f"({DEST}, {SOURCE})", "sendtag", "{call}", recorded.exchange_pickled),
    ("Isendrecv", f"({DEST}, {SOURCE})", "sendtag", REQUEST, recorded.iexchange),
    ("Isendrecv_replace", f"({DEST}, {SOURCE})", "sendtag", REQUEST, recorded.iexchange_replace),
    ("Probe probe Iprobe iprobe", SOURCE, ANY_TAG.format("tag"), "{call}", recorded.probe),
    ("Mprobe mprobe Improbe improbe", SOURCE, ANY_TAG.format("tag"), MESSAGE, recorded.mprobe),
    ("Send_init Bsend_init Ssend_init Rsend_init", DEST, "tag", REQUEST, None),
    ("Recv_init", SOURCE, ANY_TAG.format("tag"), REQUEST, None),
    ("Psend_init", DEST, "tag", REQUEST, None),
    ("Precv_init", SOURCE, ANY_TAG.format("tag"), REQUEST, None),
    (" ".join(f"{name}_init" for name in _DATA), None, "None", REQUEST, None),
    (" ".join(_DATA), None, "None", "{call}", recorded.collective),
    (" ".join(_LOWER), None, "None", "{call}", recorded.collective),
    (" ".join(f"I{name}" for name in _LOWER), None, "None", REQUEST, recorded.icollective),
    ("Iagree", None, "None", REQUEST, recorded.icollective),
    ("Free Disconnect Agree Accept Connect", None, "None", "{call}", recorded.collective),
    ("Spawn Spawn_multiple", None, "None", NEW, recorded.maker),
    (_MAKERS, None, "None", NEW, recorded.maker),
    ("Idup Idup_with_info Ishrink", None, "None", LATER, recorded.later),
)

# What each Start of a persistent request moves: kind, bytes.
STARTS = {
    "Send_init": ", ('send', nbytes(buf))",
    "Bsend_init": ", ('send', nbytes(buf))",
    "Ssend_init": ", ('send', nbytes(buf))",
    "Rsend_init": ", ('send', nbytes(buf))",
    "Recv_init": ", ('receive', 0)",
}

TEMPLATE = """
def {name}({signature}):
    recorder = self.recorder
    if recorder.events is not None and recorded:
        return recorded({arguments})
    recorder.current = ('{name}', {peer}, {tag}, now(), self._members)
    try:
        return {result}
    finally:
        recorder.current = None
"""


def wrappers(plain: type) -> Iterator[tuple[str, object]]:
    """Yield (name, function) for each watched method that the communicator class has."""
    for names, peer, tag, result, record in TABLE:
        for name in names.split():
            if hasattr(plain, name):
                yield name, wrapper(name, getattr(plain, name), peer, tag, result, record)


def wrapper(name: str, method, peer: str | None, tag: str, result: str, record):
    """Fill the template for one mpi4py method; keep its name, signature and documentation."""
    parameters = inspect.signature(method).parameters
    defaults = {f"_{p.name}": p.default for p in parameters.values() if p.default is not p.empty}
    if peer is None:
        peer = ROOT if "root" in parameters else "'all'"
    arguments = ", ".join(parameters)
    signature = ", ".join(f"{p}=_{p}" if f"_{p}" in defaults else p for p in parameters)
    more = STARTS.get(name, ", ('collective', 0)" if name.endswith("_init") else "")
    call = f"plain({arguments})"
    source = TEMPLATE.format(
        name=name,
        signature=signature,
        arguments=arguments,
        peer=peer,
        tag=tag,
        result=result.format(call=call, name=name, peer=peer, tag=tag, more=more),
    )
    names = {
        "plain": method,
        "recorded": record and record(name, method, list(parameters)),
        "now": perf_counter_ns,
        "nbytes": recorded.nbytes,
        "traced_request": traced_request,
        "traced_message": traced_message,
        "ANY_TAG": MPI.ANY_TAG,
    }
    names |= defaults
    exec(compile(source, f"<traced {name}>", "exec"), names)
    return functools.wraps(method)(names[name])
