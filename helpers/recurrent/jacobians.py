"""How ∂h_T/∂h_t shrinks or grows with the lag T − t, and what bounds it.

The Jacobian over many steps is the product of the Jacobians of the steps, each at its own state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from helpers.recurrent.steps import GRUStep


def spectral_radius(U: Tensor) -> float:
    """Return the largest modulus of an eigenvalue of the square matrix U (H, H).

    >>> spectral_radius(torch.tensor([[0.5, 100.0], [0.0, -0.25]]))
    0.5
    """
    return torch.linalg.eigvals(U).abs().max().item()


def with_spectral_radius(U: Tensor, radius: float) -> Tensor:
    """Return U (H, H) scaled so that its spectral radius is ``radius``.

    Raises ValueError for a negative radius or a U whose own radius is 0 (nilpotent).

    >>> with_spectral_radius(torch.tensor([[0.5, 1.0], [0.0, -0.25]]), 2.0).tolist()
    [[2.0, 4.0], [0.0, -1.0]]
    """
    own = spectral_radius(U)
    if radius < 0 or own < 1e-12:
        raise ValueError(f"cannot scale a matrix of spectral radius {own:.3g} to {radius!r}")
    return U * (radius / own)


def rnn_jacobians(h: Tensor, U: Tensor) -> Tensor:
    """Return J_t = ∂h_t/∂h_{t-1} = diag(1 − h_t²) U of a tanh RNN.

    Parameters
    ----------
    h : (T+1, H) Tensor
        The states of one sequence.
    U : (H, H) Tensor

    Returns
    -------
    (T, H, H) Tensor
    """
    return (1 - h[1:] ** 2).unsqueeze(-1) * U


def gru_jacobians(h: Tensor, gates: GRUStep, U: Tensor) -> Tensor:
    """Return J_t = ∂h_t/∂h_{t-1} of a GRU.

    J = diag(z) + diag((h − n) z (1−z)) U_z
        + diag((1−z)(1−n²)) [diag(r) U_n + diag(m r (1−r)) U_r]

    Parameters
    ----------
    h : (T+1, H) Tensor
        The states of one sequence.
    gates : GRUStep
        Each part (T, H).
    U : (3H, H) Tensor

    Returns
    -------
    (T, H, H) Tensor
    """
    r, z, m, n, _ = (part.unsqueeze(-1) for part in gates)  # (T, H, 1): scales rows
    U_r, U_z, U_n = U.chunk(3)
    through_update = (h[:-1].unsqueeze(-1) - n) * z * (1 - z) * U_z
    through_candidate = (1 - z) * (1 - n**2) * (r * U_n + m * r * (1 - r) * U_r)
    return torch.diag_embed(z.squeeze(-1)) + through_update + through_candidate


def norms_by_lag(jacobians: Tensor) -> Tensor:
    """Return ‖∂h_T/∂h_{T−k}‖₂ for k = 0 ... T, (T+1), from the steps' Jacobians (T, H, H).

    >>> norms_by_lag(torch.tensor([[[0.5]], [[3.0]], [[2.0]]])).tolist()
    [1.0, 2.0, 6.0, 3.0]
    """
    product = torch.eye(jacobians.shape[-1], dtype=jacobians.dtype)
    norms = [torch.ones((), dtype=jacobians.dtype)]
    for jacobian in jacobians.flip(0):
        product = product @ jacobian
        norms.append(torch.linalg.matrix_norm(product, 2))
    return torch.stack(norms)


def power_bound(U: Tensor, lags: int) -> Tensor:
    """Return ‖U‖₂^k for k = 0 ... lags: the bound for tanh before any state is known.

    >>> power_bound(torch.tensor([[0.0, 5.0], [0.0, 0.0]]), lags=3).tolist()
    [1.0, 5.0, 25.0, 125.0]
    """
    return torch.linalg.matrix_norm(U, 2) ** torch.arange(lags + 1, dtype=U.dtype)
