"""The same collectives, waiting or sending otherwise: to find what an allreduce's time consists of.

asleep = variants.asleep("tree", network.places(8))
cluster.run(measure.function_times, {"asleep": asleep}, [1_048_576])
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from helpers.collectives import tree
from helpers.collectives.api import allreduce
from helpers.collectives.hosts import Hosts
from helpers.collectives.parts import FIRST_TAG
from helpers.waiting import until

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

LIMIT = 120.0  # seconds
ARRIVED = FIRST_TAG - 1  # the tag of an empty message back


def asleep(algorithm: str, hosts: Hosts) -> Callable[[np.ndarray, Any], None]:
    """Return an allreduce whose ranks sleep between two looks for a message.

    MPI's own waiting looks as fast as it can, and takes the core from ranks that have work.

    Parameters
    ----------
    algorithm : str
        Of :data:`helpers.collectives.ALGORITHMS`.
    hosts : tuple of int
        The host of every rank.

    Returns
    -------
    callable
        ``function(array, comm)``, in place.
    """

    def reduce_all(work: np.ndarray, comm: Any) -> None:
        allreduce(work, cast("Intracomm", _Asleep(comm)), None, algorithm, out=work, hosts=hosts)

    return reduce_all


def tree_at_once(work: np.ndarray, comm: Any) -> None:
    """Reduce over all ranks along :mod:`helpers.collectives.tree`.

    Its broadcast hands MPI the messages to all children at once, and on one link they arrive at
    once.

    Parameters
    ----------
    work : numpy.ndarray
        This rank's contribution, contiguous; becomes the sum.
    comm : mpi4py.MPI.Intracomm
        All its ranks call this.
    """
    tree.allreduce(work, comm, _add)


def tree_in_turn(work: np.ndarray, comm: Any) -> None:
    """Do the same along a tree in which a rank sends to the next child when the last has it.

    Parameters
    ----------
    work : numpy.ndarray
        This rank's contribution, contiguous; becomes the sum.
    comm : mpi4py.MPI.Intracomm
        All its ranks call this.
    """
    n, rank = comm.Get_size(), comm.Get_rank()
    tree.reduce(work, comm, _add, 0)
    nothing = np.empty(0, np.uint8)
    for distance in reversed(tree.distances(n)):
        if rank % (2 * distance) == distance:
            comm.Recv(work, rank - distance, FIRST_TAG)
            comm.Send(nothing, rank - distance, ARRIVED)
        elif rank % (2 * distance) == 0 and rank + distance < n:
            comm.Send(work, rank + distance, FIRST_TAG)
            comm.Recv(nothing, rank + distance, ARRIVED)


def _add(mine: np.ndarray, theirs: np.ndarray, theirs_first: bool = True) -> None:
    mine += theirs


class _Asleep:
    """A communicator whose waits sleep between two looks, for the collectives of this package.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.Get_rank, self.Get_size = comm.Get_rank, comm.Get_size

    def Send(self, *message: Any) -> None:  # noqa: N802 - mpi4py's names
        _wait(self._comm.Isend(*message))

    def Recv(self, *message: Any, status: Any = None) -> None:  # noqa: N802
        _wait(self._comm.Irecv(*message), status)

    def Isend(self, *message: Any) -> _Request:  # noqa: N802
        return _Request(self._comm.Isend(*message))

    def Sendrecv(  # noqa: N802
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int,
        recvbuf: Any,
        source: int,
        recvtag: int,
        status: Any = None,
    ) -> None:
        receive = self._comm.Irecv(recvbuf, source, recvtag)
        _wait(self._comm.Isend(sendbuf, dest, sendtag))
        _wait(receive, status)


class _Request:
    def __init__(self, request: Any) -> None:
        self._request = request

    def Wait(self) -> None:  # noqa: N802
        _wait(self._request)


def _wait(request: Any, status: Any = None) -> None:
    late = TimeoutError(f"a message was not through within {LIMIT:g} s")
    until(lambda: request.Test(status), time.monotonic() + LIMIT, lambda: late, yield_for=0.0)
