"""Run collectives on the ranks under a trace, to see their schedules as they happened.

>>> logs = cluster.run(record, ["ring", "tree"], (2, 3, 4))      # doctest: +SKIP
>>> plans = schedules(logs)                                       # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence

from helpers.collectives.schedule import COLLECTIVES, Schedule, find, from_trace, perform

Log = dict[tuple[str, int, int], list]


def record(names: Sequence[str], ranks: Sequence[int], pieces: Sequence[int] = (1,)) -> Log:
    """On every rank: run each collective on groups of that many ranks; return this rank's calls.

    The groups are the first n ranks of ``MPI.COMM_WORLD``. The result has one list of calls for
    each (name, number of ranks, pieces) in which this rank took part. Raises ValueError for a
    collective that does not exist, or for more ranks than there are.
    """
    from mpi4py import MPI

    from helpers.tracing import Recorder, TracedComm

    for name in names:
        find(name)
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
                perform(name, comm, p)
                logs[name, n, p] = [tuple(call) for call in comm.recorder.stop()]
        group.Free()
    return logs


def sent(algorithms: Sequence[str], K: int) -> dict[str, tuple[int, int]]:
    """On every rank: (messages, bytes) that it sends in an allreduce of K bytes, by the trace.

    The array is of float32, so K should be a multiple of 4; the ring sends one message a step.
    """
    import numpy as np
    from mpi4py import MPI

    from helpers.collectives.api import allreduce
    from helpers.tracing import Recorder, TracedComm
    from helpers.tracing.activity import BYTES, EXCHANGE, KIND, SEND

    comm = TracedComm(MPI.Intracomm(MPI.COMM_WORLD), Recorder())
    counted = {}
    for algorithm in algorithms:
        comm.recorder.start()
        allreduce(np.ones(K // 4, np.float32), comm, None, algorithm, pieces=1)
        sizes = [call[BYTES] for call in comm.recorder.stop() if call[KIND] in (SEND, EXCHANGE)]
        counted[algorithm] = len(sizes), sum(sizes)
    return counted


def schedules(logs: Sequence[Log]) -> list[Schedule]:
    """Return the schedules of what :func:`record` returned on the ranks, in rank order."""
    from helpers.tracing import build

    return [
        from_trace(name, build({rank: logs[rank][name, n, p] for rank in range(n)}), p)
        for name, n, p in logs[0]
    ]


def cuttable(name: str) -> bool:
    """Whether the collective can send its array in several pieces."""
    return COLLECTIVES[name].chunks(2, 2) != COLLECTIVES[name].chunks(2, 1)
