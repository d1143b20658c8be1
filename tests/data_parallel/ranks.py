"""What the tests of data-parallel training run on their ranks."""

from __future__ import annotations

import functools
import itertools
import time

import numpy as np

from helpers.data_parallel.runs import ranks as _comm


def all_exact(steps: int, batch: int) -> dict[str, np.ndarray]:
    """Weights after ``steps`` by every scheme that averages gradients, on every rank."""
    import torch.distributed as dist

    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import (
        DDP,
        Buckets,
        ByFunction,
        MPIAllreduce,
        PerTensor,
        Ring,
    )

    mine = functools.partial(ByFunction, function=_mean_by_hand)
    settings = {"steps": steps, "batch": batch, "rate": 0.02}
    schemes = (Ring, MPIAllreduce, PerTensor, DDP, Buckets, mine)
    histories = [runs.train(scheme, **settings) for scheme in schemes]
    dist.destroy_process_group()
    return {history.scheme: history.weights for history in histories}


def _mean_by_hand(model):
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def synchronous_with_server(steps: int, batch: int) -> np.ndarray:
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import Server

    return runs.train(Server, _comm(), steps=steps, batch=batch, rate=0.02).weights


def train_to_accuracy(steps: int) -> float:
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import MPIAllreduce

    return runs.train(MPIAllreduce, _comm(), steps=steps, batch=8, rate=0.02).accuracy


def asynchronous(stop: dict, faults: dict | None = None, **settings):
    from helpers.data_parallel import runs
    from helpers.data_parallel.faults import Faulty
    from helpers.data_parallel.schemes import Stop

    scheme = functools.partial(Faulty, faults=faults or {}, patience=3.0)
    given = {"momentum": 0.0, "steps": None, "stop": Stop(**stop)} | settings
    return runs.train(scheme, _comm(), **given)


def stopped(scheme: str) -> list:
    """How runs with several ends ended: (name, by what, updates, seconds, losses)."""
    from helpers.data_parallel import runs, schemes
    from helpers.data_parallel.schemes import Stop

    made = getattr(schemes, scheme)
    comm, found = _comm(), []
    for name, steps, stop in (
        ("steps", 12, Stop(updates=500, seconds=60.0, loss=-1.0)),
        ("updates", None, Stop(updates=7)),
        ("seconds", 10_000, Stop(seconds=0.4)),
        ("loss", 3_000, Stop(loss=1.5)),
        ("seconds before loss", None, Stop(seconds=0.2, loss=-1.0)),
    ):
        settings = {"momentum": 0.0, "batch": 8, "steps": steps, "stop": stop}
        run = runs.train(made, comm, **settings)
        found.append((name, run.ended, run.updates, run.seconds, run.losses))
    return [comm.Get_rank(), *found]


def late_worker() -> tuple:
    """A run in which rank 2's first gradient takes seconds, and another run behind it.

    Last comes whether the first run's end came before its time limit.
    """
    from helpers.data_parallel import messages, runs
    from helpers.data_parallel.schemes import Asynchronous, Stop

    class Late(Asynchronous):
        def after_backward(self, replica, step):
            if self.comm.Get_rank() == 2 and step == 0:
                time.sleep(1.5)
            super().after_backward(replica, step)

    until, in_time = messages._until, []
    messages._until = lambda *given: in_time.append(until(*given)) or in_time[-1]
    comm = _comm()
    late = functools.partial(Late, patience=0.6)
    settings = {"momentum": 0.0, "batch": 8}
    first = runs.train(late, comm, steps=None, stop=Stop(seconds=0.3), **settings)
    all_left = in_time[-1]
    return first, runs.train(Asynchronous, comm, steps=12, **settings), all_left


def bad_stops() -> list[str]:
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import MPIAllreduce, Stop, Unannounced

    told, unannounced = [], functools.partial(Unannounced, receive=_from_one_source)
    for scheme, stop in ((MPIAllreduce, 2.5), (unannounced, Stop(loss=1.0))):
        try:
            runs.train(scheme, _comm(), stop=stop)
        except (TypeError, ValueError) as error:
            told.append(str(error))
    return told


def _of_a_line(scheme, batches, **how):
    import torch

    from helpers.data_parallel import Replica, train

    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return train(Replica(model, torch.nn.functional.mse_loss, optimizer), batches, scheme, **how)


def a_scheme_again() -> list[str]:
    """How runs of one scheme ended, each with or without a stop; and of one with its own."""
    import torch

    from helpers.data_parallel.schemes import MPIAllreduce, Stop

    class Short(MPIAllreduce):
        stop = Stop(updates=2)

    scheme, short = MPIAllreduce(_comm()), Short(_comm())
    runs = ((scheme, Stop(updates=3)), (scheme, None), (short, Stop(updates=3)), (short, None))
    batches = [(torch.ones(4, 1),) * 2] * 5
    return [_of_a_line(made, batches, stop=stop).ended for made, stop in runs]


