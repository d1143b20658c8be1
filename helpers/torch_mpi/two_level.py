"""all_reduce where ranks share hosts: inside a host by memory, between hosts along rings.

The array is cut into as many parts as every host has ranks to lead them. All ranks of a host hand
a part to its leader there, who adds them up; the leaders of a part, one on each of H hosts, reduce
it along a ring (reduce-scatter, allgather) and hand the result to their hosts' ranks. Through each
host's link go 2(H−1)/H·K bytes, which no algorithm undercuts. Every part travels in pieces, each of
which goes on as soon as it can, so that neither the links nor the hosts wait for the other.

Patarasu and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations* (2009).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from mpi4py import MPI

from helpers.torch_mpi.reductions import WIDER, Reduction

PIECE = 128 << 10  # bytes: long beside a packet, short beside a part
SLAB = 64 << 20  # bytes that are under way at once: what is received takes as much again

Pending = Iterator[list[MPI.Request]]  # a sequence of steps, each of which waits for its requests


def memory(tensor: torch.Tensor) -> MPI.buffer:
    """Return the bytes of a contiguous tensor as MPI takes them, uncopied; it must live on."""
    return MPI.buffer.fromaddress(tensor.data_ptr(), tensor.nbytes)


@dataclass(frozen=True)
class Hosts:
    """Which ranks of a communicator share memory.

    ``members`` are the ranks of each host, in rising order, hosts in the order of their first rank;
    ``here`` is this rank's host, ``place`` its place among its host's ranks.
    """

    members: tuple[tuple[int, ...], ...]
    here: int
    place: int

    @property
    def leaders(self) -> int:
        """How many parts an array has: as many as the host with the fewest ranks can lead."""
        return min(map(len, self.members))


def hosts_of(comm: MPI.Intracomm) -> Hosts:
    """Ask MPI which ranks share memory (collective)."""
    rank = comm.Get_rank()
    together = comm.Split_type(MPI.COMM_TYPE_SHARED, rank)
    first = together.bcast(rank)
    together.Free()
    members: dict[int, list[int]] = {}
    for other, host in enumerate(comm.allgather(first)):
        members.setdefault(host, []).append(other)
    here = tuple(members).index(first)
    return Hosts(tuple(map(tuple, members.values())), here, members[first].index(rank))


class TwoLevel:
    """One all_reduce under way on this rank, on a communicator that carries nothing else.

    ``flat`` (n,), contiguous, becomes the result and must stay until :meth:`test` says that all is
    done.
    """

    def __init__(self, comm: MPI.Intracomm, hosts: Hosts, flat: torch.Tensor, op: Reduction):
        self._comm, self._hosts, self._op = comm, hosts, op
        self._under_way = self._slabs(flat)
        self._steps: list[tuple[Pending, list[MPI.Request]]] = []

    def test(self) -> bool:
        """Go as far as the messages allow; return whether this rank's part is done."""
        while True:
            waiting = []
            for steps, requests in self._steps:
                while MPI.Request.Testall(requests):
                    following = next(steps, None)
                    if following is None:
                        break
                    requests = following
                else:
                    waiting.append((steps, requests))
            self._steps = waiting
            if waiting:
                return False
            slab = next(self._under_way, None)
            if slab is None:
                return True
            self._steps = [(steps, []) for steps in slab]

    def _slabs(self, flat: torch.Tensor) -> Iterator[list[Pending]]:
        """Yield the sequences of steps for one slab after the other."""
        hosts, item = self._hosts, flat.element_size()
        ring = len(hosts.members)
        for slab in flat.split(max(1, SLAB // item)):
            parts = slab.tensor_split(hosts.leaders)
            columns = max(1, -(-parts[0].nbytes // (ring * PIECE)))
            sequences = []
            for part, own in enumerate(parts):
                chunks = [chunk.tensor_split(columns) for chunk in own.tensor_split(ring)]
                for column in range(columns):
                    pieces = [chunk[column] for chunk in chunks]
                    walk = self._lead if part == hosts.place else self._follow
                    sequences.append(walk(pieces, part, column * 2 * ring))
            yield sequences

    def _send(self, piece: torch.Tensor, to: int, tag: int) -> MPI.Request:
        return self._comm.Isend([memory(piece), MPI.BYTE], to, tag)

    def _receive(self, piece: torch.Tensor, by: int, tag: int) -> MPI.Request:
        return self._comm.Irecv([memory(piece), MPI.BYTE], by, tag)

    def _follow(self, pieces: Sequence[torch.Tensor], part: int, tag: int) -> Pending:
        """Hand a part's pieces to its leader on this host, and take the results."""
        hosts, ring = self._hosts, len(pieces)
        leader = hosts.members[hosts.here][part]
        order = [(hosts.here - step) % ring for step in range(ring)]  # as the leader sends them on
        yield [self._send(pieces[chunk], leader, tag + chunk) for chunk in order]
        yield [self._receive(pieces[chunk], leader, tag + ring + chunk) for chunk in order]

    def _lead(self, pieces: Sequence[torch.Tensor], part: int, tag: int) -> Pending:
        """Add up the pieces of this host's ranks, reduce them along the ring, hand them on."""
        hosts, ring, rank = self._hosts, len(pieces), self._comm.Get_rank()
        here = hosts.here
        following = hosts.members[(here + 1) % ring][part]
        previous = hosts.members[here - 1][part]
        fellows = [other for other in hosts.members[here] if other != rank]
        order = [(here - step) % ring for step in range(ring)]
        brought = {
            chunk: [torch.empty_like(pieces[chunk]) for _ in fellows] for chunk in range(ring)
        }
        arriving = {
            chunk: [
                self._receive(into, fellow, tag + chunk)
                for into, fellow in zip(brought[chunk], fellows, strict=True)
            ]
            for chunk in order
        }
        partial = {chunk: torch.empty_like(pieces[chunk]) for chunk in order[1:]}
        coming = {c: self._receive(into, previous, tag + c) for c, into in partial.items()}
        sent: dict[int, MPI.Request] = {}
        for chunk in order:  # reduce-scatter: the last is complete here
            yield arriving[chunk] + ([coming[chunk]] if chunk in coming else [])
            self._fold(pieces[chunk], brought.pop(chunk), partial.pop(chunk, None))
            if chunk != order[-1]:
                sent[chunk] = self._send(pieces[chunk], following, tag + chunk)
        self._op.after(pieces[order[-1]], self._comm.Get_size())
        handed = []
        for chunk in (order[-1], *order[:-1]):  # allgather: the first is complete, the others come
            if chunk != order[-1]:
                yield [sent[chunk]]
                yield [self._receive(pieces[chunk], previous, tag + ring + chunk)]
            if chunk != order[-2]:  # the next leader's own
                handed.append(self._send(pieces[chunk], following, tag + ring + chunk))
            handed += [self._send(pieces[chunk], fellow, tag + ring + chunk) for fellow in fellows]
        yield handed

    def _fold(
        self, own: torch.Tensor, brought: Sequence[torch.Tensor], partial: torch.Tensor | None
    ) -> None:
        """Add to a piece what this host's ranks brought, and what the ring did."""
        parts = [own, *brought] if partial is None else [own, *brought, partial]
        wider = WIDER.get(own.dtype)
        if wider is None or len(parts) <= 2:  # two are added up as well in their own bits
            self._op.fold(parts, own)
            return
        parts = [part.to(wider) for part in parts]
        self._op.fold(parts, parts[0])
        own.copy_(parts[0])
