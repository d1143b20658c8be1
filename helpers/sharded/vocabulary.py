"""Embedding and loss with the vocabulary cut over ranks: no rank ever has all scores.

The softmax over V tokens needs, of the ranks' parts of the scores, the largest score and a sum of
exponentials: two numbers for each position travel, and the target's score with them, in place of V.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from helpers.sharded import messages


def local_rows(tokens: Tensor, weight: Tensor, first: int) -> Tensor:
    """Look up the tokens whose rows (V/N, C) are here; the others get zeros: (...) → (..., C)."""
    place = tokens - first
    here = (place >= 0) & (place < len(weight))
    rows = weight[place.clamp(0, len(weight) - 1)]
    return rows * here.unsqueeze(-1).to(rows.dtype)


def local_terms(scores: Tensor, targets: Tensor, first: int, largest: Tensor) -> Tensor:
    """Return this rank's sum of exponentials, and the target's score if it is here: (2, ...)."""
    shifted = scores - largest.unsqueeze(-1)
    place = targets - first
    here = (place >= 0) & (place < scores.shape[-1])
    found = shifted.gather(-1, place.clamp(0, scores.shape[-1] - 1).unsqueeze(-1)).squeeze(-1)
    return torch.stack([shifted.exp().sum(-1), found * here])


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor, comm: Any) -> Tensor:
        first = comm.Get_rank() * scores.shape[-1]
        largest = messages.all_reduce(scores.amax(-1), comm, largest=True)
        total, found = messages.all_reduce(local_terms(scores, targets, first, largest), comm)
        ctx.save_for_backward(scores, targets, largest, total)
        ctx.first = first
        return (total.log() - found).mean()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        scores, targets, largest, total = ctx.saved_tensors
        chance = (scores - largest.unsqueeze(-1)).exp() / total.unsqueeze(-1)
        place = (targets - ctx.first).unsqueeze(-1)
        here = (place >= 0) & (place < scores.shape[-1])
        chance.scatter_add_(
            -1, place.clamp(0, scores.shape[-1] - 1), -here.to(chance.dtype)
        )  # softmax − 1 where the target is
        return chance * (gradient / targets.numel()), None, None


def vocabulary_loss(scores: Tensor, targets: Tensor, comm: Any) -> Tensor:
    """Average −ln p of the targets over scores (..., V/N), of which each rank has its part."""
    return _Loss.apply(scores, targets, comm)
