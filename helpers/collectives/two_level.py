"""Two levels: what can stay inside a host does, and only a part of each rank's goes between hosts.

With G ranks on each of H hosts: a ring inside every host leaves each rank the sum of its host's
contributions to one G-th of the array (reduce-scatter); the ranks that have the same G-th, one on
each host, reduce it along a ring between hosts; a second ring inside the host hands all G-ths to
all (allgather). Through a host's link go 2(H−1)/H·K bytes, which no algorithm undercuts, for the
host's ranks together: one ring through all ranks needs nearly as few only if neighbours in it are
neighbours on a host, and then takes 2(N−1) steps at the pace of the slow links, not 2(H−1).

Hosts with different numbers of ranks have no G: there it is one ring through all ranks, host after
host. The operation must commute; all ranks end with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.collectives import ring
from helpers.collectives.parts import Combine, Communicator, Hosts, split
from helpers.collectives.registry import (
    Allreduce,
    CriticalPath,
    pieces_a_rank,
    register,
)


class Some:
    """Some of a communicator's ranks, as a ring sees them: numbered by their place in it.

    ``first`` is the number of the first chunk that travels here.
    """

    def __init__(self, comm: Communicator, members: list[int], first: int = 0) -> None:
        self._comm, self._members, self._first = comm, members, first
        self._place = members.index(comm.Get_rank())

    def Get_rank(self) -> int:  # noqa: N802 - mpi4py's names
        """Return this rank's place."""
        return self._place

    def Get_size(self) -> int:  # noqa: N802
        """Return how many they are."""
        return len(self._members)

    def Sendrecv(  # noqa: N802
        self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
    ) -> None:
        """Send one array and receive another at the same time."""
        to, by = self._members[dest], self._members[source]
        first = self._first
        self._comm.Sendrecv(sendbuf, to, sendtag + first, recvbuf, by, recvtag + first)


def allreduce(
    work: np.ndarray, comm: Communicator, combine: Combine, pieces: int = 1, *, hosts: Hosts
) -> None:
    """Reduce-scatter inside hosts, allreduce between them, allgather inside."""
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = split(len(work), n * pieces)
    inside = [other for other in range(n) if hosts[other] == hosts[rank]]
    if not _even(hosts):
        way: Any = Some(comm, sorted(range(n), key=lambda other: hosts[other]))
        ring.reduce_scatter(work, way, combine, parts)
        ring.allgather(work, way, parts)
        return
    place, each = inside.index(rank), len(parts) // len(inside)
    fellows = [_ranks(hosts, host)[place] for host in range(max(hosts) + 1)]
    mine = parts[place * each : (place + 1) * each]  # the G-th that this rank reduces
    here: Any = Some(comm, inside)
    there: Any = Some(comm, fellows, first=place * each)

    ring.reduce_scatter(work, here, combine, parts)
    ring.reduce_scatter(work, there, combine, mine)
    ring.allgather(work, there, mine)
    ring.allgather(work, here, parts)


def path(ranks: int, pieces: int = 1, *, hosts: Hosts) -> CriticalPath:
    """Return what follows one another inside hosts, and between them.

    A step inside a host is one message for each host and piece.
    """
    if not _even(hosts):
        return CriticalPath(0, 0.0, 0.0, ring.path(ranks, pieces))
    H = max(hosts) + 1
    G = ranks // H
    # G rings share a host's link, each with a G-th of the array
    along = CriticalPath(2 * (H - 1) * pieces, 2 * (H - 1) / H, (H - 1) / H / G) if H > 1 else None
    steps = G - 1
    return CriticalPath(2 * steps * H * pieces, 2 * steps / G, steps / G, along)


def sent(ranks: int, *, hosts: Hosts) -> float:
    """Return the bytes that every rank sends, ÷ K: as many as one ring sends, wherever they go."""
    return ring.sent(ranks)


def _even(hosts: Hosts) -> bool:
    """Tell whether all hosts have as many ranks."""
    return len({hosts.count(host) for host in hosts}) == 1


def _ranks(hosts: Hosts, host: int) -> list[int]:
    return [rank for rank, where in enumerate(hosts) if where == host]


register(
    Allreduce(
        "two_level",
        "allreduce: two levels",
        allreduce,
        path,
        sent,
        chunks=pieces_a_rank,
        pieces=ring.pieces_of,
        knows_hosts=True,
    )
)
