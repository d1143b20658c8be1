"""Asynchronous SGD: rank 0 serves the parameters, every other rank works at its own pace.

The protocol, one conversation at a time:

    worker                                   server
    HELLO (what I bring, how old)  ───────▶  takes the next hello, whoever sent it
                                   ◀───────  READY (go / stop, and why)
    GRADIENT, layer by layer       ───────▶  receives from this worker only; updates at once
                                   ◀───────  PARAMETERS, layer by layer

What keeps the layers of two workers apart is that the server receives a whole gradient from one
source. The hello is for what else it wants to say: refuse, stop, or give a worker up.

A hello waits in MPI's queue while the server talks with another worker: service in order of
arrival. Every wait has a time limit, on both sides. One step of the server is one update.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from helpers.data_parallel.history import History
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Ended, Scheme
from helpers.data_parallel.schemes.protocol import (
    GRADIENT,
    HELLO,
    PARAMETERS,
    READY,
    Hello,
    Ready,
    SilenceError,
    all_leave,
    next_hello,
    receive,
    wait,
)

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

STRIKES = 3  # gradients of a worker that may fail to be finite


class Asynchronous(Scheme):
    """Rank 0 updates the parameters with each gradient as it comes; workers fetch, compute, push.

    A worker that falls silent for ``patience`` seconds in the middle of a conversation is given up;
    one whose gradients are not finite three times, or of the wrong shape, is dismissed. All
    of this is in the history's ``report``.

    Parameters
    ----------
    patience : float
        Seconds that the server waits for a worker; a worker waits twice as long for the server.
    layers : bool
        Whether gradients and parameters travel layer by layer, or each in one message.
    """

    name = "asynchronous"
    server = 0
    synchronous = False

    def __init__(
        self,
        comm: Intracomm,
        patience: float = 5.0,
        layers: bool = True,
    ):
        super().__init__(comm)
        self.by_layer = layers
        self.patience = patience if self.serves else 2 * patience
        self.version = -1  # a worker's: updates behind its parameters; −1 before it has any
        self._present = set(self.workers)
        self._faults = dict.fromkeys(self.workers, 0)
        self._updates, self._stopped = 0, ""

    def begin(self, replica: Replica) -> None:
        """Cut the buffers into layers; the parameters come with a worker's first fetch."""
        self.share_untrained(replica)
        flat = replica.flat
        self.layers = flat.layers(flat.values) if self.by_layer else [flat.values.numpy()]
        self.gradients = flat.layers(flat.gradients) if self.by_layer else [flat.gradients.numpy()]
        self.sizes = tuple(layer.size for layer in self.layers)

    def before_backward(self, replica: Replica, step: int) -> None:
        """Fetch a worker's first parameters."""
        if step == 0:
            self._began = time.perf_counter()
            if not self.serves:
                self.call(Hello("nothing"))

    def after_backward(self, replica: Replica, step: int) -> None:
        """Push a worker's gradient and fetch new parameters; the server takes the next push."""
        if self.serves:
            self._next_gradient(replica)
        else:
            self.push(replica, self.gradients)

    def after_step(self, replica: Replica, step: int) -> None:
        """Answer the worker whose gradient it was."""
        if self.serves:
            self._updates += 1
            self._answer(self.worker)

    def end(self, replica: Replica) -> History:
        """Part: the server dismisses every worker, and all take its history."""
        history = replica.history
        if self.serves:
            self._stopped = history.ended = self._stopped or history.ended
            self._dismiss_all(history)
            history.gradients = history.updates
            history.report.append(f"the server stopped: {self._stopped}")
            history.weights = replica.flat.values.numpy().copy()
        elif not self._stopped:
            self.leave("")
        all_leave(self.comm, 2 * self.patience, self._dismiss_late if self.serves else None)
        return self.comm.bcast(history, root=0)

    # ------------------------------------------------------------------ a worker's side

    def call(self, hello: Hello, gradient: list[np.ndarray] | None = None) -> None:
        """Say hello, send ``gradient`` layer by layer if there is one, take the new parameters.

        It may raise :class:`Ended`: the server says stop, or nothing at all.
        """
        try:
            self.comm.send(hello, 0, HELLO)
            ready = wait(
                self.comm.irecv(source=0, tag=READY), self.patience, "the server did not answer"
            )
            if not ready.go:
                raise self.over(ready.reason)
            for layer in gradient or []:
                sent = self.comm.Isend(layer, 0, GRADIENT)
                wait(sent, self.patience, "the server did not listen")
            for layer in self.layers:
                receive(self.comm, layer, 0, PARAMETERS, self.patience)
        except SilenceError as error:
            raise self.over(str(error)) from error
        self.version = ready.version + (gradient is not None)

    def push(self, replica: Replica, gradient: list[np.ndarray]) -> None:
        """Send a gradient layer by layer, and take the new parameters, unless :class:`Ended`."""
        sizes = tuple(layer.size for layer in gradient)
        hello = Hello("gradient", sizes, self.version, replica.last_loss, replica.history.batch)
        self.call(hello, gradient)

    def leave(self, reason: str) -> None:
        """Say goodbye: a worker that leaves cleanly costs the others nothing."""
        if not self.serves:
            self.comm.send(Hello("goodbye", reason=reason), 0, HELLO)

    def over(self, reason: str) -> Ended:
        """Note why this worker's training is over, and return what is to be raised."""
        self._stopped = reason
        return Ended(reason)

    # ---------------------------------------------------------------- the server's side

    def _next_gradient(self, replica: Replica) -> None:
        """Talk with one worker after the other until one of them has brought a good gradient."""
        history = replica.history
        while self._present:
            worker, hello = self._next_hello(history)
            if worker not in self._present:
                self._dismiss_late(worker, hello)
                continue
            self._stopped = self._stopped or replica.stop.reached(
                history, time.perf_counter() - self._began
            )
            refusal = self._stopped or self._refusal(worker, hello)
            if refusal:
                self._refuse(worker, refusal, history)
                continue
            self.comm.send(Ready(True, version=self._updates), worker, READY)
            if hello.brings == "nothing":
                self._answer(worker)
            elif self._take(worker, history):
                self.worker, self.staleness = worker, self._updates - hello.version
                replica.last_loss, history.batch = hello.loss, hello.batch
                return
        self._stopped = self._stopped or "no worker left"
        raise Ended(self._stopped)

    def _next_hello(self, history: History) -> tuple[int, Hello]:
        """Take a hello of somebody who is present or −1; goodbyes and silence thin the present."""
        called = next_hello(self.comm, self.patience)
        if called is None:
            history.report.append(f"rank(s) {sorted(self._present)} fell silent: given up")
            self._present.clear()
            return -1, Hello("goodbye")
        worker, hello = called
        if worker in self._present and hello.brings == "goodbye":
            self._present.discard(worker)
            if hello.reason:
                history.report.append(f"rank {worker} left: {hello.reason}")
        return worker, hello

    def _refusal(self, worker: int, hello: Hello) -> str:
        """Say why this worker may not go on, or nothing."""
        if hello.brings == "gradient" and hello.sizes != self.sizes:
            if len(hello.sizes) != len(self.sizes):
                return f"{len(hello.sizes)} layers, expected {len(self.sizes)}"
            layer = next(i for i, n in enumerate(self.sizes) if hello.sizes[i] != n)
            got, expected = hello.sizes[layer], self.sizes[layer]
            return f"layer {layer} has {got} elements, expected {expected}"
        if self._faults[worker] >= STRIKES:
            return f"{STRIKES} gradients that were not finite"
        return ""

    def _refuse(self, worker: int, reason: str, history: History) -> None:
        self.comm.send(Ready(False, reason, self._updates), worker, READY)
        self._present.discard(worker)
        if reason != self._stopped:
            history.report.append(f"rank {worker} dismissed: {reason}")

    def _take(self, worker: int, history: History) -> bool:
        """Receive a gradient; tell whether it is whole and finite."""
        try:
            for layer in self.gradients:
                receive(self.comm, layer, worker, GRADIENT, self.patience)
        except SilenceError:
            self._present.discard(worker)
            history.report.append(f"rank {worker} fell silent while sending: push dropped")
            return False
        if all(np.isfinite(layer).all() for layer in self.gradients):
            return True
        self._faults[worker] += 1
        history.report.append(f"rank {worker} sent a gradient that is not finite: dropped")
        self._answer(worker)
        return False

    def _answer(self, worker: int) -> None:
        for layer in self.layers:
            self.comm.Send(layer, worker, PARAMETERS)

    def _dismiss_all(self, history: History) -> None:
        """Refuse whatever the workers that are still there bring next."""
        while self._present:
            worker, hello = self._next_hello(history)
            if worker in self._present:
                self._refuse(worker, self._stopped, history)
            else:
                self._dismiss_late(worker, hello)

    def _dismiss_late(self, worker: int, hello: Hello) -> None:
        """Refuse a worker that had been given up: its hello must not reach the next training."""
        if hello.brings != "goodbye":
            reason = self._stopped or "given up: the server has waited too long"
            self.comm.send(Ready(False, reason, self._updates), worker, READY)
