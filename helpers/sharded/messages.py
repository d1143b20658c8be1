"""What splits of a model say to each other: collectives of point-to-point messages on tensors.

Each is handed its communicator, and moves the same number of messages and bytes on every rank, as
:mod:`.counts` says. Rings are those of :mod:`helpers.collectives.ring`. On a :class:`Channel` they
go on while their rank computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from helpers.collectives import ring
from helpers.collectives.parts import split
from helpers.collectives.registry import added
from helpers.sharded.arrays import array_of
from helpers.sharded.device import Patient, begin

TAG = 901  # of messages that are not a ring's


def _max(mine: np.ndarray, theirs: np.ndarray, theirs_first: bool = True) -> None:
    np.maximum(mine, theirs, out=mine)


def all_reduce(x: Tensor, comm: Any, largest: bool = False) -> Tensor:
    """Return the sum (or the largest) of all ranks' tensors, equal to the last bit on all."""
    total = x.detach().clone(memory_format=torch.contiguous_format)
    if comm.Get_size() > 1:
        ring.allreduce(array_of(total), begin(comm), _max if largest else added)
    return total


def gather_into(whole: np.ndarray, comm: Any) -> None:
    """Fill an array of which each rank has its shard in place: N−1 messages of 1/N."""
    if comm.Get_size() > 1:
        ring.allgather(whole, begin(comm), split(len(whole), comm.Get_size()))


def reduce_into(whole: np.ndarray, comm: Any) -> None:
    """Leave the sum over all ranks in this rank's shard, and partial sums in the rest."""
    if comm.Get_size() > 1:
        ring.reduce_scatter(whole, begin(comm), added, split(len(whole), comm.Get_size()))


def all_gather(x: Tensor, comm: Any, dim: int = 0) -> Tensor:
    """Return all ranks' parts, one after the other along one dimension."""
    n, rank = comm.Get_size(), comm.Get_rank()
    whole = x.new_empty((n, *x.shape))
    whole[rank] = x.detach()
    gather_into(array_of(whole), comm)
    return torch.cat(list(whole), dim)


def reduce_scatter(x: Tensor, comm: Any, dim: int = 0) -> Tensor:
    """Return this rank's part of the sum over all ranks, cut along one dimension."""
    n, rank = comm.Get_size(), comm.Get_rank()
    if x.shape[dim] % n:
        raise ValueError(f"reduce_scatter expects a multiple of {n} along {dim}; got {x.shape}")
    parts = torch.stack(x.detach().chunk(n, dim))
    reduce_into(array_of(parts), comm)
    return parts[rank].clone()


def all_to_all(pieces: Sequence[Tensor], comm: Any) -> list[Tensor]:
    """Send piece i to rank i, for every i, and return what each rank sent here.

    The lengths travel first (an all-to-all of one number), so they may differ, and be 0.
    """
    n, rank = comm.Get_size(), comm.Get_rank()
    if len(pieces) != n:
        raise ValueError(f"all_to_all expects a piece for each of {n} ranks; got {len(pieces)}")
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    theirs = np.empty_like(lengths)
    patient = begin(comm)
    comm.Alltoall(lengths, theirs)
    got = [pieces[0].new_empty((int(count), *pieces[0].shape[1:])) for count in theirs]
    got[rank].copy_(pieces[rank].detach())
    for step in range(1, n):
        to, source = (rank + step) % n, (rank - step) % n
        piece = pieces[to].detach().contiguous()
        patient.Sendrecv(array_of(piece), to, TAG, array_of(got[source]), source, TAG)
    return got


def shift(tensors: Sequence[Tensor], comm: Any) -> list[Tensor]:
    """Hand tensors on to the next rank of the ring, and return the last one's: a message for each.

    They have the same shapes everywhere; the last rank sends to the first.
    """
    n, rank = comm.Get_size(), comm.Get_rank()
    patient = begin(comm)
    got = []
    for tensor in tensors:
        mine = tensor.detach().contiguous()
        theirs = torch.empty_like(mine)
        if n > 1:
            right, left = (rank + 1) % n, (rank - 1) % n
            patient.Sendrecv(array_of(mine), right, TAG, array_of(theirs), left, TAG)
        else:
            theirs.copy_(mine)
        got.append(theirs)
    return got


def send(x: Tensor, to: int, comm: Any) -> tuple[Any, Tensor]:
    """Begin to send a tensor; return the request, and the memory to keep until it is done."""
    mine = x.detach().contiguous()
    return comm.Isend(array_of(mine), to, TAG), mine


def receive(shape: Sequence[int], dtype: torch.dtype, source: int, comm: Any) -> Tensor:
    """Wait for a tensor."""
    x = torch.empty(tuple(shape), dtype=dtype)
    Patient(comm).wait([comm.Irecv(array_of(x), source, TAG)], source)
    return x


class Span(NamedTuple):
    """What a rank did, and when."""

    lane: str  # "compute" or "network"
    name: str
    begin: float  # s of perf_counter, which the ranks of one computer share
    end: float


class Channel:
    """A duplicate of a communicator, on which jobs run in order: in a thread if ``background``."""

    def __init__(self, comm: Any, background: bool = False):
        from mpi4py import MPI

        if background and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise RuntimeError("a channel in the background expects MPI with MPI_THREAD_MULTIPLE")
        self.comm = comm.Dup()
        self.spans: list[Span] = []
        self._thread = ThreadPoolExecutor(1, "channel") if background else None

    def post(self, name: str, job: Callable[[Any], Any]) -> Future:
        """Hand in ``job(comm)``; what it touches is the caller's again once the future is done."""
        if self._thread is not None:
            return self._thread.submit(self._do, name, job)
        done: Future = Future()
        done.set_result(self._do(name, job))
        return done

    def _do(self, name: str, job: Callable[[Any], Any]) -> Any:
        with self.span("network", name):
            return job(self.comm)

    @contextmanager
    def span(self, lane: str, name: str) -> Iterator[None]:
        """Note when a block ran."""
        begin = perf_counter()
        yield
        self.spans.append(Span(lane, name, begin, perf_counter()))

    def close(self) -> None:
        """End the thread, and free the communicator. All ranks call it."""
        if self._thread is not None:
            self._thread.shutdown()
        self.comm.Free()
