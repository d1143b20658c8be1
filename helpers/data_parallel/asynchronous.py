"""Asynchronous SGD with a parameter server: rank 0 serves, every other rank works at its own pace.

The protocol, one conversation at a time, so that the layers of two workers cannot mix:

    worker                                   server
    HELLO (what I bring, how old)  ───────▶  takes the next hello, whoever sent it
                                   ◀───────  READY (go / stop, and why)
    GRADIENT, layer by layer       ───────▶  receives from this worker only; updates at once
                                   ◀───────  PARAMETERS, layer by layer

A hello waits in MPI's queue while the server talks with another worker: service in order of
arrival. Every wait has a time limit, on both sides.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from helpers.data_parallel.history import History, batches
from helpers.data_parallel.messages import (
    GRADIENT,
    HELLO,
    PARAMETERS,
    READY,
    Hello,
    Ready,
    SilenceError,
    next_hello,
    receive,
    wait,
)

FAULTS = ("die", "die mid-push", "nan", "wrong shape")


class FlatSGD:
    """All that a parameter server needs: the values and the momentum, two flat arrays.

    The same arithmetic as ``torch.optim.SGD``: v ← μ·v + g, θ ← θ − λ·v. No model, no graph.
    """

    def __init__(self, values: np.ndarray, rate: float, momentum: float):
        self.values = values
        self.rate, self.momentum = rate, momentum
        self._velocity = np.zeros_like(values)

    def step(self, gradient: np.ndarray) -> None:
        """Move ``values`` (P,) against ``gradient`` (P,)."""
        self._velocity *= self.momentum
        self._velocity += gradient
        self.values -= self.rate * self._velocity


@dataclass(frozen=True)
class Stop:
    """When the server ends the training: without an epoch, any of these that is not None."""

    updates: int | None = 200
    seconds: float | None = None
    loss: float | None = None  # of the mean over the last 20 updates

    def reached(self, history: History, elapsed: float) -> str:
        """The condition that holds, in words, or an empty string."""
        if self.updates is not None and history.updates >= self.updates:
            return f"{history.updates} updates"
        if self.seconds is not None and elapsed >= self.seconds:
            return f"{self.seconds:g} s"
        if self.loss is not None and history.updates >= 20:
            recent = float(np.mean(history.losses[-20:]))
            if recent <= self.loss:
                return f"loss {recent:.3f}"
        return ""


def serve(
    comm,
    values: np.ndarray,
    sizes: list[int],
    history: History,
    *,
    rate: float,
    momentum: float,
    stop: Stop,
    patience: float = 5.0,
    strikes: int = 3,
) -> None:
    """Be the server: update ``values`` (P,) with each gradient as it comes, until ``stop``.

    ``sizes`` are the elements of each layer. A worker that falls silent for ``patience`` seconds
    in the middle of a conversation is given up; one whose gradients are not finite ``strikes``
    times, or of the wrong shape, is dismissed. All of this is in ``history.report``.
    """
    optimizer = FlatSGD(values, rate, momentum)
    layers = np.split(values, np.cumsum(sizes)[:-1])
    arriving = np.empty_like(values)
    incoming = np.split(arriving, np.cumsum(sizes)[:-1])
    present = set(range(1, comm.Get_size()))
    faults = dict.fromkeys(present, 0)
    began = time.perf_counter()
    ending = ""
    while present:
        called = next_hello(comm, patience)
        if called is None:
            history.report.append(f"rank(s) {sorted(present)} fell silent: given up")
            break
        worker, hello = called
        if worker not in present:
            continue
        if hello.brings == "goodbye":
            present.discard(worker)
            if hello.reason:
                history.report.append(f"rank {worker} left: {hello.reason}")
            continue
        ending = ending or stop.reached(history, time.perf_counter() - began)
        refusal = ending
        if hello.brings == "gradient" and hello.sizes != tuple(sizes):
            refusal = f"layers of {hello.sizes} elements, expected {tuple(sizes)}"
        elif faults[worker] >= strikes:
            refusal = f"{strikes} gradients that were not finite"
        comm.send(Ready(not refusal, refusal, history.updates), worker, READY)
        if refusal:
            present.discard(worker)
            if refusal != ending:
                history.report.append(f"rank {worker} dismissed: {refusal}")
            continue
        if hello.brings == "gradient":
            try:
                for layer in incoming:
                    receive(comm, layer, worker, GRADIENT, patience)
            except SilenceError:
                present.discard(worker)
                history.report.append(f"rank {worker} fell silent while sending: push dropped")
                continue
            if np.isfinite(arriving).all():
                staleness = history.updates - hello.version
                optimizer.step(arriving)
                history.record(time.perf_counter() - began, hello.loss, staleness, worker)
            else:
                faults[worker] += 1
                history.report.append(f"rank {worker} sent a gradient that is not finite: dropped")
        for layer in layers:
            comm.Send(layer, worker, PARAMETERS)
    history.gradients = history.updates
    history.report.append(f"the server stopped: {ending or 'no worker left'}")


class Worker:
    """One worker's side of the protocol."""

    def __init__(self, comm, layers: list[np.ndarray], patience: float = 10.0):
        self._comm, self._layers, self._patience = comm, layers, patience
        self.version = 0
        self.reason = ""

    def call(self, gradient: list[np.ndarray] | None = None, loss: float = 0.0) -> bool:
        """Say hello, send ``gradient`` if there is one, take the new parameters.

        Returns False when the server says stop. Raises SilenceError if it does not answer.
        """
        hello = Hello("nothing")
        if gradient is not None:
            sizes = tuple(layer.size for layer in gradient)
            hello = Hello("gradient", sizes, self.version, loss)
        self._comm.send(hello, 0, HELLO)
        ready = wait(
            self._comm.irecv(source=0, tag=READY), self._patience, "the server did not answer"
        )
        if not ready.go:
            self.reason = ready.reason
            return False
        for layer in gradient or []:
            wait(self._comm.Isend(layer, 0, GRADIENT), self._patience, "the server did not listen")
        for layer in self._layers:
            receive(self._comm, layer, 0, PARAMETERS, self._patience)
        self.version = ready.version + (gradient is not None)
        return True

    def leave(self, reason: str = "") -> None:
        """Say goodbye: a worker that leaves cleanly costs the others nothing."""
        self._comm.send(Hello("goodbye", reason=reason), 0, HELLO)


