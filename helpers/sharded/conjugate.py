"""Pairs of operators, one for the forward pass and the other for the backward pass.

A number that N ranks hold alike has a gradient that is the sum of what each finds; a number that is
the sum of what N ranks hold has a gradient that each needs whole. So what copies on the way forward
adds on the way back, and the reverse (Shoeybi et al., 2019, *Megatron-LM*, section 3; Korthikanti
et al., 2022, for the second pair):

========= ============== ==============
operator  forward        backward
========= ============== ==============
f         copy           all-reduce
g         all-reduce     copy
f̄         all-gather     reduce-scatter
ḡ         reduce-scatter all-gather
========= ============== ==============

Each is handed its communicator, and asks it for nothing before there is something to send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from helpers.sharded import messages


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, comm: Any) -> Tensor:
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        return messages.all_reduce(gradient, ctx.comm), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, comm: Any) -> Tensor:
        return messages.all_reduce(x, comm)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        return gradient, None


class _Pair(torch.autograd.Function):
    """One function for the way forward, another for the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Callable, back: Callable) -> Tensor:
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        return ctx.back(gradient), None, None


def f(x: Tensor, comm: Any) -> Tensor:
    """Enter a part that is split over ranks: copy, and add the gradients on the way back."""
    return _Copy.apply(x, comm)


def g(x: Tensor, comm: Any) -> Tensor:
    """Leave a part that is split over ranks: add, and copy the gradient on the way back."""
    return _Sum.apply(x, comm)


def f_bar(x: Tensor, comm: Any) -> Tensor:
    """Enter such a part from a split sequence, axis 1: gather; reduce-scatter on the way back."""
    return _Pair.apply(
        x, lambda x: messages.all_gather(x, comm, 1), lambda g: messages.reduce_scatter(g, comm, 1)
    )


def g_bar(x: Tensor, comm: Any) -> Tensor:
    """Leave such a part into a split sequence, axis 1: reduce-scatter; gather on the way back."""
    return _Pair.apply(
        x, lambda x: messages.reduce_scatter(x, comm, 1), lambda g: messages.all_gather(g, comm, 1)
    )


def operator(
    forward: Callable[[Tensor, Callable], Tensor],
    backward: Callable[[Tensor, Callable], Tensor],
    comm: Any,
) -> Callable[[Tensor], Tensor]:
    """Make an operator of two functions, one for each way.

    ``forward(x, add)`` and ``backward(gradient, add)``: ``add(x)`` is the sum over ranks.
    """

    def add(x: Tensor) -> Tensor:
        return messages.all_reduce(x, comm)

    return lambda x: _Pair.apply(x, lambda x: forward(x, add), lambda g: backward(g, add))
