"""Steps of a small transformer on ranks, for pictures, checks and claims; call them on every rank.

Each builds the stages that its schedule gives this rank, from one seed. A schedule may be for
fewer ranks than there are: the others sleep meanwhile.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from helpers.collectives.parts import first
from helpers.models.transformer import Config, layer, loss, transformer
from helpers.pace import OutpacedWarning
from helpers.pipeline import partition
from helpers.pipeline.model import Box, Costs, Timeline
from helpers.pipeline.runner import Pipeline, StepResult
from helpers.pipeline.schedule import Schedule

if TYPE_CHECKING:
    from mpi4py import MPI

SMALL = Config(vocabulary=96, context=16, layers=14, heads=2, width=16)  # 16 pieces
SIZE = 2  # sequences in a micro-batch
RATE = 1e-3  # of gradient descent, for schedules with updates


def batches(config: Config, micro: int) -> tuple[list[Tensor], list[Tensor]]:
    """Make micro-batches of random tokens and targets (SIZE, context), the same on all ranks."""
    draws = torch.Generator().manual_seed(0)
    shape = (2, micro, SIZE, config.context)
    both = torch.randint(config.vocabulary, shape, generator=draws)
    inputs, targets = ([part.clone() for part in side] for side in both)  # storages of their own
    return inputs, targets


def modules_of(
    schedule: Schedule,
    rank: int,
    config: Config,
    dtype: torch.dtype = torch.float32,
) -> tuple[list[nn.Module], list[range]]:
    """Make a rank's chunks of a transformer; return also which pieces of the model they are."""
    cut = partition.equal(config.pieces, schedule.stages)
    mine = [cut[schedule.stage(rank, chunk)] for chunk in range(schedule.chunks)]
    made = [nn.Sequential(*(layer(config, i, dtype=dtype) for i in part)) for part in mine]
    return list(made), mine


def record(schedule: Schedule, costs: Costs, repeats: int = 1) -> Timeline | None:
    """Record a step whose stages are paced; the model is SMALL, with one piece for each stage.

    Parameters
    ----------
    costs
        In seconds; passes whose work took longer are counted in the timeline's note.
    repeats
        Steps, of which the shortest counts.

    Returns
    -------
    Timeline or None
        In seconds, on rank 0; None on the others.
    """
    found: list[Timeline] = []
    with first(schedule.ranks) as comm:
        if comm is None:
            return None
        config = replace(SMALL, layers=max(1, schedule.stages - 2))
        modules, _ = modules_of(schedule, comm.rank, config)
        inputs, targets = batches(config, schedule.micro)
        Pipeline(comm, schedule, modules, loss, rate=RATE).step(inputs, targets)  # warms up
        pipeline = Pipeline(comm, schedule, modules, loss, costs=costs, rate=RATE)
        for _ in range(repeats):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", OutpacedWarning)
                line = recorded(comm, pipeline, inputs, targets)[1]
            late = comm.reduce(sum(issubclass(w.category, OutpacedWarning) for w in caught))
            if line is not None:
                more = f"; {late} of {len(line.boxes)} took longer" if late else ""
                found.append(replace(line, note=line.note + more))
    return min(found, key=lambda line: line.span) if found else None


def difference(schedule: Schedule) -> float:
    """Compare a step on ranks with one process: the largest difference of any loss or gradient."""
    worst = 0.0
    with first(schedule.ranks) as comm:
        if comm is None:
            return worst
        modules, pieces = modules_of(schedule, comm.rank, SMALL, dtype=torch.float64)
        inputs, targets = batches(SMALL, schedule.micro)
        result = Pipeline(comm, schedule, modules, loss).step(inputs, targets)
        whole = transformer(SMALL, dtype=torch.float64)
        losses = [loss(whole(x), y) for x, y in zip(inputs, targets, strict=True)]
        torch.stack(losses).mean().backward()
        for got, value in zip(result.losses, losses, strict=False):
            worst = max(worst, abs(got - value.item()))
        for module, part in zip(modules, pieces, strict=True):
            reference = whole[part.start : part.stop].parameters()
            for p, q in zip(module.parameters(), reference, strict=True):
                worst = max(worst, (_grad(p) - _grad(q)).abs().max().item())
    return worst


def bytes_kept(schedule: Schedule, recompute: bool) -> tuple[int, int]:
    """Count the bytes that this rank keeps for backward passes, inputs only with ``recompute``.

    The most during a step, and those of one micro-batch, without recomputation.
    """
    from helpers.pipeline.families import gpipe

    found = [0, 0]
    with first(schedule.ranks) as comm:
        if comm is not None:
            inputs, targets = batches(SMALL, schedule.micro)
            alone = gpipe(schedule.ranks, 1)
            for k, (plan, again) in enumerate(((schedule, recompute), (alone, False))):
                modules, _ = modules_of(plan, comm.rank, SMALL)
                pipeline = Pipeline(comm, plan, modules, loss, recompute=again, measure=True)
                found[k] = pipeline.step(inputs[: plan.micro], targets[: plan.micro]).bytes
    return found[0], found[1]


def _grad(p: Tensor) -> Tensor:
    assert p.grad is not None
    return p.grad


def recorded(
    comm: MPI.Intracomm,
    pipeline: Pipeline,
    inputs: Sequence[Tensor] | None = None,
    targets: Sequence[Tensor] | None = None,
) -> tuple[StepResult, Timeline | None]:
    """Run a step that all ranks begin together, and bring together when each did what."""
    from helpers.tracing.clock import measure_offset
    from helpers.waiting import meet

    clock = measure_offset(comm)
    meet(comm)
    result = pipeline.step(inputs, targets)
    clock = clock + measure_offset(comm)
    mine = [(a, clock.to_root(b) * 1e-9, clock.to_root(e) * 1e-9) for a, b, e in result.times]
    everything = comm.gather(mine)
    if everything is None:
        return result, None
    begin = min(box[1] for boxes in everything for box in boxes)
    boxes = tuple(
        Box(rank, action, b - begin, e - begin)
        for rank, found in enumerate(everything)
        for action, b, e in found
    )
    note = ""
    if pipeline.costs is not None:
        stages = range(pipeline.schedule.stages)
        split = any(box.action.kind == "W" for box in boxes)
        names = {"F": "F", "I": "I", "W": "W"} if split else {"F": "forward", "B": "backward"}
        times = {k: _shown({1e3 * pipeline.costs.of(k, s) for s in stages}) for k in names}
        note = "stages paced: " + ", ".join(f"{names[k]} {times[k]} ms" for k in names)
    return result, Timeline(pipeline.schedule, boxes, True, "s", note)


def _shown(numbers: set[float]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"