def work(
    comm,
    images: np.ndarray,
    labels: np.ndarray,
    *,
    batch: int = 16,
    seed: int = 0,
    slow: float = 1.0,
    fault: tuple[str, int] | None = None,
    patience: float = 10.0,
) -> str:
    """Be a worker until the server says stop; return why this worker ended.

    ``slow`` makes it that many times slower; ``fault`` = (kind of :data:`FAULTS`, push number)
    makes it fail on purpose.
    """
    import torch

    from helpers.models.lenet import Flat, LeNet, backward

    model = LeNet(seed=seed)
    flat = Flat(model)
    worker = Worker(comm, flat.layers(flat.values), patience)
    chosen = batches(len(labels), batch, comm.Get_rank() - 1, comm.Get_size() - 1, seed)
    pushes = 0
    try:
        going = worker.call()
        while going:
            where = next(chosen)
            flat.gradients.zero_()
            start = time.perf_counter()
            x, y = torch.from_numpy(images[where]), torch.from_numpy(labels[where])
            loss = backward(model, x, y)
            time.sleep((slow - 1) * (time.perf_counter() - start))
            gradient = flat.layers(flat.gradients)
            pushes += 1
            if fault is not None and pushes >= fault[1]:
                if fault[0] == "die":
                    worker.leave("it died on purpose, and said so")
                    return "died"
                if fault[0] == "die mid-push":
                    return _die_mid_push(comm, gradient, patience)
                if fault[0] == "nan":
                    gradient[0][:] = np.nan
                if fault[0] == "wrong shape":
                    gradient[0] = gradient[0][:-1].copy()
            going = worker.call(gradient, loss)
    except SilenceError as error:
        return str(error)
    except BaseException as error:
        worker.leave(f"{type(error).__name__}: {error}")
        raise
    return worker.reason


def _die_mid_push(comm, gradient: list[np.ndarray], patience: float) -> str:
    """Begin a push, send three layers, and say no more."""
    comm.send(Hello("gradient", tuple(layer.size for layer in gradient)), 0, HELLO)
    ready = wait(comm.irecv(source=0, tag=READY), patience, "the server did not answer")
    for layer in gradient[:3] if ready.go else []:
        comm.Send(layer, 0, GRADIENT)
    return "died mid-push"


def train(
    images: np.ndarray,
    labels: np.ndarray,
    comm,
    *,
    stop: Stop | None = None,
    batch: int = 16,
    rate: float = 0.05,
    momentum: float = 0.9,
    seed: int = 0,
    slow: dict[int, float] | None = None,
    faults: dict[int, tuple[str, int]] | None = None,
    patience: float = 5.0,
) -> History:
    """Train LeNet asynchronously on ``comm`` (rank 0 serves); return the same history on all ranks.

    Raises ValueError for fewer than 2 ranks or an unknown fault.
    """
    rank, ranks = comm.Get_rank(), comm.Get_size()
    if ranks < 2:
        raise ValueError(f"a server and a worker need at least 2 ranks; got {ranks}")
    for kind, _ in (faults or {}).values():
        if kind not in FAULTS:
            raise ValueError(f"a fault must be one of {', '.join(FAULTS)}; got {kind!r}")
    history = History("asynchronous", ranks, batch)
    comm.Barrier()
    if rank == 0:
        from helpers.models.lenet import Flat, LeNet  # only to draw the initial weights

        flat = Flat(LeNet(seed=seed))
        values = flat.values.numpy().copy()
        serve(
            comm,
            values,
            flat.sizes,
            history,
            rate=rate,
            momentum=momentum,
            stop=stop or Stop(),
            patience=patience,
        )
        history.weights = values
    else:
        work(
            comm,
            images,
            labels,
            batch=batch,
            seed=seed,
            slow=(slow or {}).get(rank, 1.0),
            fault=(faults or {}).get(rank),
            patience=2 * patience,
        )
    return comm.bcast(history, root=0)
