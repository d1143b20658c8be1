"""Experts on ranks: tokens travel to the expert that they chose, and its answer travels back.

Both journeys are an all-to-all, and so are their ways back in the backward pass: four in all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from helpers.sharded import messages
from helpers.sharded.arrays import need_divisible
from helpers.sharded.routing import capacity_of, imbalance, route


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
        self.counts = torch.zeros(experts, dtype=torch.int64)  # this rank's tokens for each expert
        self.dropped = 0  # choices of this rank's tokens that found no place
        self.balance = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        """Let each token's experts answer: (tokens, C) → (tokens, C), zeros for the dropped."""
        n, number = self.comm.Get_size(), self.gate.out_features
        logits = self.gate(x)
        capacity = capacity_of(len(x), number, self.choices, self.factor)
        routes = route(logits, self.choices, capacity)
        self.counts = torch.bincount(routes.expert, minlength=number)
        self.dropped, self.balance = routes.dropped, imbalance(logits)
        each = number // n
        to = self.counts.view(n, each).sum(1).tolist()
        told = messages.all_to_all(list(self.counts.view(n, each, 1)), self.comm)
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
