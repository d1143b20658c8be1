"""An allreduce that knows hosts, in one module: to a leader on each host, along these, back.

Not a good one (the notebooks will have that), but all that one needs to know has its place.
"""

import numpy as np

from helpers.collectives.parts import FIRST_TAG
from helpers.collectives.registry import Allreduce, CriticalPath, register


def allreduce(work, comm, combine, pieces=1, *, hosts):
    rank = comm.Get_rank()
    mine = [other for other, host in enumerate(hosts) if host == hosts[rank]]
    leaders = [hosts.index(host) for host in range(max(hosts) + 1)]
    theirs = np.empty_like(work)
    if rank != mine[0]:
        comm.Send(work, mine[0], FIRST_TAG)
        comm.Recv(work, mine[0], FIRST_TAG)
        return
    for other in mine[1:]:
        comm.Recv(theirs, other, FIRST_TAG)
        combine(work, theirs)
    place, last = leaders.index(rank), len(leaders) - 1
    if place > 0:
        comm.Recv(theirs, leaders[place - 1], FIRST_TAG)
        combine(work, theirs)
    if place < last:
        comm.Send(work, leaders[place + 1], FIRST_TAG)
        comm.Recv(work, leaders[place + 1], FIRST_TAG)
    if place > 0:
        comm.Send(work, leaders[place - 1], FIRST_TAG)
    for other in mine[1:]:
        comm.Send(work, other, FIRST_TAG)


def path(ranks, pieces=1, *, hosts):
    inside, steps = max(map(hosts.count, hosts)) - 1, max(hosts)
    chain = CriticalPath(2 * steps, 2.0 * steps, float(steps))
    return CriticalPath(2 * inside, 2.0 * inside, float(inside), chain)


def sent(ranks, *, hosts):
    last = max(hosts)
    along = [(host > 0) + (host < last) for host in range(last + 1)]
    return float(max(hosts.count(host) - 1 + along[host] for host in range(last + 1)))


LEADERS = register(
    Allreduce(
        *("leaders", "allreduce: leaders", allreduce, path, sent),
        chunks=lambda ranks, pieces: 1,
        keeps_order=False,
        knows_hosts=True,
    )
)
