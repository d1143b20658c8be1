"""What notebook 03 concludes: vanishing and exploding, gates taken away, what a step costs."""

from __future__ import annotations

import functools
import math

from helpers.claims import Claim, Share

TRAINED = range(8)  # seeds of a training, all stacked and trained at once
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


def diverged(seed: int, limit: float | None, radius: float = 1.3, steps: int = 150) -> Share:
    """Whether training a linear recurrence over 20 steps ends in a loss that is not finite."""
    import torch

    from helpers.recurrent import gradients, jacobians

    generator = torch.Generator().manual_seed(seed)
    U = jacobians.with_spectral_radius(torch.randn(8, 8, generator=generator), radius)
    U.requires_grad_()
    x = torch.randn(64, 8, generator=generator)
    for _ in range(steps):
        h = x
        for _ in range(20):
            h = h @ U.T
        loss = (h - x).square().mean()
        (gradient,) = torch.autograd.grad(loss, U)
        if limit:
            gradients.clip_by_norm([gradient], limit)
        U.data -= 0.05 * gradient
    return Share(int(not math.isfinite(loss.item())), 1)


# --------------------------------------------------------------------------------- gates taken away


@functools.cache
def _tasks() -> dict:
    from helpers.recurrent.experiments import comparisons

    return comparisons()


@functools.cache
def _scores(task: str, variant: str, changes: tuple, seeds: int) -> tuple[float, ...]:
    import torch

    torch.set_num_threads(1)
    return _tasks()[task].run(variant, seeds=seeds, **dict(changes)).values


def accuracy(
    seed: int, task: str, variant: str, rival: str = "GRU", seeds: int = len(TRAINED), **changes
) -> tuple[float, float]:
    """Accuracy of two variants with the same batches and test set.

    And with the same start where their parameters have the same shapes, as an LSTM's have not.
    """
    kept = tuple(sorted(changes.items()))
    return tuple(_scores(task, name, kept, seeds)[seed] for name in (variant, rival))


SHORT = {"seeds": 1, "steps": 2}
COPY = {"as taught": {"task": "long copy"}, "twice the units": {"task": "long copy", "hidden": 24}}
ALL = {name: {"task": name} for name in ("forget on cue", "long copy", "section of a package")}


def _with(settings: dict, **more) -> dict:
    return {name: {**setting, **more} for name, setting in settings.items()}


# -------------------------------------------------------------------------------- what a step costs


def backward_seconds(seed: int, steps: int, width: int, slices: str, rival: str, batch: int = 32):
    """Seconds of a forward and backward pass, the two ways in turn, best of six each."""
    import time

    import torch

    from helpers.recurrent.ways import ways

    torch.set_num_threads(1)
    forwards = ways(steps, batch, width, seed)
    best = dict.fromkeys((slices, rival), math.inf)
    for _ in range(6):
        for name in best:
            began = time.perf_counter()
            forwards[name]().sum().backward()
            best[name] = min(best[name], time.perf_counter() - began)
    return best[slices], best[rival]


LENGTHS = {"T = 50": {"steps": 50, "width": 128}, "T = 200": {"steps": 200, "width": 128}}

