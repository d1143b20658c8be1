"""A step on ranks as a timeline: every action, by the clock that all ranks share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from helpers.pipeline.timeline import Box, Timeline

if TYPE_CHECKING:
    from mpi4py import MPI
    from torch import Tensor

    from helpers.pipeline.runner import Outcome, Pipeline


def recorded(
    comm: MPI.Intracomm,
    pipeline: Pipeline,
    inputs: Sequence[Tensor] | None = None,
    targets: Sequence[Tensor] | None = None,
) -> tuple[Outcome, Timeline | None]:
    """Run a step that all ranks begin together, and bring together when each did what."""
    from helpers.tracing.clock import measure_offset
    from helpers.waiting import meet

    clock = measure_offset(comm)
    meet(comm)
    outcome = pipeline.step(inputs, targets)
    clock = clock + measure_offset(comm)
    mine = [(a, clock.to_root(b) * 1e-9, clock.to_root(e) * 1e-9) for a, b, e in outcome.times]
    everything = comm.gather(mine)
    if everything is None:
        return outcome, None
    begin = min(box[1] for boxes in everything for box in boxes)
    boxes = tuple(
        Box(rank, action, b - begin, e - begin)
        for rank, found in enumerate(everything)
        for action, b, e in found
    )
    note = ""
    if pipeline.costs is not None:
        stages = range(pipeline.schedule.stages)
        f, b = ({1e3 * pipeline.costs.of(kind, stage) for stage in stages} for kind in "FB")
        note = f"stages paced: forward {_shown(f)} ms, backward {_shown(b)} ms"
    return outcome, Timeline(pipeline.schedule, boxes, True, "s", note)


def _shown(numbers: set[float]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"
