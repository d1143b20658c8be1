"""How ∂h_T/∂h_t shrinks or grows with the lag T − t, and what bounds it.

The Jacobian over many steps is the product of the Jacobians of the steps, each at its own state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from helpers.recurrent.gradients import gru_forward, rnn_forward
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
    """Return J_t = ∂h_t/∂h_{t-1} = diag(1 − h_t²) U (T, H, H) of a tanh RNN's states h (T+1, H)."""
    return (1 - h[1:] ** 2).unsqueeze(-1) * U


def gru_jacobians(h: Tensor, gates: GRUStep, U: Tensor) -> Tensor:
    """Return J_t = ∂h_t/∂h_{t-1} (T, H, H) of a GRU: states h (T+1, H), gates (T, H), U (3H, H).

    J = diag(z) + diag((h − n) z (1−z)) U_z
        + diag((1−z)(1−n²)) [diag(r) U_n + diag(m r (1−r)) U_r]
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


def random_rnn(
    radius: float, input_size: float = 0.1, seed: int = 1, units: int = 32, steps: int = 60
) -> tuple[Tensor, Tensor]:
    """Return the norms by lag of a random tanh RNN of that spectral radius, and their bound.

    U is drawn from a normal distribution and scaled; inputs are normal times ``input_size``, and go
    to one unit each.
    """
    generator = torch.Generator().manual_seed(seed)
    U = with_spectral_radius(torch.randn(units, units, generator=generator).double(), radius)
    W, zero = torch.eye(units).double(), torch.zeros(units).double()
    x = input_size * torch.randn(steps, 1, units, generator=generator).double()
    h = rnn_forward(x, zero[None], W, U, zero, zero)
    return norms_by_lag(rnn_jacobians(h[:, 0], U)), power_bound(U, steps)


def random_gru(
    radius: float, bias: float, seed: int = 1, units: int = 32, steps: int = 60
) -> Tensor:
    """Return the norms by lag of a random GRU, as :func:`random_rnn` draws one.

    Each of its three U has that spectral radius; ``bias`` is the update gate's.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).double()

    U = torch.cat([with_spectral_radius(normal(units, units), radius) for _ in range(3)])
    W, b = torch.eye(units).double().repeat(3, 1), torch.zeros(3 * units).double()
    b[units : 2 * units] = bias
    x = 0.1 * normal(steps, 1, units)
    h, gates = gru_forward(x, torch.zeros(1, units).double(), W, U, b, 0 * b)
    return norms_by_lag(gru_jacobians(h[:, 0], GRUStep(*(part[:, 0] for part in gates)), U))
