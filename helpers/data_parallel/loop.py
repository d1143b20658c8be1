"""The one training loop of all schemes, and how ranks agree on its end."""

from __future__ import annotations

import itertools
import statistics
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.data_parallel.history import History, Stop
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Ended, Scheme
from helpers.machine.shared_memory import unlink_own

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

LOOK = 0.1  # seconds between two looks for bad news
GRACE = 1.5  # seconds in which a rank that computes reaches its next step, and raises by itself


class Watcher:
    """Looks on while ranks train, all ranks alike: override what you need. Its time does not count.

    It sees the replica at the beginning, in each step between the optimizer and the scheme's
    ``after_step``, and at the step's end, where words that it returns end the training.
    """

    def begun(self, replica: Replica) -> None:
        """Look at the replica before the first step."""

    def moved(self, replica: Replica, step: int) -> None:
        """Look at what the optimizer has made of it."""

    def ended(self, replica: Replica, step: int) -> str:
        """Look at what the step has made of it; return why the training is over, or ""."""
        return ""


def train(
    replica: Replica,
    batches: Iterable[tuple[Any, Any]],
    scheme: Scheme,
    *,
    steps: int | None = None,
    stop: Stop | None = None,
    watch: Sequence[Watcher] = (),
) -> History:
    """Train a replica on each rank of the scheme's communicator; every rank calls.

    Parameters
    ----------
    batches
        (x, y) of this rank's steps, in order.
    steps
        How many, the same on every rank; the server's updates in an asynchronous scheme. None:
        until ``stop``, or until a rank has no batch left.
    watch
        Who looks on: see :class:`Watcher`.
    """
    if not isinstance(scheme, Scheme):
        raise TypeError(f"train expects a Scheme; got {scheme!r}")
    if not isinstance(stop, Stop | None):
        raise TypeError(f"train expects stop=Stop(...); got {stop!r}")
    comm = scheme.comm
    history = History(scheme.name, comm.Get_size(), 0)
    replica = replica.in_a_run(history, stop or Stop())
    limit = _limit(batches, scheme, steps, replica.stop)
    mine = itertools.repeat(None) if scheme.serves else batches
    if limit is None:
        limit, mine = itertools.count(), _while_all_have_one(mine, comm)
    elif isinstance(limit, range) and scheme.synchronous:
        mine = _as_many(mine, limit)
    alarm = Alarm(comm) if scheme.synchronous else None
    judge = Judge(scheme, replica.stop)
    computing, synchronizing = [], []
    scheme.begin(replica)
    for watcher in watch:
        watcher.begun(replica)
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
                replica.backward(*batch)
                history.samples.append(len(batch[0]))
                history.batch = history.samples[0]
            computed = time.perf_counter()
            scheme.after_backward(replica, step)
            arrived = time.perf_counter()
            replica.flat.check()
            scheme.update(replica, step)
            moved = time.perf_counter()
            for watcher in watch:
                watcher.moved(replica, step)
            seen = time.perf_counter()
            scheme.after_step(replica, step)
            end = time.perf_counter()
            began += seen - moved
            computing.append(computed - ready)
            synchronizing.append(ready - start + arrived - computed + end - seen)
            history.add(end - began, replica.last_loss, scheme.staleness, scheme.worker)
            history.ended = judge.verdict(history, end - began)
            end = time.perf_counter()
            for watcher in watch:
                history.ended = watcher.ended(replica, step) or history.ended
            began += time.perf_counter() - end
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
    batches: Iterable, scheme: Scheme, steps: int | None, stop: Stop
) -> range | itertools.count[int] | None:
    """Number this rank's steps; synchronous ranks agree where they end; None: in each step."""
    asked: list[int | None] = [steps]
    lengths: list[int | None] = []
    if scheme.synchronous:
        told = scheme.comm.allgather((steps, _length(batches)))
        asked = [one for one, _ in told]
        lengths = [told[rank][1] for rank in scheme.workers]
    whole = steps is None or (isinstance(steps, (int, np.integer)) and steps >= 0)
    if not whole or any(one != steps for one in asked):
        raise ValueError(
            "train expects steps=None or a whole number from 0, the same on every rank; got "
            + ", ".join(str(one) for one in asked)
        )
    if not scheme.synchronous:
        return itertools.count() if steps is None or not scheme.serves else range(steps)
    if steps is None:
        if None in lengths and stop != Stop():
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


class Judge:
    """Tells after an update whether the training is over.

    Synchronous ranks must all leave after the same update, or those that go on would wait for the
    others for ever: they agree on rank 0's clock and on the mean of the workers' losses, by one
    allreduce of two numbers. An asynchronous server decides alone.
    """

    def __init__(self, scheme: Scheme, stop: Stop):
        self.scheme, self.stop = scheme, stop
        self._together = History(scheme.name, scheme.comm.Get_size(), 0)

    def verdict(self, history: History, elapsed: float) -> str:
        """Return the condition that has ended the training, or ""; synchronous ranks all call."""
        from mpi4py import MPI

        scheme = self.scheme
        if self.stop == Stop():
            return ""
        if not scheme.synchronous:
            return self.stop.reached(history, elapsed) if scheme.serves else ""
        workers, rank = scheme.workers, scheme.comm.Get_rank()
        told = np.array([0.0 if rank else elapsed, history.losses[-1] if rank in workers else 0.0])
        scheme.comm.Allreduce(MPI.IN_PLACE, told)
        seconds, loss = told.tolist()
        self._together.add(seconds, loss / len(workers))
        return self.stop.reached(self._together, seconds)


class Alarm:
    """Listens, while a synchronous training lasts, for a rank that fails (collective).

    A rank that computes raises in its next step. One that waits inside MPI, where no exception
    reaches it, says what happened and ends the job. Ranks of a notebook's cluster need none of
    this: the cluster tells whose error it was, and frees the others.
    """

    def __init__(self, comm: Intracomm):
        from mpi4py import MPI

        self._over = threading.Event()
        self._heard = ""
        watched = "helpers.cluster.rank.rankside" in sys.modules
        threads = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        self._comm = comm.Dup() if comm.Get_size() > 1 and threads and not watched else None
        if self._comm is not None:
            self._thread = threading.Thread(target=self._listen, name="alarm", daemon=True)
            self._thread.start()

    def _listen(self) -> None:
        assert self._comm is not None, "else nobody listens"
        while not self._over.wait(LOOK):
            if self._comm.Iprobe():
                self._heard = self._comm.recv()
                if not self._over.wait(GRACE):
                    rank = self._comm.Get_rank()
                    print(f"rank {rank}: {self._heard}", file=sys.stderr, flush=True)
                    unlink_own()
                    self._comm.Abort(1)
                return

    def check(self) -> None:
        """Raise RuntimeError if another rank has failed."""
        if self._heard:
            raise RuntimeError(self._heard)

    def sound(self, error: BaseException) -> None:
        """Tell the others that this rank fails, unless one of them has failed before."""
        self._over.set()
        if self._comm is not None and not self._heard:
            rank = self._comm.Get_rank()
            said = f"rank {rank} left this training with {type(error).__name__}: {error}"
            for other in range(self._comm.Get_size()):
                if other != rank:
                    self._comm.isend(said, other)

    def end(self) -> None:
        """Stop listening: the training is over, on every rank."""
        self._over.set()
        if self._comm is not None:
            self._thread.join()
            self._comm.Free()
