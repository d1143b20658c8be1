"""The loop: its hooks, its ends, what it refuses."""

import functools

import numpy as np
import pytest

from helpers.data_parallel.tasks import ranks as world
from tests.mpi.several import on_ranks, told

pytestmark = pytest.mark.mpi


def of_a_line(scheme, batches, **how):
    import torch

    from helpers.data_parallel import Replica, train

    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return train(Replica(model, torch.nn.functional.mse_loss, optimizer), batches, scheme, **how)


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


def new_schemes(steps: int) -> dict:
    """History of each new scheme and of MPI's allreduce; momentum would drift even with H = 1."""
    from helpers.data_parallel.schemes import MPIAllreduce
    from helpers.data_parallel.tasks import lenet

    local, qsgd = _new_schemes()
    made = {
        "mpi": MPIAllreduce,
        "H = 1": functools.partial(local, period=1),
        "H = 7": functools.partial(local, period=7),
        "QSGD": functools.partial(qsgd, levels=64),
    }
    settings = {"steps": steps, "batch": 8, "rate": 0.05, "momentum": 0.0}
    return {name: lenet.train(scheme, world(), **settings) for name, scheme in made.items()}


def a_scheme_again() -> list[str]:
    """How runs of one scheme ended, each with or without a stop."""
    import torch

    from helpers.data_parallel.schemes import MPIAllreduce, Stop

    scheme, batches = MPIAllreduce(world()), [(torch.ones(4, 1),) * 2] * 5
    return [of_a_line(scheme, batches, stop=stop).ended for stop in (Stop(updates=3), None)]


def arguments() -> tuple:
    """What the loop's arguments are like before and after."""
    import torch

    from helpers.data_parallel import Replica, train
    from helpers.data_parallel.schemes import MPIAllreduce, Stop

    model, batches = torch.nn.Linear(1, 1), [(torch.ones(4, 1),) * 2] * 5
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    replica = Replica(model, torch.nn.functional.mse_loss, optimizer)
    scheme, stop = MPIAllreduce(world()), Stop(updates=3)
    kept = [dict(vars(each)) for each in (replica, scheme)]
    history = train(replica, batches, scheme, stop=stop)
    changed = [
        name
        for each, before in zip((replica, scheme), kept, strict=True)
        for name in vars(each)
        if vars(each)[name] is not before.get(name)
    ]
    return changed, history is replica.history, len(batches), stop == Stop(updates=3)


def batches_that_end(scheme: str, listed: tuple[int, ...]) -> tuple[str, int]:
    """Batches of which nobody knows the number, but on the ranks ``listed``; each has others."""
    import torch

    from helpers.data_parallel import schemes

    rank = world().Get_rank()
    mine = [(torch.ones(4, 1),) * 2] * (10 + 5 * rank)
    made, stop = getattr(schemes, scheme)(world()), schemes.Stop(seconds=60)
    history = of_a_line(made, mine if rank in listed else iter(mine), stop=stop)
    return history.ended, history.updates


def bad_stops() -> list[str]:
    from helpers.data_parallel.schemes import MPIAllreduce, Stop, Unannounced
    from helpers.data_parallel.tasks import lenet

    unannounced = functools.partial(Unannounced, receive=print)
    return [
        told(functools.partial(lenet.train, scheme, world(), stop=stop))
        for scheme, stop in ((MPIAllreduce, 2.5), (unannounced, Stop(loss=1.0)))
    ]


def rebound() -> str:
    """A reader's function that puts new tensors where the gradients were."""
    from helpers.data_parallel.schemes import ByFunction
    from helpers.data_parallel.tasks import lenet

    def sync_gradients(model):
        model.third.weight.grad = model.third.weight.grad / 2

    scheme = functools.partial(ByFunction, function=sync_gradients)
    return told(lambda: lenet.train(scheme, world(), steps=2))


LISTED = (), (0,), (1,)


@pytest.fixture(scope="module")
def two():
    calls = [(new_schemes, 20), (new_schemes, 105), (a_scheme_again,), (arguments,), (bad_stops,)]
    calls += [(batches_that_end, "MPIAllreduce", listed) for listed in LISTED]
    names = ["short", "long", "again", "arguments", "bad stops", *LISTED, "rebound"]
    calls += [(rebound,)]
    return dict(zip(names, on_ranks(2, *calls), strict=True))