def batches_that_end(scheme: str, listed: tuple[int, ...]) -> tuple[str, int]:
    """Batches of which nobody knows the number, but on the ranks ``listed``; each has others."""
    import torch

    from helpers.data_parallel import schemes

    rank = _comm().Get_rank()
    mine = [(torch.ones(4, 1),) * 2] * (10 + 5 * rank)
    stop = schemes.Stop(seconds=60)
    made = getattr(schemes, scheme)(_comm())
    history = _of_a_line(made, mine if rank in listed else iter(mine), stop=stop)
    return history.ended, history.updates


def with_settings(stop: dict, settings: dict):
    return asynchronous(stop, **settings)


class _Hesitant:
    """A communicator that pauses before each layer, so that others may speak in between."""

    def __init__(self, comm):
        self._comm = comm

    def __getattr__(self, name):
        return getattr(self._comm, name)

    def Isend(self, *args):  # noqa: N802 (mpi4py's own spelling)
        time.sleep(5e-4)
        return self._comm.Isend(*args)


def whole_pushes(pushes: int) -> list[tuple[int, list[float]]] | None:
    """Workers push gradients made of their rank; on rank 0, (worker, what each update took off)."""
    import torch

    from helpers.data_parallel import Replica, train
    from helpers.data_parallel.schemes import Asynchronous

    comm, seen = _comm(), []

    class Watched(Asynchronous):
        def after_step(self, replica, step):
            if self.serves:
                values = replica.flat.values
                seen.append((self.worker, sorted(set((-values).tolist()))))
                values.zero_()
            super().after_step(replica, step)

    class Total(torch.nn.Module):
        def __init__(self):
            super().__init__()
            sizes = (50_000, 3, 1, 20_000)
            self.layers = torch.nn.ParameterList([torch.zeros(size) for size in sizes])

        def forward(self, x):
            return x * sum(layer.sum() for layer in self.layers)

    model, rank = Total(), torch.tensor([float(comm.Get_rank())])
    replica = Replica(model, lambda z, _: z.sum(), torch.optim.SGD(model.parameters(), lr=1.0))
    endless = iter(lambda: (rank, rank), None)
    scheme = Watched(_Hesitant(comm) if comm.Get_rank() else comm)
    train(replica, endless, scheme, steps=pushes)
    return seen if scheme.serves else None


def server_that_vanishes() -> str:
    """Rank 0 says nothing at all: the workers end by themselves."""
    from helpers.data_parallel import Ended, Replica
    from helpers.data_parallel.schemes import Asynchronous
    from helpers.models.lenet import LeNet

    scheme, replica = Asynchronous(_comm(), patience=0.5), Replica(LeNet(), None, None)
    if scheme.serves:
        return "vanished"
    scheme.begin(replica)
    try:
        scheme.before_backward(replica, 0)
    except Ended as error:
        return str(error)
    return "served"


def bad_calls() -> list[str]:
    from helpers.data_parallel import Replica, Scheme, runs, train
    from helpers.data_parallel.schemes import Asynchronous, PerTensor, Server
    from helpers.models.lenet import LeNet

    comm, messages = _comm(), []
    replica = Replica(LeNet(), None, None)
    for call in (
        lambda: runs.train(Asynchronous, comm),
        lambda: runs.train(Server, comm),
        lambda: train(replica, [], "pigeons"),
        lambda: runs.train(PerTensor, comm),
        lambda: runs.train(Scheme, comm, batch=5000),
        lambda: runs.train(Scheme, comm, slow={0: 0.5}),
        lambda: train(replica, iter([]), Scheme(comm)),
    ):
        try:
            call()
        except (TypeError, ValueError) as error:
            messages.append(str(error))
    return messages


def unknown_fault() -> str:
    from helpers.data_parallel.faults import Faulty

    try:
        Faulty(_comm(), {1: ("explode", 1)})
    except ValueError as error:
        return str(error)
    return ""


def by_a_loader(epochs: int) -> dict[str, object]:
    """Someone else's model, optimizer and DataLoader, by three schemes."""
    import torch
    from torch.nn.functional import mse_loss
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

    from helpers.data_parallel import Replica, train
    from helpers.data_parallel.schemes import Asynchronous, MPIAllreduce, Server

    comm = _comm()
    x = torch.linspace(-1, 1, 48).reshape(48, 1)
    data = TensorDataset(x, x**2)
    found: dict[str, object] = {}
    for scheme in (MPIAllreduce(comm), Server(comm), Asynchronous(comm)):
        workers = len(scheme.workers)
        torch.manual_seed(comm.Get_rank())  # only rank 0's weights count
        model = torch.nn.Sequential(
            torch.nn.Linear(1, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 1)
        )
        model[0].bias.requires_grad_(False)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        part = max(0, comm.Get_rank() - (scheme.server is not None))
        sampler = DistributedSampler(data, workers, part, shuffle=True)
        loader = DataLoader(data, 4, sampler=sampler)
        batches = loader if scheme.in_step else itertools.chain(*itertools.repeat(loader, epochs))
        history = train(Replica(model, mse_loss, optimizer), batches, scheme)
        found[scheme.name] = history, model[0].bias.tolist()
    return found


# ------------------------------------------------- two schemes as a reader would write them


