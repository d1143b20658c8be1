"""The checks of notebook 02: averaged gradients, the server's receive, when a replica pays."""

from __future__ import annotations

import math

from helpers.exercises.answers import whole_numbers
from helpers.exercises.core import NotAttempted, WrongAnswer, call, close, equal, exercise, wrong
from helpers.exercises.groups import more_ranks
from helpers.exercises.on_ranks import on_ranks


def _ready() -> None:
    """Load torch and make the process group: not the answer's time."""
    from helpers.data_parallel.tasks import init_distributed

    init_distributed()


def _renew() -> None:
    """Make the process group anew: an answer that was ended has left it out of step."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
    _ready()


def on_torch_ranks(cluster, function, answer, *arguments) -> list:
    """``on_ranks`` with a process group that the next attempt finds in order."""
    cluster.run(_ready, timeout=60)
    try:
        return on_ranks(cluster, function, answer, *arguments, world=True)
    except WrongAnswer:
        cluster.run(_renew, timeout=60)
        raise


def _gradients(answer, factor: float) -> tuple[str, list]:
    """Call the answer with a model whose gradients differ everywhere; say what it did wrong."""
    import torch

    from helpers.data_parallel.tasks import init_distributed

    rank, model = init_distributed().Get_rank(), torch.nn.Linear(3, 2)
    parameters = dict(model.named_parameters())
    for parameter in parameters.values():
        parameter.grad = _gradient(parameter.numel(), rank, factor).view_as(parameter)
    before = [(p.detach().clone(), p.grad.clone(), p.grad.data_ptr()) for p in parameters.values()]
    returned = answer(model)
    for (name, parameter), (values, gradient, address) in zip(
        parameters.items(), before, strict=True
    ):
        if returned is None:
            if parameter.grad is None or not parameter.grad.equal(gradient):
                answer.attempted()
        elif returned is not model:
            return f"it returned {returned!r}: every rank should return the model", []
        elif not torch.equal(parameter, values):
            return "the parameters themselves changed; only their gradients should", []
        elif parameter.grad is None:
            return f"{name} has lost its gradient", []
        elif parameter.grad.data_ptr() != address:
            return (
                f"the gradient of {name} is another tensor now; other code may still hold the "
                "old one: write into it (p.grad /= n, p.grad.copy_(x))"
            ), []
    if returned is None:
        return "it returned None: every rank should return the model", []
    return "", [parameter.grad.flatten().tolist() for parameter in parameters.values()]


def _gradient(size: int, rank: int, factor: float):
    """The gradient of a tensor of ``size`` on a rank: no two numbers are equal."""
    import torch

    return factor * (rank + 1) ** 2 * torch.arange(1.0, size + 1)


def _compare(replies: list, weights: list[float], factor: float) -> None:
    """Refuse gradients that are not the weighted sum over all ranks."""
    n = len(replies)
    for rank, (fault, found) in enumerate(replies):
        if fault:
            wrong(f"rank {rank} of {n}: {fault}")
        for name, gradient in zip(("weight", "bias"), found, strict=True):
            every = [w * _gradient(len(gradient), r, factor) for r, w in enumerate(weights)]
            what = f"rank {rank} of {n}, the gradient of {name}"
            close(gradient, sum(every).tolist(), what, rtol=1e-5)


@exercise(time_limit=60)
def sync_gradients(answer, *, cluster):
    """answer(model) -> model, the mean over all ranks in every gradient."""
    for factor in (1.0, -0.5):
        n = cluster.n
        _compare(on_torch_ranks(cluster, _gradients, answer, factor), [1 / n] * n, factor)
    with more_ranks(2, "torch") as two:  # a number of ranks that nobody wrote down
        if two:
            _compare(on_torch_ranks(two, _gradients, answer, 1.0), [0.5, 0.5], 1.0)


@exercise
def more_bytes_from(answer):
    """answer(width, parameters) -> the smallest batch for which activations are more bytes."""
    for width, parameters in ((400, 61_706), (1, 10), (50, 1_000), (4_096, 7_000), (3, 2)):
        want = parameters // (2 * width) + 1
        what = f"{width} activations of a sample and {parameters} parameters: the smallest B"
        equal(call(answer, width, parameters), want, what)


def _serve(answer, pushes: int) -> list | None:
    """On every rank: workers push layers with pauses; the answer receives on rank 0."""
    import time

    import numpy as np
    from mpi4py import MPI

    from helpers.data_parallel.schemes.protocol import GRADIENT

    comm = MPI.COMM_WORLD.Split(0, MPI.COMM_WORLD.rank)  # without what an earlier attempt left over
    shapes = (3, 1, 4, 2, 5, 2)
    if comm.rank:
        if comm.rank == 1:  # late: it begins when the server has taken a gradient of another
            comm.recv(source=0, tag=1)
        for push in range(pushes):
            for number, width in enumerate(shapes):
                comm.Send(np.full(width, 100.0 * comm.rank + 10 * push + number), 0, GRADIENT)
                time.sleep(0.002)  # the backward pass of one layer
        return None
    taken = []
    for push in range(pushes * (comm.size - 1)):
        layers = [np.zeros(width) for width in shapes]
        given = list(layers)  # the server's: what the answer puts into the list reaches nobody
        taken.append((answer(comm, layers), [layer.tolist() for layer in given]))
        if push == 0:
            comm.send(None, 1, 1)
    return taken


@exercise(time_limit=60)
def receive_gradient(answer, *, cluster):
    """answer(comm, layers) -> the worker whose layers it has filled in."""
    pushes = 3
    for rank, layers in on_ranks(cluster, _serve, answer, pushes)[0]:
        found = [{int(value) for value in layer} for layer in layers]
        if any(found_here == {0} for found_here in found):
            wrong(f"an array that was handed in was not filled in: {layers}")
        sources = [{value // 100 for value in values} for values in found]
        if any(source != sources[0] for source in sources):
            wrong(f"the layers of one gradient came from workers {sources}")
        if [{value % 10 for value in values} for values in found] != [{n} for n in range(6)]:
            wrong(f"the layers are not in the order in which they were sent: {layers}")
        if len({value // 10 for values in found for value in values}) > 1:
            wrong(f"the layers are of several pushes of one worker: {layers}")
        equal(rank, sources[0].pop(), "the rank that it returned")


@exercise
def staleness_of(answer):
    """answer(workers) -> list of the staleness of each update's gradient."""
    for workers in ([1, 2, 3, 1, 2, 3], [1, 1, 1], [2, 1, 1, 1, 2, 3, 3, 1], [3]):
        last, want = {}, []
        for update, worker in enumerate(workers):
            want.append(update - last.get(worker, 0))
            last[worker] = update + 1
        what = f"updates by ranks {workers}: the staleness"
        equal(whole_numbers(call(answer, list(workers)), what), want, what)


