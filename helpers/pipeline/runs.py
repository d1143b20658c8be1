"""Steps of a small transformer on ranks, for pictures, checks and claims; call them on every rank.

Each builds the stages that its schedule gives this rank, from the seed alone. A schedule may be for
fewer ranks than there are: the others sleep meanwhile.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from helpers.models.transformer import Config, layer, loss, transformer
from helpers.pipeline import partition
from helpers.pipeline.model import Costs
from helpers.pipeline.recording import recorded
from helpers.pipeline.runner import Pipeline
from helpers.pipeline.schedule import Schedule
from helpers.pipeline.timeline import Timeline

SMALL = Config(vocabulary=96, context=16, layers=14, heads=2, width=16)  # 16 pieces
SIZE = 2  # sequences in a micro-batch


def batches(config: Config, micro: int, seed: int = 0) -> tuple[list[Tensor], list[Tensor]]:
    """Make micro-batches of random tokens, the same on all ranks.

    Parameters
    ----------
    config : Config
        Of the model.
    micro : int
        How many.
    seed : int
        Of the tokens.

    Returns
    -------
    inputs : list of torch.Tensor (SIZE, context)
        Tokens.
    targets : list of torch.Tensor (SIZE, context)
        Others.
    """
    draws = torch.Generator().manual_seed(seed)
    shape = (2, micro, SIZE, config.context)
    both = torch.randint(config.vocabulary, shape, generator=draws)
    inputs, targets = ([part.clone() for part in side] for side in both)  # storages of their own
    return inputs, targets


def modules_of(
    schedule: Schedule,
    rank: int,
    config: Config,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    cut: Sequence[range] | None = None,
) -> tuple[list[nn.Module], list[range]]:
    """Make a rank's chunks of a transformer.

    Parameters
    ----------
    schedule : Schedule
        Says how many stages there are and whose they are.
    rank : int
        Whose chunks are wanted.
    config : Config
        Of the model.
    seed : int
        Of its weights.
    dtype : torch.dtype
        Of its weights.
    cut : sequence of range, optional
        The pieces of each stage; as equal as can be unless given.

    Returns
    -------
    modules : list of torch.nn.Module
        One for each chunk.
    pieces : list of range
        Which pieces of the model they are.
    """
    cut = cut or partition.equal(config.pieces, schedule.stages)
    mine = [cut[schedule.stage(rank, chunk)] for chunk in range(schedule.chunks)]
    made = [nn.Sequential(*(layer(config, i, seed, dtype) for i in part)) for part in mine]
    return list(made), mine


def _group(ranks: int) -> Any:
    """The first so many ranks as a communicator; None on the others."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Split(0 if MPI.COMM_WORLD.rank < ranks else 1, MPI.COMM_WORLD.rank)
    if MPI.COMM_WORLD.rank < ranks:
        return comm
    comm.Free()
    return None


def _end(comm: Any) -> None:
    from mpi4py import MPI

    from helpers.waiting import doze

    doze(MPI.COMM_WORLD)
    if comm is not None:
        comm.Free()


def record(
    schedule: Schedule, costs: Costs, config: Config = SMALL, repeats: int = 1
) -> Timeline | None:
    """Record a step whose stages are paced.

    Parameters
    ----------
    schedule : Schedule
        For as many ranks as there are, or fewer.
    costs : Costs
        Seconds of each action.
    config : Config
        Of the model.
    repeats : int
        Steps that are recorded; the shortest counts.

    Returns
    -------
    Timeline or None
        On rank 0; None elsewhere.
    """
    comm, found = _group(schedule.ranks), []
    if comm is not None:
        modules, _ = modules_of(schedule, comm.rank, config)
        inputs, targets = batches(config, schedule.micro)
        Pipeline(comm, schedule, modules, loss).step(inputs, targets)  # warms up
        pipeline = Pipeline(comm, schedule, modules, loss, costs=costs)
        found = [recorded(comm, pipeline, inputs, targets)[1] for _ in range(repeats)]
    _end(comm)
    lines = [line for line in found if line is not None]
    return min(lines, key=lambda line: line.span) if lines else None