def test_local_sgd_with_period_1_is_synchronous_sgd(two):
    """With plain SGD the mean of the moved parameters is the parameters moved by the mean.

    For a few steps: rounding differs, and training multiplies what differs.
    """
    for found in two["short"]:
        assert np.abs(found["H = 1"].weights - found["mpi"].weights).max() < 1e-6
        assert np.abs(found["H = 7"].weights - found["mpi"].weights).max() > 1e-5
        assert np.allclose(found["H = 1"].losses, found["mpi"].losses, atol=1e-5)


@pytest.mark.parametrize(("name", "is_called"), [("H = 7", "local SGD, H = 7"),
                                                 ("QSGD", "QSGD, 64 levels")])  # fmt: skip
def test_a_new_scheme_learns_and_its_replicas_end_equal(two, name, is_called):
    first, second = (found[name] for found in two["long"])  # 105 steps end with an average
    assert first.scheme == is_called
    assert np.array_equal(first.weights, second.weights)
    assert np.abs(first.weights - two["long"][0]["mpi"].weights).max() > 1e-4
    assert np.mean(first.losses[-10:]) < 0.9 * np.mean(first.losses[:10])


def test_a_stop_ends_its_own_run_and_no_other(two):
    assert two["again"] == (["3 updates", "5 updates"],) * 2


def test_the_loop_changes_no_argument_but_the_parameters(two):
    assert two["arguments"] == (([], False, 5, True),) * 2


def test_a_stop_that_is_none_or_cannot_be(two):
    none, without_loss = two["bad stops"][0]
    assert none == "TypeError: train expects stop=Stop(...); got 2.5"
    said = "the server is told no loss to stop at; got Stop(updates=None, seconds=None, loss=1.0)"
    assert said in without_loss


@pytest.mark.parametrize("listed", LISTED)
def test_the_first_without_a_batch_ends_all(two, listed):
    assert two[listed] == (("10 updates", 10),) * 2


def test_training_refuses_a_reader_who_rebinds(two):
    assert all("'third.weight'" in message for message in two["rebound"])


# ------------------------------------------------------------------------------- one process


def hooks() -> list[str]:
    """The order in which one step calls a scheme's hooks."""
    import torch

    from helpers.data_parallel import Replica, Scheme, train

    heard = []
    watched = ("begin", "before_backward", "after_backward", "update", "after_step", "end")

    class Told(Scheme):
        def __getattribute__(self, name):
            if name in watched:
                heard.append(name)
            return super().__getattribute__(name)

    def loss(z, y):
        heard.append("loss")
        return (z - y).square().mean()

    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(Replica(model, loss, optimizer), [(torch.ones(4, 1),) * 2] * 2, Told(world()))
    return heard


def bad_calls() -> list[str]:
    from helpers.data_parallel import Replica, Scheme, train
    from helpers.data_parallel.schemes import Asynchronous, PerTensor, Server
    from helpers.data_parallel.tasks import lenet
    from helpers.models.lenet import LeNet

    comm, replica = world(), Replica(LeNet(), None, None)
    return [
        told(call)
        for call in (
            lambda: lenet.train(Asynchronous, comm),
            lambda: lenet.train(Server, comm),
            lambda: train(replica, [], "pigeons"),
            lambda: lenet.train(PerTensor, comm),
            lambda: lenet.train(Scheme, comm, batch=5000),
            lambda: lenet.train(Scheme, comm, slow={0: 0.5}),
            lambda: train(replica, iter([]), Scheme(comm)),
        )
    ]


@pytest.fixture(scope="module")
def alone():
    return [found for (found,) in on_ranks(1, (hooks,), (bad_calls,))]


def test_hooks_in_their_order(alone):
    step = ["before_backward", "loss", "after_backward", "update", "after_step"]
    assert alone[0] == ["begin", *step, *step, "end"]


def test_bad_calls_are_refused_with_what_was_passed(alone):
    expected = ("got 1", "got 1", "'pigeons'", "init_process_group", "5000", "got 0.5", "list_iter")
    for message, part in zip(alone[1], expected, strict=True):
        assert part in message
