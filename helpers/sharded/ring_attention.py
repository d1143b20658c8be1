"""Attention over a sequence that is split over ranks: keys and values go round the ring.

Rank r has the queries, keys and values of its T/N positions. In each of N steps it attends to the
keys that are here and merges, then hands them to the next rank (Liu, Zaharia and Abbeel, 2023). On
the way back the keys go round again, and their gradients with them, home.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from helpers.sharded import messages
from helpers.sharded.running_softmax import merge, piece, scores_of


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, comm: Any) -> Tensor:
        n, rank, length = comm.Get_size(), comm.Get_rank(), q.shape[-2]
        out = torch.zeros_like(q)
        logs = q.new_full(q.shape[:-1], -torch.inf)
        keys, values = k, v
        for step in range(n):
            source = (rank - step) % n
            if source <= rank:  # later keys are not seen
                scores = scores_of(q, keys, rank * length, source * length)
                out, logs = merge(out, logs, *piece(scores, values))
            if step < n - 1:
                keys, values = messages.shift([keys, values], comm)
        ctx.save_for_backward(q, k, v, out, logs)
        ctx.comm = comm
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        q, k, v, out, logs = ctx.saved_tensors
        comm = ctx.comm
        n, rank, length = comm.Get_size(), comm.Get_rank(), q.shape[-2]
        inner = (gradient * out).sum(-1, keepdim=True)  # (..., T/N, 1): Σ p · dp of each query
        dq = torch.zeros_like(q)
        keys, values, dk, dv = k, v, torch.zeros_like(k), torch.zeros_like(v)
        for step in range(n):
            source = (rank - step) % n
            if source <= rank:
                scores = scores_of(q, keys, rank * length, source * length)
                p = (scores - logs.unsqueeze(-1)).exp()
                dv = dv + p.transpose(-1, -2) @ gradient
                ds = p * (gradient @ values.transpose(-1, -2) - inner) / q.shape[-1] ** 0.5
                dq = dq + ds @ keys
                dk = dk + ds.transpose(-1, -2) @ q
            if step < n - 1:
                keys, values, dk, dv = messages.shift([keys, values, dk, dv], comm)
        dk, dv = messages.shift([dk, dv], comm)  # one step more, and they are home
        return dq, dk, dv, None


def ring_attention(q: Tensor, k: Tensor, v: Tensor, comm: Any) -> Tensor:
    """Attend causally over all ranks' positions; q, k and v (..., T/N, D) are of this rank's."""
    if not q.shape == k.shape == v.shape:
        raise ValueError(
            "ring_attention expects q, k and v of one shape; "
            f"got {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    kinds = comm.allgather((tuple(q.shape), str(q.dtype)))  # or ranks would wait for ever
    if len(set(kinds)) > 1:
        raise ValueError(
            f"ring_attention expects q of one shape and dtype on all ranks; got {kinds}"
        )
    return _Ring.apply(q, k, v, comm)
