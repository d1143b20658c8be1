"""The one training loop of all schemes."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.data_parallel.alarm import Alarm
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
    """Train a replica on each rank of the scheme's communicator; every rank calls."""
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
    elif isinstance(limit, range) and scheme.in_step:
        mine = _as_many(mine, limit)
    weights = _weights(batches, scheme, limit)
    history.by_samples = weights is not None
    alarm = Alarm(comm) if scheme.in_step else None
    judge = Judge(scheme)
    computing, synchronizing = [], []
    scheme.begin(replica)
    comm.Barrier()
    began = time.perf_counter()
    try:
        for step, batch in zip(limit, mine):  # noqa: B905
            if alarm is not None:
                alarm.check()
            replica.flat.gradients.zero_()
            start = time.perf_counter()
            scheme.before_backward(replica, step)
            ready = time.perf_counter()
            if batch is not None:
                replica.weight = weights[step] if weights else 1.0
                replica.backward(*batch)
                history.samples.append(len(batch[0]))
                history.batch = history.samples[0]
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
        if alarm is not None:
            alarm.sound(error)
        raise
    if alarm is not None:
        alarm.end()
    if history.updates and not scheme.serves:
        history.compute = statistics.median(computing)
        history.synchronize = statistics.median(synchronizing)
    history.ended = history.ended or f"{history.updates} updates"
    return scheme.end(replica)


def _limit(
    batches: Iterable, scheme: Scheme, steps: int | None
) -> range | itertools.count[int] | None:
    """Number this rank's steps; in step, all ranks agree where they end; None: in each step."""
    asked: list[int | None] = [steps]
    lengths: list[int | None] = []
    if scheme.in_step:
        told = scheme.comm.allgather((steps, _length(batches)))
        asked = [one for one, _ in told]
        lengths = [told[rank][1] for rank in scheme.workers]
    whole = steps is None or (isinstance(steps, (int, np.integer)) and steps >= 0)
    if not whole or any(one != steps for one in asked):
        raise ValueError(
            "train expects steps=None or a whole number from 0, the same on every rank; got "
            + ", ".join(str(one) for one in asked)
        )
    if not scheme.in_step:
        return itertools.count() if steps is None or not scheme.serves else range(steps)
    if steps is None:
        if None in lengths and scheme.stop != Stop():
            return None
        known = [length for length in lengths if length is not None]
        if len(known) < len(lengths):
            raise ValueError(f"train expects steps, or batches with a length; got {batches!r}")
        steps = min(known)
    for rank, length in zip(scheme.workers, lengths, strict=True):
        if length is not None and length < steps:
            raise ValueError(
                f"steps={steps} expects as many batches on every worker; rank {rank} has {length}: "
                "leave steps out to end with the shortest, or go through them again"
            )
    return range(steps)


def _length(batches: Iterable) -> int | None:
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:  # also of a DataLoader over an IterableDataset
        return None


def _weights(batches: Iterable, scheme: Scheme, limit: Iterable) -> list[float] | None:
    """Weigh this worker's gradient in each step by its samples; None where all are to count alike.

    The mean of n gradients of b₁, ..., bₙ samples is that of all samples with weights n bᵣ / Σ b.
    """
    if not (scheme.by_samples and isinstance(limit, range)):
        return None
    told = scheme.comm.allgather(None if scheme.serves else _sizes(batches, limit))
    every = [told[rank] for rank in scheme.workers]
    if None in every or all(sizes == every[0] for sizes in every):
        return None
    mine = np.ones(len(limit)) if scheme.serves else told[scheme.comm.Get_rank()]
    return (len(every) * np.asarray(mine) / np.sum(every, axis=0)).tolist()


def _sizes(batches: Iterable, steps: range) -> list[int] | None:
    """Return how many samples the batches of these steps have, where that is known beforehand."""
    try:
        if isinstance(batches, list | tuple):
            return [len(batches[step][0]) for step in steps]
        each, samples = batches.batch_size, len(batches.sampler)  # type: ignore[attr-defined]
        return [min(each, samples - each * step) for step in steps]
    except (AttributeError, LookupError, TypeError):  # an iterator, a stream, batches of no length
        return None


def _as_many(batches: Iterable, steps: range) -> Iterator:
    """Yield this rank's batches; raise where they end too soon: the others would wait."""
    made = 0
    for batch in batches:
        yield batch
        made += 1
    raise ValueError(f"this rank's batches ended after {made} of {len(steps)} steps")


def _while_all_have_one(batches: Iterable, comm: Intracomm) -> Iterator:
    """Yield this rank's batches until the first rank has no more: none waits for it in a step."""
    from mpi4py import MPI

    mine, end = iter(batches), object()
    while True:
        batch = next(mine, end)
        if comm.allreduce(batch is end, MPI.LOR):
            return
        yield batch
