"""The transformer on meshes, and its checkpoints."""

from __future__ import annotations

import torch

from helpers.models.transformer import Config
from tests.sharded.ranks import begin, tokens

MODEL = Config(vocabulary=24, context=12, layers=4, heads=4, width=16)


def train(layout, micro, steps, load=None, save=None, start=0, dtype="float64"):
    """Train; return the losses."""
    from helpers.sharded.hybrid import Hybrid, load_checkpoint, save_checkpoint

    comm, _, _ = begin()
    hybrid = Hybrid(
        comm,
        MODEL,
        layout,
        micro,
        lambda ps: torch.optim.Adam(ps, lr=1e-2),
        seed=1,
        dtype=getattr(torch, dtype),
    )
    if load:
        load_checkpoint(load, hybrid)
    losses = [
        hybrid.step(*tokens(8, MODEL.context, MODEL.vocabulary, seed=step))
        for step in range(start, start + steps)
    ]
    if save:
        save_checkpoint(save, hybrid)
    hybrid.close()
    return losses


def several(runs):
    """Train one after another, in one start of the ranks."""
    return [train(*args, **options) for args, options in runs]
