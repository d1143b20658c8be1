"""What notebook 03 concludes: when a gradient vanishes or explodes, and what an open gate keeps."""

from __future__ import annotations

import functools

from helpers.claims import Claim

DRAWN = range(50)  # seeds of a random matrix

# --------------------------------------------------------------------------------- gradients by lag


@functools.cache
def _norms(seed: int, radius: float, input_size: float, units: int = 32, steps: int = 60) -> dict:
    """Of a random tanh RNN: ‖∂h_T/∂h_0‖, ‖U^T‖ and ‖U‖^T."""
    import torch

    from helpers.recurrent import gradients, jacobians

    generator = torch.Generator().manual_seed(seed)
    U = torch.randn(units, units, generator=generator).double()
    U = jacobians.with_spectral_radius(U, radius)
    W, zero = torch.eye(units).double(), torch.zeros(units).double()
    x = input_size * torch.randn(steps, 1, units, generator=generator).double()
    h = gradients.rnn_forward(x, torch.zeros(1, units).double(), W, U, zero, zero)
    measured = jacobians.norms_by_lag(jacobians.rnn_jacobians(h[:, 0], U))[-1].item()
    power = torch.linalg.matrix_norm(torch.linalg.matrix_power(U, steps), 2).item()
    return {
        "jacobian": measured,
        "power": power,
        "bound": jacobians.power_bound(U, steps)[-1].item(),
    }


def gradient_left(seed: int, **setting) -> tuple[float, float]:
    """The Jacobian's norm over all steps against 1: neither grown nor shrunk."""
    return _norms(seed, **setting)["jacobian"], 1.0


def power_against_bound(seed: int, **setting) -> tuple[float, float]:
    """The norm of the power against the power of the norm: ‖U^T‖ and ‖U‖^T."""
    found = _norms(seed, **setting)
    return found["power"], found["bound"]


def kept_by_the_gate(
    seed: int, radius: float, bias: float, reset: float = 0.0, units: int = 32, steps: int = 60
) -> tuple[float, float]:
    """‖∂h_T/∂h_0‖ of a GRU whose gates have these biases, against the RNN with the same U."""
    import torch

    from helpers.recurrent import gradients, jacobians
    from helpers.recurrent.steps import GRUStep

    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).double()

    U = torch.cat([jacobians.with_spectral_radius(normal(units, units), radius) for _ in range(3)])
    W, zero = torch.eye(units).double(), torch.zeros(1, units).double()
    b = torch.zeros(3 * units).double()
    b[:units], b[units : 2 * units] = reset, bias
    x = 0.1 * normal(steps, 1, units)
    h, gates = gradients.gru_forward(x, zero, W.repeat(3, 1), U, b, 0 * b)
    one = GRUStep(*(part[:, 0] for part in gates))
    gru = jacobians.norms_by_lag(jacobians.gru_jacobians(h[:, 0], one, U))[-1].item()
    plain_U = U[2 * units :]
    none = torch.zeros(units).double()
    h = gradients.rnn_forward(x, zero, W, plain_U, none, none)
    rnn = jacobians.norms_by_lag(jacobians.rnn_jacobians(h[:, 0], plain_U))[-1].item()
    return gru, max(rnn, 1e-300)


CLAIMS = [
    Claim(
        id="03-norm-above-one",
        sentence="At ρ(U) = 1 the norm of U is above 1, but its powers stay far below ‖U‖^k.",
        experiment=power_against_bound,
        seeds=DRAWN,
        settings={
            "32 units": {"radius": 1.0, "input_size": 0.1},
            "64 units": {"radius": 1.0, "input_size": 0.1, "units": 64},
        },
        verdict="holds",
        margin=9.0,
        scale="ratio",
        larger=False,
        ours="‖U^60‖",
        rival="‖U‖^60",
        unit="1",
    ),
    Claim(
        id="03-input-tames",
        sentence="With ρ(U) above 1, the gradient does not explode over 60 steps.",
        experiment=gradient_left,
        seeds=DRAWN,
        settings={
            "ρ = 2, no input": {"radius": 2.0, "input_size": 0.0},
            "ρ = 2, input 0.1": {"radius": 2.0, "input_size": 0.1},
            "ρ = 2, input 2": {"radius": 2.0, "input_size": 2.0},
            "ρ = 3, input 2": {"radius": 3.0, "input_size": 2.0},
        },
        verdict="depends on the radius and the input",
        margin=9.0,
        scale="ratio",
        larger=False,
        axis="the radius and the input",
        ours="‖∂h_T/∂h_0‖",
        rival="a gradient that keeps its length",
        unit="1",
    ),
    Claim(
        id="03-open-gate",
        sentence="With an update gate near 1, a GRU keeps a gradient over 60 steps that an RNN "
        "with the same U loses.",
        experiment=kept_by_the_gate,
        seeds=DRAWN,
        settings={
            "ρ = 0.5": {"radius": 0.5, "bias": 4.0},
            "ρ = 0.8": {"radius": 0.8, "bias": 4.0},
        },
        verdict="holds",
        margin=9.0,
        scale="ratio",
        ours="GRU, bias 4",
        rival="RNN",
        unit="1",
    ),
]
