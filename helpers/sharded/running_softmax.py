"""Attention over keys that come in pieces: what of two softmaxes makes the softmax of both.

A piece gives its output and the logarithm of its sum of exponentials, ℓ. Two pieces merge into one
of the same form, in any order (Milakov and Gimelshein, 2018; Rabe and Staats, 2021):

    ℓ = ln(e^ℓ₁ + e^ℓ₂),   o = e^(ℓ₁ − ℓ) o₁ + e^(ℓ₂ − ℓ) o₂
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def scores_of(q: Tensor, k: Tensor, first_query: int, first_key: int) -> Tensor:
    """Return q·k / √D of consecutive positions: −∞ where a key follows its query.

    Parameters
    ----------
    q, k : (..., Tq, D) and (..., Tk, D) Tensor
    first_query, first_key
        Positions of the first of each.

    Returns
    -------
    (..., Tq, Tk) Tensor
    """
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    queries = first_query + torch.arange(q.shape[-2])
    keys = first_key + torch.arange(k.shape[-2])
    return scores.masked_fill(keys[None, :] > queries[:, None], -math.inf)


def piece(scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend to one piece of the keys.

    Parameters
    ----------
    scores : (..., Tq, Tk) Tensor
        Those of :func:`scores_of`.
    v : (..., Tk, D) Tensor

    Returns
    -------
    output : (..., Tq, D) Tensor
    logs : (..., Tq) Tensor
        ℓ. A query that sees no key of the piece gets zeros and −∞.
    """
    logs = scores.logsumexp(-1)
    safe = logs.masked_fill(logs == -math.inf, 0.0)
    return (scores - safe.unsqueeze(-1)).exp() @ v, logs


def merge(o1: Tensor, logs1: Tensor, o2: Tensor, logs2: Tensor) -> tuple[Tensor, Tensor]:
    """Merge the outputs of two pieces, and their ℓ; return both, of the same shapes.

    Parameters
    ----------
    o1, o2 : (..., Tq, D) Tensor
    logs1, logs2 : (..., Tq) Tensor
        ℓ: −∞ where nothing is seen.
    """
    logs = torch.logaddexp(logs1, logs2)
    safe = logs.masked_fill(logs == -math.inf, 0.0)
    return (
        (logs1 - safe).exp().unsqueeze(-1) * o1 + (logs2 - safe).exp().unsqueeze(-1) * o2,
        logs,
    )
