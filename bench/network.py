"""Hosts within this machine: start and rate against what was asked; paced ranks."""

from __future__ import annotations

import statistics
import time

from helpers.cluster import Cluster, Network
from helpers.records import Row

SUITE = "network"
RATES = {10e6: 1 << 20, 100e6: 4 << 20, 1e9: 16 << 20}  # bit/s → bytes of a message
PACE, PACED, STEPS = 20e-3, 8, 50  # seconds, ranks, steps
WORK = 0.1, 0.19  # of the pace
MEETINGS = 50


def rows() -> list[Row]:
    """Measure each on ranks of its own; the peer is what was asked for."""
    return [*_starts(), *_rates(), *_links(), *map(_pace, WORK), _meetings()]


def _starts() -> list[Row]:
    """Time plain ranks and ranks on hosts in turn, after a first start of each."""
    taken: dict[str, list[float]] = {"plain": [], "hosts": []}
    for turn in range(4):
        for name, network in (("plain", None), ("hosts", Network(3, rate=100e6))):
            begin = time.perf_counter()
            with Cluster(6, network=network) as cluster:
                cluster.run(int)
                if turn:
                    taken[name].append(time.perf_counter() - begin)
    hosts, plain = (statistics.median(taken[name]) for name in ("hosts", "plain"))
    return [Row("start of ranks on hosts", hosts, "s", "on one host", plain,
                {"ranks": 6, "hosts": 3})]  # fmt: skip


def _rates() -> list[Row]:
    rows = []
    for rate, size in RATES.items():
        network = Network(2, rate=rate)
        with Cluster(2, network=network) as cluster:
            taken = cluster.run(_message, size, 5, timeout=120)[0]
        assert network.payload is not None
        rows.append(Row("long message between hosts", size / statistics.median(taken) / 1e6, "MB/s",
                        "the wire's limit", network.payload / 1e6,
                        {"rate": rate, "bytes": size}))  # fmt: skip
    return rows


def _links() -> list[Row]:
    """Send long messages at once over one link, over both its directions, and inside a host."""
    pairs = {
        "two long messages to one host at once": ((2, 0), (4, 0)),
        "long messages in both directions at once": ((0, 2), (3, 1)),
        "long message inside a host": ((0, 1),),
    }
    rate, size = 50e6, 1 << 20
    rows = []
    with Cluster(6, network=Network(3, rate=rate)) as cluster:
        assert cluster.network is not None
        assert cluster.network.payload is not None
        least = size / cluster.network.payload
        for name, of in pairs.items():
            taken = min(max(cluster.run(_at_once, size, of)) for _ in range(5))
            limit = least * (2 if "two" in name else 1)
            rows.append(Row(name, taken, "s", "the wire's limit between hosts", limit,
                            {"rate": rate, "bytes": size}))  # fmt: skip
    return rows


def _pace(work: float) -> Row:
    """Take the slowest of the ranks, each computing for so much of its pace."""
    with Cluster(PACED) as cluster:
        taken = max(cluster.run(_paced, PACE, STEPS, work, timeout=60))
    return Row("a step of paced ranks", taken / STEPS * 1e3, "ms", "the pace", PACE * 1e3,
               {"ranks": PACED, "work": work})  # fmt: skip


def _meetings() -> Row:
    """Take how far apart ranks go on that meet, and after a barrier of MPI's."""
    apart = {}
    with Cluster(3) as cluster:
        for name in ("meet", "Barrier"):
            moments = zip(*cluster.run(_met, name, MEETINGS, timeout=60), strict=True)
            apart[name] = statistics.median(max(at) - min(at) for at in moments)
    return Row("ranks that meet go on, apart", apart["meet"] * 1e3, "ms", "after comm.Barrier()",
               apart["Barrier"] * 1e3, {"ranks": 3})  # fmt: skip


def _world() -> tuple:
    from mpi4py import MPI

    return MPI.COMM_WORLD, MPI.COMM_WORLD.Get_rank()


def _message(size: int, repeats: int) -> list[float]:
    """Time a message from rank 0 to rank 1 until it is known to have arrived."""
    import numpy as np

    comm, rank = _world()
    box, word, taken = np.zeros(size, np.uint8), np.zeros(1, np.uint8), []
    for _ in range(repeats + 1):
        comm.Barrier()
        begin = time.perf_counter()
        if rank == 0:
            comm.Send(box, 1)
            comm.Recv(word, 1)
        else:
            comm.Recv(box, 0)
            comm.Send(word, 0)
        taken.append(time.perf_counter() - begin)
    return taken[1:]


def _at_once(size: int, pairs: tuple[tuple[int, int], ...]) -> float:
    """Time messages that go at once, each from a to b, until they are known to have arrived."""
    import numpy as np

    from helpers.waiting import doze

    comm, rank = _world()
    box, word = np.zeros(size, np.uint8), np.zeros(1, np.uint8)
    to = [target for source, target in pairs if source == rank]
    of = [source for source, target in pairs if target == rank]
    comm.Barrier()
    begin = time.perf_counter()
    for target in to:
        comm.Send(box, target)
    for source in of:
        comm.Recv(box, source)
    for source in of:
        comm.Send(word, source)
    for target in to:
        comm.Recv(word, target)
    taken = time.perf_counter() - begin
    doze(comm)
    return taken if to or of else 0.0


def _met(name: str, meetings: int) -> list[float]:
    from helpers.waiting import meet

    comm, rank = _world()
    found = []
    for _ in range(meetings):
        time.sleep(0.01 * rank)  # they come one after the other
        meet(comm) if name == "meet" else comm.Barrier()
        found.append(time.monotonic())
    return found


def _paced(seconds: float, steps: int, work: float) -> float:
    from helpers.pace import pace
    from helpers.waiting import doze

    comm, _ = _world()
    doze(comm)
    begin = time.perf_counter()
    for _ in range(steps):
        with pace(seconds):
            end = time.thread_time() + work * seconds
            while time.thread_time() < end:
                pass
    taken = time.perf_counter() - begin
    doze(comm)
    return taken
