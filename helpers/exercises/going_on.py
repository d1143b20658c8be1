"""The checks on several batches for one average and a checkpoint (A2), and a straggler (02)."""

from __future__ import annotations

import contextlib
import io
from numbers import Integral

from helpers.exercises.core import NotAttempted, call, close, exercise, wrong
from helpers.exercises.data_parallel import on_torch_ranks

_FEATURES, _UNITS = 3, 2


def _model():
    """A model that is the same on every rank, without gradients."""
    import torch

    model = torch.nn.Linear(_FEATURES, _UNITS)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.3, -0.2, 0.5], [0.1, 0.4, -0.6]]))
        model.bias.copy_(torch.tensor([0.2, -0.1]))
    return model


def _batches(rank: int, count: int, batch: int) -> list:
    """The batches of one rank: no two samples of any ranks are equal."""
    import torch

    made = []
    for number in range(count):
        draw = torch.Generator().manual_seed(100 * rank + number)
        x = torch.randn(batch, _FEATURES, generator=draw)
        made.append((x, torch.randn(batch, _UNITS, generator=draw) + number + rank))
    return made


def _loss(z, y):
    return ((z - y) ** 2).mean()


def _accumulated(answer, count: int, batch: int) -> dict:
    """On every rank: call the answer, and look at what it did with its batches."""
    from mpi4py import MPI

    from helpers.data_parallel.tasks import init_distributed

    comm = init_distributed()
    comm = comm.Split(0, comm.Get_rank())  # without what an earlier attempt left over
    model, events = _model(), []

    def sync(model):
        events.append(("sync", 0))
        for name, parameter in model.named_parameters():
            if parameter.grad is None:
                raise ValueError(f"sync(model): {name} has no gradient yet")
            comm.Allreduce(MPI.IN_PLACE, parameter.grad.numpy())
            parameter.grad /= comm.Get_size()
        return model

    forward = model.forward

    def seen(x):
        events.append(("forward", len(x)))
        return forward(x)

    model.forward = seen  # whether the answer calls model(x) or model.forward(x)
    model.weight.register_hook(lambda _: events.append(("backward", 0)))
    before = model.weight.tolist()
    returned = answer(model, _loss, _batches(comm.Get_rank(), count, batch), sync)
    gradients = [
        p.grad if p.grad is None else p.grad.flatten().tolist() for p in model.parameters()
    ]
    return {
        "returned": None if returned is model else repr(returned),
        "events": events,
        "moved": model.weight.tolist() != before,
        "gradients": gradients,
    }


def _whole(ranks: int, count: int, batch: int) -> list:
    """The gradient of all samples of all ranks in one batch."""
    import torch

    model = _model()
    every = [pair for rank in range(ranks) for pair in _batches(rank, count, batch)]
    x, y = (torch.cat(parts) for parts in zip(*every, strict=True))
    _loss(model(x), y).backward()
    return [parameter.grad.flatten().tolist() for parameter in model.parameters()]


def _one_at_a_time(events: list, batch: int, what: str) -> None:
    """Refuse an answer that holds the activations of more than one batch, or averages often."""
    held = 0
    for kind, samples in events:
        if kind == "forward":
            held += samples
            if held > batch:
                wrong(
                    f"{what}: {held} samples went forward before a backward; a rank is said to "
                    f"hold the activations of {batch} at most"
                )
        elif kind == "backward":
            held = 0
    averages = sum(kind == "sync" for kind, _ in events)
    if averages != 1:
        wrong(f"{what}: sync was called {averages} times; expected: once")


@exercise(time_limit=60)
def accumulate(answer, *, cluster):
    """answer(model, loss, batches, sync) -> model, the mean over all batches of all ranks."""
    for count, batch in ((3, 4), (1, 5), (4, 2)):
        replies = on_torch_ranks(cluster, _accumulated, answer, count, batch)
        want = _whole(len(replies), count, batch)
        for rank, reply in enumerate(replies):
            what = f"rank {rank}, {count} batches of {batch}"
            if reply["moved"]:
                wrong(f"{what}: the parameters themselves changed; only their gradients should")
            if reply["returned"] is not None:
                wrong(f"{what}: it returned {reply['returned']}; expected the model")
            _one_at_a_time(reply["events"], batch, what)
            for name, got, gradient in zip(
                ("weight", "bias"), reply["gradients"], want, strict=True
            ):
                close(got, gradient, f"{what}: the gradient of {name}", rtol=1e-4, atol=1e-5)


