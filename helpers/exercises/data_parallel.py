"""The checks of notebook 02: gradients in step, the server's reply, when a replica pays."""

from __future__ import annotations

import math

from helpers.exercises.core import call, close, equal, exercise, on_ranks, wrong


def _ready() -> None:
    """Load torch and make the process group: not the answer's time."""
    from helpers.data_parallel.runs import world

    world()


def _gradients(answer, factor: float) -> tuple[str, list]:
    """Call the answer with a model whose gradients differ everywhere; look at what it left."""
    import torch

    from helpers.data_parallel.runs import world

    rank = world().Get_rank()
    model = torch.nn.Linear(3, 2)
    for parameter in model.parameters():
        parameter.grad = _gradient(parameter.numel(), rank, factor).view_as(parameter)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    if answer(model) is None:
        return "nothing", []
    if any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)):
        return "moved", []
    missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    if missing:
        return "missing", missing
    return "gradients", [parameter.grad.flatten().tolist() for parameter in model.parameters()]


def _gradient(size: int, rank: int, factor: float):
    """The gradient of a tensor of ``size`` on a rank: no two numbers are equal."""
    import torch

    return factor * (rank + 1) ** 2 * torch.arange(1.0, size + 1)


@exercise(time_limit=60)
def sync_gradients(answer, *, cluster):
    """answer(model) -> model, the mean over all ranks in every gradient."""
    cluster.run(_ready, timeout=60)
    for factor in (1.0, -0.5):
        replies = on_ranks(cluster, _gradients, answer, factor)
        for rank, (kind, found) in enumerate(replies):
            if kind == "moved":
                wrong("the parameters themselves changed; only their gradients should")
            if kind == "nothing":
                wrong(f"rank {rank} returned None: every rank should return the model")
            if kind == "missing":
                wrong(f"rank {rank}: {', '.join(found)} has lost its gradient")
            for name, gradient in zip(("weight", "bias"), found, strict=True):
                every = [_gradient(len(gradient), r, factor) for r in range(cluster.n)]
                mean = (sum(every) / cluster.n).tolist()
                close(gradient, mean, f"rank {rank}, the gradient of {name}", rtol=1e-5)


@exercise
def ready_reply(answer):
    """answer(brings, sizes, expected, updates, limit) -> (go, reason)."""
    expected = (6, 2)
    cases = [
        ("nothing", (), 0, 10, True),
        ("gradient", expected, 0, 10, True),
        ("gradient", expected, 9, 10, True),
        ("gradient", expected, 10, 10, False),
        ("nothing", (), 10, 10, False),
        ("gradient", (6,), 3, 10, False),
        ("gradient", (2, 6), 3, 10, False),
        ("gradient", (6, 2, 1), 3, 10, False),
    ]
    for brings, sizes, updates, limit, go in cases:
        got = call(answer, brings, sizes, expected, updates, limit)
        what = (
            f"a hello that brings {brings!r} with layers {sizes}, where {expected} are expected, "
            f"after {updates} of {limit} updates"
        )
        if not (isinstance(got, tuple) and len(got) == 2):
            wrong(f"expected a tuple (go, reason); got {got!r}")
        equal(bool(got[0]), go, f"go, for {what}")
        if not go and not (isinstance(got[1], str) and got[1]):
            wrong(f"the reason is empty, for {what}")


@exercise
def predict_crossing(answer):
    """answer(fixed, per_sample, synchronize, ranks) -> the smallest batch for which it pays."""
    for fixed, per_sample, synchronize, ranks in (
        (0.0, 1.0, 8.0, 2),
        (0.5, 0.25, 4.1, 2),
        (2.0, 0.5, 30.3, 4),
        (1.0, 0.1, 0.4, 2),
        (0.0, 0.125, 3.0, 3),
    ):
        got = call(answer, fixed, per_sample, synchronize, ranks)
        want = max(1, math.floor((synchronize / (ranks - 1) - fixed) / per_sample) + 1)
        what = (
            f"T_comp = {fixed} + {per_sample}·B ms, T_sync = {synchronize} ms, R = {ranks}: "
            "the smallest B"
        )
        equal(got, want, what)
