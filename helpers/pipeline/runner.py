"""Execute any schedule on real ranks: one loop, whatever the schedule."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from helpers.machine.waiting import Yielding, until
from helpers.pace import pace
from helpers.pipeline.model import Costs
from helpers.pipeline.schedule import Action, Schedule, check, same
from helpers.pipeline.stage import Meter, Stage, UpdatingStage

if TYPE_CHECKING:
    from mpi4py import MPI

AHEAD = 2  # receives that are posted before they are needed
PATIENCE = 60.0  # seconds: a rank that waits longer for a message raises an error


class Wires:
    """One rank's messages on a communicator of its own, none of which waits to be sent.

    Receives are posted before they are needed, sends go on in the background, and every message has
    a tag of its own, so that two ranks may send to each other in any order.
    """

    def __init__(self, comm: MPI.Intracomm, schedule: Schedule) -> None:
        self.comm, self.schedule = comm, schedule
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
            self._local[self.rank, same(action)] = tensor
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
        tag = self._tag(self.rank, same(action))
        self._posted[action] = (self.comm.Irecv(buffer.numpy(), source[0], tag), buffer)

    def _tag(self, rank: int, action: Action) -> int:
        stage = self.schedule.stage(rank, action.chunk)
        return 2 * (action.micro * self.schedule.stages + stage) + (action.kind == "F")

    def _remote(self, source: tuple[int, Action] | None) -> bool:
        return source is not None and source[0] != self.rank

    def _wait(self, request: Any, what: str) -> None:
        until(
            request.Test,
            time.monotonic() + PATIENCE,
            lambda: TimeoutError(
                f"rank {self.rank} waited {PATIENCE:g} s in vain at {what} ({self.schedule.name})"
            ),
            yielding=self._yielding,
        )


@dataclass
class StepResult:
    """What one rank knows after a step."""

    losses: list[float] = field(default_factory=list)  # of micro-batches, at the last stage
    times: list[tuple[Action, int, int]] = field(default_factory=list)  # with begin and end in ns
    bytes: int = 0  # kept for backward passes at most, where measured


class Pipeline:
    """A rank's part of a model, and a schedule by which all ranks run it.

    After `step`, the parameters' ``.grad`` hold the gradient of the mean loss over micro-batches
    (added to what was there); a schedule with updates (PipeDream) has changed the weights instead.

    Parameters
    ----------
    schedule : Schedule
        Checked here, before anything is sent.
    modules : sequence of torch.nn.Module
        This rank's chunks of the model.
    loss : callable
        (output, target) → a number; used on the rank of the last stage.
    recompute : bool
        Keep inputs only, and go forward again before going back.
    measure : bool
        Whether bytes kept are counted, which takes time.
    rate : float, optional
        For a schedule with updates: the step of gradient descent.
    stash : bool
        For a schedule with updates: whether a micro-batch keeps the weights that it began with.
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        schedule: Schedule,
        modules: Sequence[nn.Module],
        loss: Callable[[Tensor, Tensor], Tensor],
        *,
        recompute: bool = False,
        costs: Costs | None = None,
        measure: bool = False,
        rate: float | None = None,
        stash: bool = True,
    ) -> None:
        check(schedule)
        if comm.Get_size() != schedule.ranks:
            raise ValueError(
                f"{schedule.name} is for {schedule.ranks} ranks; there are {comm.Get_size()}"
            )
        if len(modules) != schedule.chunks:
            raise ValueError(
                f"{schedule.name} has {schedule.chunks} chunks on each rank; got {len(modules)}"
            )
        self.rank, self.schedule, self.costs = comm.Get_rank(), schedule, costs
        self.order = schedule.orders[self.rank]
        self.meter = Meter() if measure else None
        self._wires = Wires(comm, schedule)
        self._modules, self._ready = list(modules), False
        kinds = {action.kind for order in schedule.orders for action in order}
        if "U" in kinds and not (rate is not None and rate > 0 and not recompute):
            raise ValueError(f"{schedule.name} updates: expected rate > 0, and no recompute")
        self.stages: list[Stage] = []
        for chunk, module in enumerate(modules):
            last = schedule.stage(self.rank, chunk) == schedule.stages - 1
            own = loss if last else None
            if "U" in kinds:
                assert rate is not None
                self.stages.append(UpdatingStage(module, rate, own, stash, self.meter))
            else:
                scale = 1 / schedule.micro
                split = "W" in kinds
                self.stages.append(Stage(module, own, scale, recompute, split, self.meter))

    def step(
        self, inputs: Sequence[Tensor] | None = None, targets: Sequence[Tensor] | None = None
    ) -> StepResult:
        """Run the schedule once; every rank must call it."""
        self._need(inputs, "inputs", 0)
        self._need(targets, "targets", self.schedule.stages - 1)
        if not self._ready:
            self._wires.learn_shapes(self._modules, inputs[0] if inputs else None)
            self._ready = True
        result = StepResult()
        self._wires.expect(self.order)
        for action in self.order:
            taken = self._wires.take(action)
            begin = time.perf_counter_ns()
            with self._paced(action):
                made = self._act(action, taken, inputs, targets, result)
            result.times.append((action, begin, time.perf_counter_ns()))
            self._wires.give(action, made)
        self._wires.finish()
        result.bytes = self.meter.most if self.meter else 0
        return result

    def _act(
        self, action: Action, taken: Tensor | None, inputs: Any, targets: Any, result: StepResult
    ) -> Tensor | None:
        kind, micro, chunk = action
        stage = self.stages[chunk]
        if kind == "F":
            x = inputs[micro] if taken is None else taken
            if stage.loss is None:
                return stage.forward(micro, x)
            result.losses.append(stage.forward(micro, x, targets[micro]).item())
            return None
        if kind == "B":
            return stage.backward(micro, taken)
        if kind == "I":
            return stage.backward_input(micro, taken)
        if kind == "W":
            stage.backward_weight(micro)
        elif isinstance(stage, UpdatingStage):
            stage.update(micro)
        return None

    def _paced(self, action: Action) -> Any:
        if self.costs is None:
            return contextlib.nullcontext()
        seconds = self.costs.of(action.kind, self.schedule.stage(self.rank, action.chunk))
        return pace(seconds) if seconds else contextlib.nullcontext()

    def _need(self, given: Sequence[Tensor] | None, name: str, stage: int) -> None:
        if self.rank == self.schedule.rank_of(stage):
            count = None if given is None else len(given)
            if count != self.schedule.micro:
                raise ValueError(
                    f"step: rank {self.rank} has stage {stage} and needs {self.schedule.micro} "
                    f"{name}; got {count}"
                )
