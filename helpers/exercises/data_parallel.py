"""The checks of notebook 02: gradients in step, the server's reply, when a replica pays."""

from __future__ import annotations

import math

from helpers.exercises.core import NotAttempted, call, close, equal, exercise, wrong


def _on_a_rank(function) -> tuple[str, object]:
    """Give ``function`` a model whose gradients are rank + 1, 2·(rank + 1), ...; look after it."""
    import torch

    from helpers.data_parallel.runs import world

    comm = world()
    rank = comm.Get_rank()
    model = torch.nn.Linear(3, 2)
    for i, parameter in enumerate(model.parameters(), start=1):
        parameter.grad = torch.full_like(parameter, float(i * (rank + 1)))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    try:
        returned = function(model)
    except Exception as error:
        return "raised", f"rank {rank}: {type(error).__name__}: {error}"
    if returned is None:
        return "nothing", None
    moved = any(
        not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)
    )
    if moved:
        return "moved", None
    return "gradients", [parameter.grad.flatten().tolist() for parameter in model.parameters()]


@exercise(time_limit=60)
def sync_gradients(answer, *, cluster):
    """answer(model) -> model, the mean over all ranks in every gradient."""
    if not callable(answer):
        wrong(f"expected a function, got {answer!r}")
    from helpers.cluster import ClusterError

    try:
        replies = cluster.run(_on_a_rank, answer, timeout=40)
    except (ClusterError, TimeoutError) as error:
        wrong(f"the ranks did not come to an end: {type(error).__name__}; does every rank call it?")
    kinds = {kind for kind, _ in replies}
    if "raised" in kinds:
        wrong(next(value for kind, value in replies if kind == "raised"))
    if kinds == {"nothing"}:
        raise NotAttempted("sync_gradients returned None")
    if "moved" in kinds:
        wrong("the parameters themselves changed; only their gradients should")
    if "nothing" in kinds:
        wrong("some ranks returned None: every rank should return the model")
    mean = (cluster.n + 1) / 2
    for rank, (_, gradients) in enumerate(replies):
        for i, gradient in enumerate(gradients, start=1):
            what = f"rank {rank}, tensor {i} of the model, whose gradient was {i} · (rank + 1)"
            close(gradient, [i * mean] * len(gradient), what)


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
