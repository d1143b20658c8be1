"""Run collectives on the ranks under a trace, to see their schedules as they happened.

>>> logs = cluster.run(record, ["ring", "tree"], (2, 3, 4))      # doctest: +SKIP
>>> plans = schedules(logs)                                       # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from helpers.collectives.registry import ALGORITHMS, COLLECTIVES, added, find
from helpers.collectives.schedule import Schedule, from_trace

if TYPE_CHECKING:
    import numpy as np
    from mpi4py import MPI

Log = dict[tuple[str, int, int], list]


def record(names: Sequence[str], ranks: Sequence[int], pieces: Sequence[int] = (1,)) -> Log:
    """On every rank: run each collective on groups of ranks, and record this rank's calls.

    A group is the first so many ranks of ``MPI.COMM_WORLD``; ``pieces`` says into how many messages
    arrays are cut, where the collective can cut them.
    """
    from mpi4py import MPI

    from helpers.tracing import Recorder, TracedComm

    for name in names:
        find(name, COLLECTIVES)
    world = MPI.Intracomm(MPI.COMM_WORLD)
    if not all(1 <= n <= world.size for n in ranks):
        raise ValueError(
            f"ranks must be numbers from 1 to the cluster's size; got {tuple(ranks)} on a cluster "
            f"that has {world.size}"
        )
    logs: Log = {}
    for n in ranks:
        group = world.Split(0 if world.rank < n else MPI.UNDEFINED)
        if group == MPI.COMM_NULL:
            continue
        comm = TracedComm(group, Recorder())
        for name in names:
            for p in pieces if cuttable(name) else (1,):
                comm.recorder.start()
                find(name, COLLECTIVES).perform(comm, p)
                logs[name, n, p] = [tuple(call) for call in comm.recorder.stop()]
        group.Free()
    return logs


def sent(algorithms: Sequence[str], K: int) -> dict[str, tuple[int, int]]:
    """On every rank: count (messages, bytes) that it sends in an allreduce of K bytes, uncut."""
    return {
        name: sent_by(lambda x, comm: ALGORITHMS[name].start(x, comm, added, 1), K)  # noqa: B023
        for name in algorithms
    }


def sent_by(function: Callable[[np.ndarray, MPI.Intracomm], object], K: int) -> tuple[int, int]:
    """On every rank: count the messages and bytes that it sends while a function runs.

    It takes K bytes of float32 ones, K a multiple of 4, and the communicator of all ranks. What
    MPI's own collectives send is not seen.
    """
    import numpy as np
    from mpi4py import MPI

    from helpers.tracing import Recorder, TracedComm
    from helpers.tracing.activity import BYTES, EXCHANGE, KIND, SEND

    comm = TracedComm(MPI.Intracomm(MPI.COMM_WORLD), Recorder())
    comm.recorder.start()
    function(np.ones(K // 4, np.float32), comm)
    sizes = [call[BYTES] for call in comm.recorder.stop() if call[KIND] in (SEND, EXCHANGE)]
    return len(sizes), sum(sizes)


def schedules(logs: Sequence[Log]) -> list[Schedule]:
    """Return the schedules of what :func:`record` returned on each rank, in rank order."""
    from helpers.tracing import build

    return [
        from_trace(name, build({rank: logs[rank][name, n, p] for rank in range(n)}), p)
        for name, n, p in logs[0]
    ]


def cuttable(name: str) -> bool:
    """Tell whether a collective can send its array in several pieces: not scatter and gather."""
    chunks = find(name, COLLECTIVES).chunks
    return chunks(2, 2) != chunks(2, 1)
