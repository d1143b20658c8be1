"""To which experts each token goes: arithmetic alone, no messages.

A gate gives each token a chance for each expert; the k likeliest take it, as many tokens each as
their capacity allows, the earlier tokens first, and all first choices before all second ones. A
token that finds no place goes past (GShard: Lepikhin et al., 2020; Switch: Fedus et al., 2021).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Routes(NamedTuple):
    """Tokens and their experts, sorted by expert, then by choice and token; R routes."""

    token: Tensor  # (R,), int64
    expert: Tensor  # (R,), int64
    weight: Tensor  # (R,): what the expert's answer is multiplied with; carries a gradient
    dropped: int  # choices that found no place


def capacity_of(tokens: int, experts: int, choices: int, factor: float) -> int:
    """Return how many of one rank's tokens an expert takes, of the experts of all ranks.

    ``choices`` are each token's; with a ``factor`` of 1 it is just enough if all are equally busy.

    >>> capacity_of(8, 4, 1, 1.0), capacity_of(8, 4, 2, 1.25)
    (2, 5)
    """
    if factor <= 0:
        raise ValueError(f"capacity_of expects a factor above 0; got {factor}")
    return max(1, math.ceil(factor * choices * tokens / experts))


def route(logits: Tensor, choices: int, capacity: int) -> Routes:
    """Send tokens to their likeliest experts by logits (tokens, experts)."""
    tokens, experts = logits.shape
    if not 1 <= choices <= experts:
        raise ValueError(f"route expects 1 to {experts} choices; got {choices}")
    chances = logits.softmax(-1)
    weight, chosen = chances.topk(choices, -1)  # (tokens, choices)
    if choices > 1:
        weight = weight / weight.sum(-1, keepdim=True)
    expert, weight = chosen.T.reshape(-1), weight.T.reshape(-1)  # all first choices, then second
    token = torch.arange(tokens).repeat(choices)
    one_hot = functional.one_hot(expert, experts)
    place = (one_hot.cumsum(0) * one_hot).sum(-1) - 1  # in the queue of its expert
    kept = torch.nonzero(place < capacity).squeeze(-1)
    order = kept[expert[kept].argsort(stable=True)]
    return Routes(token[order], expert[order], weight[order], len(expert) - len(order))


def imbalance(logits: Tensor) -> Tensor:
    """Return Switch's loss of balance: experts · Σ (share of tokens) · (mean chance).

    The gate's logits are (tokens, experts). It is 1 if all experts are equally busy and likely, and
    as much as the number of experts if one takes all.
    """
    experts = logits.shape[-1]
    chances = logits.softmax(-1)
    share = functional.one_hot(chances.argmax(-1), experts).to(chances.dtype).mean(0)
    return experts * (share * chances.mean(0)).sum()
