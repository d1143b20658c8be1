"""Execute any schedule on real ranks: one loop, whatever the schedule."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from helpers.pace import pace
from helpers.pipeline.checking import check
from helpers.pipeline.memory import Meter
from helpers.pipeline.model import Costs
from helpers.pipeline.schedule import Action, Schedule
from helpers.pipeline.stage import Stage
from helpers.pipeline.stashing import UpdatingStage
from helpers.pipeline.wires import PATIENCE, Wires

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass
class Outcome:
    """What one rank knows after a step."""

    losses: list[float] = field(
        default_factory=list
    )  # of each micro-batch, on the rank of the last stage
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
    patience : float
        Seconds after which a rank that waits for a message raises an error.
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
        patience: float = PATIENCE,
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
        self._wires = Wires(comm, schedule, patience)
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
    ) -> Outcome:
        """Run the schedule once; every rank must call it."""
        self._need(inputs, "inputs", 0)
        self._need(targets, "targets", self.schedule.stages - 1)
        if not self._ready:
            self._wires.learn_shapes(self._modules, inputs[0] if inputs else None)
            self._ready = True
        outcome = Outcome()
        self._wires.expect(self.order)
        for action in self.order:
            taken = self._wires.take(action)
            begin = time.perf_counter_ns()
            with self._paced(action):
                made = self._act(action, taken, inputs, targets, outcome)
            outcome.times.append((action, begin, time.perf_counter_ns()))
            self._wires.give(action, made)
        self._wires.finish()
        outcome.bytes = self.meter.most if self.meter else 0
        return outcome

    def _act(
        self, action: Action, taken: Tensor | None, inputs: Any, targets: Any, outcome: Outcome
    ) -> Tensor | None:
        kind, micro, chunk = action
        stage = self.stages[chunk]
        if kind == "F":
            x = inputs[micro] if taken is None else taken
            if stage.loss is None:
                return stage.forward(micro, x)
            outcome.losses.append(stage.forward(micro, x, targets[micro]).item())
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