def _pull(answer, period: int, pull: float, steps: int) -> dict:
    """On every rank: train a linear model with a constant gradient by the reader's scheme."""
    import torch
    from mpi4py import MPI

    from helpers.data_parallel import Replica, Scheme, train

    world = MPI.COMM_WORLD
    comm = world.Split(0, world.rank)  # the answer's own: what it leaves there meets nobody later
    scheme = answer(comm, period, pull)
    if not isinstance(scheme, Scheme):
        return {"kind": repr(scheme)}
    torch.manual_seed(comm.rank)
    model = torch.nn.Linear(2, 1, bias=False)
    replica = Replica(model, lambda x, y: x.sum(), torch.optim.SGD(model.parameters(), lr=1.0))
    slope = torch.tensor([[1.0, -2.0]]) * (comm.rank + 1)  # the gradient, in every step
    places, values = [], replica.flat.values
    after = scheme.after_step

    def noted(replica, step):
        after(replica, step)
        places.append(replica.flat.values.tolist())

    scheme.after_step = noted
    begun: list = []
    shared: list = []
    begin = scheme.begin

    def named():
        return getattr(scheme, "centre", ())

    def noting(replica):
        begin(replica)
        begun.append(replica.flat.values.tolist())
        shared.append(torch.as_tensor(named()).data_ptr() == values.data_ptr())

    scheme.begin = noting
    train(replica, [(slope, None)] * steps, scheme, steps=steps)
    reply = {"kind": "scheme", "begin": begun[0], "places": places, "shared": shared[0]}
    bound = replica.flat.values.data_ptr() != values.data_ptr()
    return reply | {"bound": bound, "centre": [float(value) for value in named()]}


@exercise(time_limit=60)
def elastic(answer, *, cluster):
    """answer(comm, period, pull) -> a Scheme of elastic averaging, with its centre."""
    import numpy as np

    cluster.run(_ready, timeout=60)
    for period, pull, steps in ((2, 0.2, 5), (3, 0.1, 7)):
        replies = on_ranks(cluster, _pull, answer, period, pull, steps)
        if any(reply["kind"] != "scheme" for reply in replies):
            wrong("the class should be a Scheme: class Elastic(Scheme)")
        if not all(reply["centre"] for reply in replies):
            raise NotAttempted("the scheme has no `centre`")
        if any(reply["shared"] for reply in replies):
            wrong("the centre is the same tensor as the parameters, and moves with them: clone it")
        if any(reply["bound"] for reply in replies):
            wrong(
                "replica.flat.values became another tensor, which the model does not use: change "
                "it in place"
            )
        values = np.array([reply["begin"] for reply in replies])
        if np.ptp(values, axis=0).max() > 0:
            wrong("the replicas do not begin equal: does begin call super().begin(replica)?")
        centre, slope = values[0].copy(), np.array([1.0, -2.0])
        for step in range(steps):
            before = values = values - slope * np.arange(1, cluster.n + 1)[:, None]
            if (step + 1) % period == 0:
                apart = pull * (values - centre)
                values, centre = values - apart, centre + apart.sum(axis=0)
            for rank, reply in enumerate(replies):
                what = f"period {period}, pull {pull}: rank {rank}'s parameters after {step + 1}"
                place = reply["places"][step]
                if values is not before and np.allclose(place, before[rank]):
                    wrong(f"{what} steps: no pull moved them; is the tensor changed in place?")
                close(place, values[rank], f"{what} steps", rtol=1e-4, atol=1e-5)
        for rank, reply in enumerate(replies):
            what = f"period {period}, pull {pull}: the centre on rank {rank} after {steps} steps"
            close(reply["centre"], centre, what, rtol=1e-4, atol=1e-5)


@exercise
def predict_crossing(answer):
    """answer(fixed, per_sample, synchronize, ranks) -> the smallest batch for which it pays."""
    for fixed, per_sample, synchronize, ranks in (
        (0.0, 1.0, 8.0, 2),
        (0.5, 0.25, 4.1, 2),
        (2.0, 0.5, 30.3, 4),
        (1.0, 0.1, 0.4, 2),
        (0.0, 0.125, 3.0, 3),
        (1.0, 0.25, 3.4, 2),  # a bound that rounds up
    ):
        got = call(answer, fixed, per_sample, synchronize, ranks)
        want = max(1, math.floor((synchronize / (ranks - 1) - fixed) / per_sample) + 1)
        what = (
            f"T_comp = {fixed} + {per_sample}·B ms, T_sync = {synchronize} ms, R = {ranks}: "
            "the smallest B"
        )
        equal(got, want, what)
