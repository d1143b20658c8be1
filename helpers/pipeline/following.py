"""Whose gradient does PipeDream follow? Run it, and compare with every model that there was."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from helpers.pipeline.runner import Pipeline
from helpers.pipeline.runs import _grad
from helpers.pipeline.schedule import Schedule

RATE = 0.3  # of gradient descent


def follow_updates(schedule: Schedule, stash: bool, newest: int) -> dict[str, Any] | None:
    """Run batches with updates through stages; compare the last gradient with models'. All call.

    Each stage is tanh(x Aᵀ + b), 3 numbers wide, in float64.

    Parameters
    ----------
    stash
        Whether a batch keeps the weights that it went forward with.
    newest
        How many of each stage's last versions are tried: p + 1 or more, else ValueError, as the
        first stage goes forward p updates before the last.

    Returns
    -------
    dict or None
        On rank 0 ``staleness``, for each rank, batch → updates missed; ``versions``, for each rank,
        how many were kept at most; ``nearest``, the relative distance of the last batch's gradient
        to that of the nearest model that versions of the stages' weights make up.
    """
    if newest < schedule.ranks + 1:
        raise ValueError(
            f"follow_updates: newest={newest}, expected {schedule.ranks + 1} or more on "
            f"{schedule.ranks} ranks: the first stage's last batch began p updates ago"
        )
    from mpi4py import MPI
    from torch.nn import functional

    comm = MPI.COMM_WORLD
    draws = torch.Generator().manual_seed(comm.rank)
    module = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=draws, dtype=torch.float64))
    versions = [[p.detach().clone() for p in module.parameters()]]
    shared = torch.Generator().manual_seed(0)
    data = torch.randn(2, schedule.micro, 4, 3, generator=shared, dtype=torch.float64)
    pipeline = Pipeline(comm, schedule, [module], functional.mse_loss, rate=RATE, stash=stash)
    pipeline.step([*data[0]], [*data[1]])
    stage: Any = pipeline.stages[0]
    for micro in range(schedule.micro):
        found = stage.gradients[micro]
        versions.append([w - RATE * g for w, g in zip(versions[-1], found, strict=True)])
    mine = (stage.staleness, stage.most_versions, versions, stage.gradients[schedule.micro - 1])
    everything = comm.gather(mine)
    if everything is None:
        return None
    got = torch.cat([g.flatten() for _, _, _, gradient in everything for g in gradient])
    last = schedule.micro - 1
    kept = [one[2][-newest:] for one in everything]
    found = _gradients(kept, data[0][last], data[1][last])
    nearest = ((found - got).norm(dim=1) / got.norm()).min().item()
    return {
        "staleness": [one[0] for one in everything],
        "versions": [one[1] for one in everything],
        "nearest": nearest,
    }


def _gradients(versions: Sequence[Sequence[Sequence[Tensor]]], x: Tensor, y: Tensor) -> Tensor:
    """Of every model that takes one version for each stage, one in a row: all at once."""
    mixes = list(itertools.product(*(range(len(stage)) for stage in versions)))
    leaves = []
    x = x.expand(len(mixes), *x.shape)  # (n, samples, 3)
    for which, stage in zip(zip(*mixes, strict=True), versions, strict=True):
        matrix, bias = (torch.stack([stage[k][i] for k in which]) for i in (0, 1))
        leaves += [matrix.requires_grad_(), bias.requires_grad_()]
        x = torch.tanh(x @ matrix.mT + bias[:, None])
    (x - y).square().mean((1, 2)).sum().backward()  # each model's loss has weights of its own
    return torch.cat([_grad(leaf).flatten(1) for leaf in leaves], 1)
