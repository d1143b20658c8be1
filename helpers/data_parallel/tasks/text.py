"""A small transformer on text, its gradients compressed by name: to a loss, on any link."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from helpers.data_parallel.tasks import ranks
from helpers.data_parallel.tasks.links import Judged, made
from helpers.models.transformer import Config, loss, parameter_count, transformer

if TYPE_CHECKING:
    import torch
    from mpi4py.MPI import Intracomm

    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.scheme import Scheme

MODEL = Config(context=32, layers=2, heads=2, width=48)
PARAMETERS = parameter_count(MODEL)  # 67 392: about as many as LeNet has
CHARACTERS = 400_000, 60_000  # to train with, held out
HELD_OUT = 128  # pieces of the text that the loss is taken of


@functools.cache
def text() -> tuple[np.ndarray, np.ndarray]:
    """Load tokens to train with and tokens held out on rank 0, and hand them to all."""
    from helpers.datasets.characters import load_characters
    from helpers.waiting import doze

    comm, found = ranks(), None
    if comm.Get_rank() == 0:
        sides = zip(load_characters(), CHARACTERS, strict=True)
        found = [side[:count].astype(np.uint8) for side, count in sides]
    doze(comm)
    train, test = (side.astype(np.int64) for side in comm.bcast(found))
    return train, test


def held_out_loss(model: torch.nn.Module) -> float:
    """Return a model's loss, in nats for each character, on text that nobody trained with."""
    import torch

    from helpers.datasets.characters import batch

    inputs, targets = map(torch.from_numpy, batch(text()[1], HELD_OUT, MODEL.context))
    with torch.no_grad():
        return loss(model(inputs), targets).item()


def _pieces(size: int, seed: int, rank: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """One rank's mini-batches, without end."""
    import itertools

    import torch

    from helpers.datasets.characters import batch

    tokens = text()[0]
    for step in itertools.count():
        inputs, targets = batch(tokens, size, MODEL.context, 1000 * seed + rank, step)
        yield torch.from_numpy(inputs), torch.from_numpy(targets)


def to_loss(
    name: str | Callable[[Intracomm], Scheme],
    target: float = 2.75,
    *,
    limit: int = 300,
    pace: float = 0.0,
    batch: int = 8,
    rate: float = 3e-3,
    every: int = 10,
    seed: int = 0,
) -> tuple[int | None, float]:
    """Train the transformer until its loss on held-out text is low enough; every rank calls.

    ``name`` is as for :func:`helpers.data_parallel.tasks.links.to_accuracy`; ``batch`` counts
    pieces of one replica in a step, of 32 characters each. Return the steps (None if `limit` was
    not enough) and the seconds without the looks.
    """
    import torch

    from helpers.data_parallel.loop import train
    from helpers.data_parallel.replica import Replica, paced

    def good(replica: Replica) -> bool:
        return held_out_loss(replica.model) <= target

    scheme, judged, model = made(name, ranks()), Judged(good, every), transformer(MODEL, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99))
    replica = Replica(model, loss, optimizer, delay=paced(pace) if pace else None)
    mine = _pieces(batch, seed, scheme.comm.Get_rank())
    return judged.steps(train(replica, mine, scheme, steps=limit, watch=[judged]))


def shapes() -> list[tuple[int, ...]]:
    """Return the shapes of the transformer's parameters, for ``links.sent``."""
    return [tuple(parameter.shape) for parameter in transformer(MODEL).parameters()]
