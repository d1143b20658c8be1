"""The one training loop of all schemes."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any

from helpers.data_parallel.history import History
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Ended, Scheme
from helpers.data_parallel.stop import Judge, Stop

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def train(
    replica: Replica,
    batches: Iterable[tuple[Any, Any]],
    scheme: Scheme,
    *,
    steps: int | None = None,
    stop: Stop | None = None,
) -> History:
    """Train a replica on each rank of the scheme's communicator; every rank calls.

    Parameters
    ----------
    replica : Replica
        This rank's model, loss and optimizer.
    batches : iterable of (x, y)
        This rank's mini-batches, for example a DataLoader with a DistributedSampler. The rank that
        serves, if there is one, does not look at them.
    scheme : Scheme
        What travels, and when.
    steps : int, optional
        How many updates of the parameters. If None, a scheme in step makes as many as the shortest
        of all workers' ``batches`` is long. Out of step it is the server that counts: workers go on
        until it stops them, or to the end of their ``batches``.
    stop : Stop, optional
        What else ends this training, if it comes first: seconds, or a loss. In step all ranks leave
        after the same update; out of step the server stops, and a worker at its next hello. In step
        it costs one allreduce of two numbers after every update, also in schemes that meet less
        often, and where ``steps`` is None and ``batches`` has no length, another before every
        update: do all still have a batch? Both are in ``seconds``, not in ``synchronize``.

    Returns
    -------
    History
        The same on all ranks, but for the weights where replicas differ; ``ended`` says by what.

    Raises
    ------
    TypeError
        If ``scheme`` is none, or ``stop`` no Stop.
    ValueError
        If ``steps`` and ``stop`` are None in a scheme in step and ``batches`` has no length, or if
        a gradient has left the replica's flat buffer.
    """
    if not isinstance(scheme, Scheme):
        raise TypeError(f"train expects a Scheme; got {scheme!r}")
    if not isinstance(stop, Stop | None):
        raise TypeError(f"train expects stop=Stop(...); got {stop!r}")
    scheme.stop = type(scheme).stop if stop is None else stop
    comm = scheme.comm
    history = replica.history = History(scheme.name, comm.Get_size(), 0)
    limit = _limit(batches, scheme, steps)
    mine = itertools.repeat(None) if scheme.serves else batches
    if limit is None:
        limit, mine = itertools.count(), _while_all_have_one(mine, comm)
    judge = Judge(scheme)
    computing, synchronizing = [], []
    scheme.begin(replica)
    comm.Barrier()
    began = time.perf_counter()
    try:
        for step, batch in zip(limit, mine):  # noqa: B905
            replica.flat.gradients.zero_()
            start = time.perf_counter()
            scheme.before_backward(replica, step)
            ready = time.perf_counter()
            if batch is not None:
                replica.backward(*batch)
                history.batch = history.batch or len(batch[0])
            computed = time.perf_counter()
            scheme.after_backward(replica, step)
            arrived = time.perf_counter()
            replica.flat.check()
            scheme.update(replica, step)
            moved = time.perf_counter()
            scheme.after_step(replica, step)
            end = time.perf_counter()
            computing.append(computed - ready)
            synchronizing.append(ready - start + arrived - computed + end - moved)
            history.record(end - began, replica.last_loss, scheme.staleness, scheme.worker)
            history.ended = judge.verdict(history, end - began)
            if history.ended:
                break
    except Ended as over:
        history.ended = str(over)
    except BaseException as error:
        scheme.leave(f"{type(error).__name__}: {error}")
        raise
    if history.updates and not scheme.serves:
        history.compute = statistics.median(computing)
        history.synchronize = statistics.median(synchronizing)
    history.ended = history.ended or f"{history.updates} updates"
    return scheme.end(replica)


def _limit(batches: Iterable, scheme: Scheme, steps: int | None) -> Iterable[int] | None:
    """Number this rank's steps; in step, all ranks agree where they end; None: in each step."""
    if not scheme.in_step and (steps is None or not scheme.serves):
        return itertools.count()
    if steps is None:
        length = len(batches) if isinstance(batches, Sized) else None
        lengths = [scheme.comm.allgather(length)[rank] for rank in scheme.workers]
        if None in lengths and scheme.stop != Stop():
            return None
        if None in lengths:
            raise ValueError(f"train expects steps, or batches with a length; got {batches!r}")
        steps = min(lengths)
    return range(steps)


def _while_all_have_one(batches: Iterable, comm: Intracomm) -> Iterator:
    """Yield this rank's batches until the first rank has no more: none waits for it in a step."""
    from mpi4py import MPI

    mine, end = iter(batches), object()
    while True:
        batch = next(mine, end)
        if comm.allreduce(batch is end, MPI.LOR):
            return
        yield batch
