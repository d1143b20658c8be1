"""Messages between stages: activations forward, gradients backward, none of which waits to be sent.

Receives are posted before they are needed, sends go on in the background, and every message has a
tag of its own, so that two ranks may send to each other in any order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from helpers.machine.waiting import Yielding, until
from helpers.pipeline.schedule import Action, Schedule

if TYPE_CHECKING:
    from mpi4py import MPI

AHEAD = 2  # receives that are posted before they are needed
PATIENCE = 60.0  # seconds


class Wires:
    """One rank's messages on a communicator of its own; a wait ends after ``patience`` seconds."""

    def __init__(self, comm: MPI.Intracomm, schedule: Schedule, patience: float = PATIENCE) -> None:
        self.comm, self.schedule, self.patience = comm, schedule, patience
        self.rank = comm.Get_rank()
        self._shapes: dict[int, tuple[tuple[int, ...], torch.dtype]] = {}  # of stages' outputs
        self._local: dict[tuple[int, Action], Tensor] = {}
        self._posted: dict[Action, tuple[Any, Tensor]] = {}
        self._under_way: list[tuple[Any, Tensor]] = []
        self._expected: list[Action] = []
        self._yielding = Yielding()

    def learn_shapes(self, modules: Sequence[nn.Module], x: Tensor | None) -> None:
        """Send the shape of what each stage makes to the next; every rank must call it."""
        schedule, told = self.schedule, None
        for stage in range(schedule.stages - 1):
            rank, then = schedule.rank_of(stage), schedule.rank_of(stage + 1)
            if self.rank == rank:
                if stage > 0:
                    shape, dtype = self._shapes[stage - 1]
                    x = torch.zeros(shape, dtype=dtype)
                with torch.no_grad(), torch.random.fork_rng(devices=[]):
                    y = modules[schedule.places[rank].index(stage)](x)
                told = (tuple(y.shape), y.dtype)
                self._shapes[stage] = told
                if then != rank:
                    self.comm.send(told, then, tag=stage)
            elif self.rank == then:
                self._shapes[stage] = self.comm.recv(source=rank, tag=stage)

    def expect(self, order: Sequence[Action]) -> None:
        """Begin a step: post the first receives."""
        self._expected = [a for a in order if self._remote(self.schedule.source(self.rank, a))]
        for action in self._expected[:AHEAD]:
            self._post(action)

    def take(self, action: Action) -> Tensor | None:
        """Return what an action needs from another stage, once it is there; None for nothing."""
        source = self.schedule.source(self.rank, action)
        if source is None:
            return None
        if source[0] == self.rank:
            return self._local.pop(source)
        self._post(action)
        request, buffer = self._posted.pop(action)
        self._expected.remove(action)
        for later in self._expected[:AHEAD]:
            self._post(later)
        self._wait(request, f"{action}: nothing came from rank {source[0]}")
        return buffer

    def give(self, action: Action, tensor: Tensor | None) -> None:
        """Send on the activation or gradient that an action made, without waiting."""
        target = self.schedule.target(self.rank, action)
        if target is None or tensor is None:
            return
        if target[0] == self.rank:
            kind = "B" if action.kind == "I" else action.kind
            self._local[self.rank, action._replace(kind=kind)] = tensor
            return
        tensor = tensor.contiguous()
        request = self.comm.Isend(tensor.numpy(), target[0], self._tag(*target))
        self._under_way = [pair for pair in self._under_way if not pair[0].Test()]
        self._under_way.append((request, tensor))

    def finish(self) -> None:
        """Wait until everything that was sent has been received."""
        for request, _ in self._under_way:
            self._wait(request, "the end of the step: a message was not received")
        self._under_way = []

    def _post(self, action: Action) -> None:
        if action in self._posted:
            return
        source = self.schedule.source(self.rank, action)
        assert source is not None
        stage = self.schedule.stage(self.rank, action.chunk)
        shape, dtype = self._shapes[stage - 1 if action.kind == "F" else stage]
        buffer = torch.empty(shape, dtype=dtype)
        kind = "B" if action.kind == "I" else action.kind
        tag = self._tag(self.rank, action._replace(kind=kind))
        self._posted[action] = (self.comm.Irecv(buffer.numpy(), source[0], tag), buffer)

    def _tag(self, rank: int, action: Action) -> int:
        stage = self.schedule.stage(rank, action.chunk)
        return 2 * (action.micro * self.schedule.stages + stage) + (action.kind == "F")

    def _remote(self, source: tuple[int, Action] | None) -> bool:
        return source is not None and source[0] != self.rank

    def _wait(self, request: Any, what: str) -> None:
        until(
            request.Test,
            time.monotonic() + self.patience,
            lambda: TimeoutError(
                f"rank {self.rank} waited {self.patience:g} s in vain at {what} "
                f"({self.schedule.name})"
            ),
            yielding=self._yielding,
        )