def difference(
    schedule: Schedule, seed: int = 0, dtype: str = "float64", config: Config = SMALL
) -> float:
    """Compare a step on ranks with one process.

    Parameters
    ----------
    schedule : Schedule
        For as many ranks as there are, or fewer.
    seed : int
        Of weights and tokens.
    dtype : str
        "float64" or "float32".
    config : Config
        Of the model.

    Returns
    -------
    float
        The largest difference of any loss or any number of any gradient on this rank.
    """
    comm, worst = _group(schedule.ranks), 0.0
    if comm is not None:
        kind = getattr(torch, dtype)
        modules, pieces = modules_of(schedule, comm.rank, config, seed, kind)
        inputs, targets = batches(config, schedule.micro, seed)
        outcome = Pipeline(comm, schedule, modules, loss).step(inputs, targets)
        whole = transformer(config, seed, kind)
        losses = [loss(whole(x), y) for x, y in zip(inputs, targets, strict=True)]
        torch.stack(losses).mean().backward()
        for got, value in zip(outcome.losses, losses, strict=False):
            worst = max(worst, abs(got - value.item()))
        for module, part in zip(modules, pieces, strict=True):
            reference = whole[part.start : part.stop].parameters()
            for p, q in zip(module.parameters(), reference, strict=True):
                worst = max(worst, (_grad(p) - _grad(q)).abs().max().item())
    _end(comm)
    return worst


def bytes_kept(
    schedule: Schedule, recompute: bool = False, config: Config = SMALL
) -> tuple[int, int]:
    """Count what this rank keeps for backward passes.

    Parameters
    ----------
    schedule : Schedule
        For as many ranks as there are, or fewer.
    recompute : bool
        Keep inputs only.
    config : Config
        Of the model.

    Returns
    -------
    most : int
        Bytes at most during a step.
    one : int
        Bytes for one micro-batch, without recomputation.
    """
    from helpers.pipeline.families import gpipe

    comm, found = _group(schedule.ranks), [0, 0]
    if comm is not None:
        inputs, targets = batches(config, schedule.micro)
        alone = gpipe(schedule.ranks, 1)
        for k, (plan, again) in enumerate(((schedule, recompute), (alone, False))):
            modules, _ = modules_of(plan, comm.rank, config)
            pipeline = Pipeline(comm, plan, modules, loss, recompute=again, measure=True)
            found[k] = pipeline.step(inputs[: plan.micro], targets[: plan.micro]).bytes
    _end(comm)
    return found[0], found[1]


def follow_updates(
    schedule: Schedule, stash: bool, seed: int = 0, rate: float = 0.3
) -> dict[str, Any] | None:
    """Run batches with updates through linear stages, and compare each gradient with models.

    Each stage is tanh(x Aᵀ + b), 3 numbers wide, in float64.

    Parameters
    ----------
    schedule : Schedule
        With updates (PipeDream), for all ranks.
    stash : bool
        Whether a batch keeps the weights that it went forward with.
    seed : int
        Of weights and data.
    rate : float
        Of gradient descent.

    Returns
    -------
    dict or None
        On rank 0: ``staleness``, for each rank, batch → updates missed; ``versions``, for each
        rank, how many were kept at most; ``nearest``, the relative distance of the last batch's
        gradient to that of the nearest model that versions of the stages' weights make up.
    """
    from mpi4py import MPI
    from torch.nn import functional

    comm = MPI.COMM_WORLD
    draws = torch.Generator().manual_seed(1000 * seed + comm.rank)
    module = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=draws, dtype=torch.float64))
    versions = [[p.detach().clone() for p in module.parameters()]]
    shared = torch.Generator().manual_seed(seed)
    data = torch.randn(2, schedule.micro, 4, 3, generator=shared, dtype=torch.float64)
    pipeline = Pipeline(comm, schedule, [module], functional.mse_loss, rate=rate, stash=stash)
    pipeline.step([*data[0]], [*data[1]])
    stage: Any = pipeline.stages[0]
    for micro in range(schedule.micro):
        found = stage.gradients[micro]
        versions.append([w - rate * g for w, g in zip(versions[-1], found, strict=True)])
    mine = (stage.staleness, stage.most_versions, versions, stage.gradients[schedule.micro - 1])
    everything = comm.gather(mine)
    if everything is None:
        return None
    got = torch.cat([g.flatten() for _, _, _, gradient in everything for g in gradient])
    last = schedule.micro - 1
    nearest = min(
        ((_gradient(mix, data[0][last], data[1][last]) - got).norm() / got.norm()).item()
        for mix in itertools.product(*(one[2] for one in everything))
    )
    return {
        "staleness": [one[0] for one in everything],
        "versions": [one[1] for one in everything],
        "nearest": nearest,
    }


def _gradient(weights: Sequence[Sequence[Tensor]], x: Tensor, y: Tensor) -> Tensor:
    """Of the model with these weights, all stages' numbers in a row."""
    from torch.nn import functional

    leaves = [[w.detach().requires_grad_() for w in stage] for stage in weights]
    for matrix, bias in leaves:
        x = torch.tanh(functional.linear(x, matrix, bias))
    functional.mse_loss(x, y).backward()
    return torch.cat([_grad(w).flatten() for stage in leaves for w in stage])


def _grad(p: Tensor) -> Tensor:
    assert p.grad is not None
    return p.grad