def _begin(seed: int, momentum: float):
    """A run of 24 samples, six batches an epoch, whose network also has buffers."""
    import numpy as np
    import torch
    from torch import nn

    from helpers.data_parallel.tasks.interruptible import Run

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
    draw = np.random.default_rng(5)
    inputs = draw.normal(size=(24, 3)).astype(np.float32)
    return Run(net, inputs, draw.integers(2, size=24), batch=4, rate=0.1, momentum=momentum)


def _from_a_file(saved: object) -> object:
    """Return what ``torch.load`` reads of what ``torch.save`` wrote."""
    import torch

    file = io.BytesIO()
    try:
        torch.save(saved, file)
        file.seek(0)
        return torch.load(file)
    except Exception as error:
        first = str(error).strip().splitlines()[0].split(". ")[0]
        wrong(
            f"torch.save and torch.load do not bring back what state_of returned: {first}. They "
            "bring back tensors, Python's numbers, and lists and dictionaries of them, as a "
            "state_dict() is one"
        )


def _differs(one, other) -> str:
    """Name the first tensor of two networks that is not equal to the last bit."""
    import torch

    theirs = other.state_dict()
    return next((n for n, t in one.state_dict().items() if not torch.equal(t, theirs[n])), "")


@exercise(time_limit=90)  # the first optimizer imports torch's compiler: half a minute if crowded
def checkpoint(state_of, go_on_from):
    """state_of(run) -> what to save; go_on_from(run, saved) makes a new run go on with it."""
    for momentum, steps in ((0.9, 9), (0.5, 4), (0.9, 12), (0.9, 0)):
        run, untouched = _begin(1, momentum), _begin(1, momentum)  # only one is shown to the answer
        for one in (run, untouched):
            for _ in range(steps):
                one.step()
            one.sgd.param_groups[0]["lr"] = 0.03  # as a schedule of rates does
        saved = _from_a_file(call(state_of, run))
        new = _begin(2, 0.9)
        with contextlib.suppress(NotAttempted):  # it changes what it is given, and may return None
            call(go_on_from, new, saved)
        what = f"saved after {steps} steps, and gone on with"
        place = untouched.epoch, untouched.done
        if _differs(run.net, untouched.net) or (run.epoch, run.done) != place:
            wrong(f"after {steps} steps: state_of changes the run that it should only save")
        tensor = _differs(new.net, untouched.net)
        if tensor:
            wrong(f"{what}: {tensor} of run.net is not what it was when the run was saved")
        for name in ("epoch", "done"):
            if not isinstance(getattr(new, name), Integral):
                kind = type(getattr(new, name)).__name__
                wrong(f"{what}: run.{name} is a {kind}; step needs a whole number, as it was")
        if (new.epoch, new.done) != place:
            wrong(
                f"{what}: the run goes on in epoch {new.epoch} after {new.done} batches; it was "
                f"saved in epoch {place[0]} after {place[1]}"
            )
        for more in range(1, 4):
            for one in (run, new, untouched):
                one.step()
            if _differs(run.net, untouched.net):
                wrong(
                    f"saved after {steps} steps: {more} steps later the saved run itself is not "
                    "where it would be without state_of, which should change nothing in it"
                )
            tensor = _differs(new.net, untouched.net)
            if tensor:
                wrong(
                    f"{what}: {more} steps later {tensor} is not what it is in the run that was "
                    "not interrupted. What else does a step depend on?"
                )


@exercise
def with_a_straggler(answer):
    """answer(k, workers, compute, rest) -> gradients per second, synchronous and asynchronous."""
    for k, workers, compute, rest in (
        (1, 4, 0.01, 0.002),
        (4, 4, 0.01, 0.005),
        (10, 3, 0.002, 0.004),
        (2.5, 8, 0.1, 0.01),
        (3, 1, 0.02, 0.01),
    ):
        got = call(answer, k, workers, compute, rest)
        what = f"k = {k}, {workers} workers, {compute} s and {rest} s: gradients per second"
        try:
            synchronous, asynchronous = got
        except (TypeError, ValueError):
            wrong(f"{what}: expected two numbers, synchronous and asynchronous; got {got!r}")
        close(synchronous, workers / (k * compute + rest), f"{what}, synchronous")
        each = (workers - 1) / (compute + rest) + 1 / (k * compute + rest)
        close(asynchronous, each, f"{what}, asynchronous")
