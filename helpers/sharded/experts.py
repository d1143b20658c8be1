"""Experts on ranks: tokens travel to the expert that they chose, and its answer travels back.

A gate gives each token a chance for each expert; the k likeliest take it, as many tokens each as
their capacity allows, the earlier tokens first, and all first choices before all second ones. A
token that finds no place goes past (GShard: Lepikhin et al., 2020; Switch: Fedus et al., 2021).

Both journeys are an all-to-all, and so are their ways back in the backward pass: four in all.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers.sharded import messages
from helpers.sharded.arrays import need_divisible


class Routes(NamedTuple):
    """Tokens and their experts, sorted by expert, then by choice and token; R routes."""

    token: Tensor  # (R,), int64
    expert: Tensor  # (R,), int64
    weight: Tensor  # (R,): what the expert's answer is multiplied with; carries a gradient


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
    return Routes(token[order], expert[order], weight[order])


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, counts: list[int], comm: Any) -> tuple[Tensor, Tensor]:
        got = messages.all_to_all(list(x.split(counts)), comm)
        ctx.comm, ctx.counts = comm, [len(part) for part in got]
        came = torch.tensor(ctx.counts)
        ctx.mark_non_differentiable(came)
        return torch.cat(got), came

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple:  # type: ignore[override]
        back = messages.all_to_all(list(gradient.split(ctx.counts)), ctx.comm)
        return torch.cat(back), None, None


def exchange(x: Tensor, counts: list[int], comm: Any) -> tuple[Tensor, list[int]]:
    """Send the first ``counts[0]`` rows to rank 0, the next to rank 1, and so on."""
    came, counted = _AllToAll.apply(x, counts, comm)
    return came, counted.tolist()


class Experts(nn.Module):
    """A perceptron for each expert; those of rank r stand on rank r, the gate on all.

    An expert's weights are the same however many ranks there are.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        experts: int,
        choices: int,
        comm: Any,
        factor: float = 1.25,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__()
        each = need_divisible(experts, comm.Get_size(), "experts")
        self.comm, self.choices, self.factor = comm, choices, factor
        first = comm.Get_rank() * each
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.gate = nn.Linear(width, experts, bias=False, dtype=torch.float64).to(dtype)
            made = []
            for number in range(first, first + each):
                torch.manual_seed(seed * 1009 + 1 + number)
                up, down = nn.Linear(width, hidden).double(), nn.Linear(hidden, width).double()
                made.append(nn.Sequential(up, nn.GELU(), down))
        self.experts = nn.ModuleList(made).to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Let each token's experts answer: (tokens, C) → (tokens, C), zeros for the dropped."""
        n, number = self.comm.Get_size(), self.gate.out_features
        capacity = capacity_of(len(x), number, self.choices, self.factor)
        routes = route(self.gate(x), self.choices, capacity)
        each = number // n
        counts = torch.bincount(routes.expert, minlength=number).view(n, each)
        to = counts.sum(1).tolist()
        told = messages.all_to_all(list(counts.unsqueeze(-1)), self.comm)
        came, _ = exchange(x[routes.token], to, self.comm)  # from rank 0: expert 0, expert 1, ...
        per = torch.stack(told).view(n, each)
        rows = came.split(per.flatten().tolist())
        answers: list[Tensor] = [came[:0]] * len(rows)
        for k, expert in enumerate(self.experts):
            mine = [rank * each + k for rank in range(n)]
            made = expert(torch.cat([rows[i] for i in mine]))
            for i, part in zip(mine, made.split([len(rows[i]) for i in mine]), strict=True):
                answers[i] = part
        back, _ = exchange(torch.cat(answers), per.sum(1).tolist(), self.comm)
        return torch.zeros_like(x).index_add(0, routes.token, back * routes.weight.unsqueeze(-1))