def _new_schemes() -> tuple[type, type]:
    from helpers.data_parallel import Scheme, average

    class LocalSGD(Scheme):
        """Average the parameters every ``period`` steps (Stich, 2019)."""

        def __init__(self, comm, period):
            super().__init__(comm)
            self.period, self.name = period, f"local SGD, H = {period}"

        def after_step(self, replica, step):
            if (step + 1) % self.period == 0:
                average(replica.flat.values, self.comm)

    class QSGD(Scheme):
        """Send each gradient in whole ``levels`` of its norm, without bias (Alistarh, 2017)."""

        def __init__(self, comm, levels):
            super().__init__(comm)
            self.levels, self.name = levels, f"QSGD, {levels} levels"
            self.rng = np.random.default_rng(comm.Get_rank())

        def after_backward(self, replica, step):
            g = replica.flat.gradients.numpy()
            norm = np.linalg.norm(g)
            level = np.floor(np.abs(g) / norm * self.levels + self.rng.random(g.size))
            every = self.comm.allgather((norm, (np.sign(g) * level).astype(np.int8)))
            g[:] = sum(n / self.levels * c for n, c in every) / len(every)

    return LocalSGD, QSGD


def new_schemes(steps: int) -> dict[str, tuple]:
    """History of each new scheme and of MPI's allreduce; momentum would drift even with H = 1."""
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import MPIAllreduce

    local, qsgd = _new_schemes()
    made = {
        "mpi": MPIAllreduce,
        "H = 1": functools.partial(local, period=1),
        "H = 7": functools.partial(local, period=7),
        "QSGD": functools.partial(qsgd, levels=64),
    }
    settings = {"steps": steps, "batch": 8, "rate": 0.05, "momentum": 0.0}
    return {name: runs.train(scheme, _comm(), **settings) for name, scheme in made.items()}


def hooks() -> list[str]:
    """The order in which one step calls a scheme's hooks."""
    import torch

    from helpers.data_parallel import Replica, Scheme, train

    told = []

    class Told(Scheme):
        def __getattribute__(self, name):
            if name in (
                "begin",
                "before_backward",
                "after_backward",
                "update",
                "after_step",
                "end",
            ):
                told.append(name)
            return super().__getattribute__(name)

    model = torch.nn.Linear(1, 1)

    def loss(z, y):
        told.append("loss")
        return (z - y).square().mean()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(Replica(model, loss, optimizer), [(torch.ones(4, 1),) * 2] * 2, Told(_comm()))
    return told


def unused_layer() -> list[np.ndarray]:
    """Weights by MPI's allreduce and by one bucket, of a model that leaves a layer out."""
    import torch

    from helpers.data_parallel import Replica, runs, train
    from helpers.data_parallel.schemes import Buckets, MPIAllreduce

    class Partial(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

        def forward(self, x):
            return self.used(x)

    comm, weights = runs.world(), []
    x = torch.full((4, 1), 1.0 + comm.Get_rank())
    for scheme in (MPIAllreduce(comm), Buckets(comm, nbytes=1 << 20)):
        torch.manual_seed(0)
        model = Partial()
        replica = Replica(
            model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1)
        )
        weights.append(train(replica, [(x, x)] * 3, scheme).weights)
    return weights


def rebound(how: str) -> list[str]:
    """A reader's function that puts new tensors where the gradients were."""
    import torch

    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import ByFunction

    def sync_gradients(model):
        if how == "zero_grad":
            model.zero_grad()
        elif how == "data":
            model.third.weight.data = torch.zeros_like(model.third.weight)
        else:
            model.third.weight.grad = model.third.weight.grad / 2

    try:
        runs.train(functools.partial(ByFunction, function=sync_gradients), _comm(), steps=2)
    except ValueError as error:
        return str(error)
    return ""


def without_handshake(answer: str, steps: int):
    """Train by a receive of the given kind; with "none" it forgets to say whose gradient it was."""
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import Unannounced

    receive = _from_one_source if answer == "right" else _forgets
    made = functools.partial(Unannounced, receive=receive)
    return runs.train(made, _comm(), steps=steps, momentum=0.0)


def _from_one_source(comm, layers):
    from mpi4py import MPI

    status = MPI.Status()
    comm.Recv(layers[0], MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    for layer in layers[1:]:
        comm.Recv(layer, status.Get_source())
    return status.Get_source()


def _forgets(comm, layers):
    return None


def alone_and_in_one_message(steps: int):
    """What one process trains, and whether a gradient in one message trains as well as by layer."""
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import Asynchronous

    comm = _comm()
    single = runs.alone(steps=steps, batch=8, rate=0.02)
    whole = functools.partial(Asynchronous, layers=False)
    return single, runs.train(whole, comm, steps=steps, momentum=0.0)


def same_and_divided(steps: int):
    """Weights of four replicas that see the same batches, or parts of them; and of one process."""
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import MPIAllreduce

    comm = _comm()
    same = runs.train(MPIAllreduce, comm, steps=steps, batch=8, divide=False).weights
    divided = runs.train(MPIAllreduce, comm, steps=steps, batch=8).weights
    return same, divided, runs.alone(steps=steps, batch=8)