CLAIMS = [
    Claim(
        id="03-norm-above-one",
        sentence="At ρ(U) = 1 the norm of U is above 1, and its powers stay far below ‖U‖^k.",
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
        sentence="With input in the state's reach, one U with ρ(U) > 1 no longer explodes.",
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
        rival="unchanged",
        unit="1",
    ),
    Claim(
        id="03-clipping-explosion",
        sentence="Without clipping the exploding recurrence ends in a loss that is not finite.",
        experiment=diverged,
        seeds=range(20),
        settings={
            "as it is": {"limit": None},
            "clipped at 1": {"limit": 1.0},
        },
        verdict="depends on clipping",
        margin=0.0,
        axis="clipping",
        ours="runs that end so",
        rival="half of them",
        rival_share=0.5,
        unit="1",
        smallest={"steps": 3},
    ),
    Claim(
        id="03-open-gate",
        sentence="With an update gate nearly open for copying, a GRU keeps a gradient over 60 "
        "steps that an RNN with the same U loses.",
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
    Claim(
        id="03-closed-gate",
        sentence="With its update gate's bias at −2 a GRU loses more of its gradient over 60 steps "
        "than an RNN with the same U.",
        experiment=kept_by_the_gate,
        seeds=DRAWN,
        settings={
            f"ρ = {radius}{held}": {"radius": radius, "bias": -2.0, "reset": reset}
            for held, reset in (("", 0.0), (", r held near 1", 8.0))
            for radius in (0.8, 1.5)
        },
        verdict="depends on the reset gate",
        margin=9.0,
        scale="ratio",
        larger=False,
        axis="the reset gate",
        ours="GRU, bias −2",
        rival="RNN",
        unit="1",
    ),
    Claim(
        id="03-update-gate",
        sentence="Without the update gate the long copy is not learned.",
        experiment=accuracy,
        seeds=TRAINED,
        settings=_with(COPY, variant="without update"),
        verdict="holds",
        margin=0.1,
        larger=False,
        ours="without update",
        rival="GRU",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="03-real-task",
        sentence="On the real task the update gate is missed.",
        experiment=accuracy,
        seeds=TRAINED,
        settings={
            name: {"task": "section of a package", "variant": "without update", "half_life": steps}
            for name, steps in {"half-life 16": 16, "z = 1/2 at the start": 1}.items()
        },
        verdict="holds",
        margin=0.02,
        larger=False,
        ours="without update",
        rival="GRU",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="03-hard-sigmoid",
        sentence="A hard sigmoid that starts with its own half-life bias learns the long copy as "
        "well.",
        experiment=accuracy,
        seeds=TRAINED,
        settings=_with(COPY, variant="hard sigmoid"),
        verdict="ties",
        margin=0.05,
        ours="hard sigmoid",
        rival="GRU",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="03-hard-sigmoid-start",
        sentence="With the logistic function's bias it is stuck.",
        experiment=accuracy,
        seeds=TRAINED,
        settings=_with(COPY, variant="hard, σ's start"),
        verdict="holds",
        margin=0.1,
        larger=False,
        ours="hard sigmoid, σ's bias",
        rival="GRU",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="03-relu",
        sentence="ReLU in place of tanh costs accuracy.",
        experiment=accuracy,
        seeds=TRAINED,
        settings=_with(ALL, variant="ReLU for tanh"),
        verdict="open",
        margin=0.02,
        larger=False,
        axis="the task",
        ours="ReLU for tanh",
        rival="GRU",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="03-lstm",
        sentence="With as many parameters, an LSTM reaches the GRU's accuracy.",
        experiment=accuracy,
        seeds=TRAINED,
        settings={
            "forget on cue, 24 units": {"task": "forget on cue", "variant": "LSTM", "hidden": 24},
            "long copy": {"task": "long copy", "variant": "LSTM"},
            "long copy, three times as long": {
                "task": "long copy",
                "variant": "LSTM",
                "steps": 360,
            },
            "section of a package": {"task": "section of a package", "variant": "LSTM"},
        },
        verdict="depends on the task",
        margin=0.02,
        axis="the task",
        ours="LSTM",
        rival="GRU",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="03-lstm-start",
        sentence="An LSTM whose forget gate starts at one half, as PyTorch's does, does not learn "
        "the long copy.",
        experiment=accuracy,
        seeds=TRAINED,
        settings=_with(COPY, variant="LSTM, PyTorch's start", rival="LSTM"),
        verdict="holds",
        margin=0.1,
        larger=False,
        ours="LSTM, PyTorch's start",
        rival="LSTM, half-life 40",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="03-lstm-input",
        sentence="With its input gate started at 1 − f as well, the LSTM copies better.",
        experiment=accuracy,
        seeds=TRAINED,
        settings=_with(COPY, variant="LSTM, i starts at 1 − f", rival="LSTM"),
        verdict="depends on the size",
        margin=0.02,
        axis="the size",
        ours="LSTM, i starts at 1 − f",
        rival="LSTM, i starts at 1/2",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="03-slices",
        sentence="Slices gi[t] cost more than gi.unbind(0), forward and backward together.",
        experiment=functools.partial(backward_seconds, slices="gi[t]", rival="gi.unbind(0)"),
        seeds=range(5),
        settings=LENGTHS,
        verdict="holds",
        margin=0.1,
        scale="ratio",
        ours="gi[t]",
        rival="gi.unbind(0)",
        unit="s",
        smallest={"steps": 3},
    ),
    Claim(
        id="03-our-gru",
        sentence="Our GRU takes less than half as long again as nn.GRU.",
        experiment=functools.partial(backward_seconds, slices="our GRU", rival="nn.GRU"),
        seeds=range(5),
        settings=LENGTHS,
        verdict="ties",
        margin=0.5,
        scale="ratio",
        larger=False,
        ours="our GRU",
        rival="nn.GRU",
        unit="s",
        smallest={"steps": 3},
    ),
]
