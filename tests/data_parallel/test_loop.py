"""The loop: its hooks, its ends, what it refuses."""

import functools

import pytest
import torch

from helpers.data_parallel import Replica, Scheme, schemes, train
from helpers.data_parallel.schemes import (
    Asynchronous,
    MPIAllreduce,
    PerTensor,
    Server,
    Stop,
    Unannounced,
)
from helpers.data_parallel.tasks import lenet, ranks
from helpers.models.lenet import LeNet
from tests.mpi.several import on_ranks, told

pytestmark = pytest.mark.mpi


def line(loss=torch.nn.functional.mse_loss) -> Replica:
    model = torch.nn.Linear(1, 1)
    return Replica(model, loss, torch.optim.SGD(model.parameters(), lr=0.01))


def of_a_line(scheme, batches, **how):
    return train(line(), batches, scheme, **how)


def all_again() -> list[str]:
    """How runs of one scheme and replica ended, each with or without a stop; both stay."""
    replica, batches, again = line(), [(torch.ones(4, 1),) * 2] * 5, MPIAllreduce(ranks())
    before = [dict(vars(each)) for each in (replica, again)]
    ended = [train(replica, batches, again, stop=stop).ended for stop in (Stop(updates=3), None)]
    assert [vars(replica), vars(again)] == before
    return ended


def batches_that_end(scheme: str, listed: tuple[int, ...]) -> tuple[str, int]:
    """Batches of which nobody knows the number, but on the ranks ``listed``; each has others."""
    rank = ranks().Get_rank()
    mine = [(torch.ones(4, 1),) * 2] * (10 + 5 * rank)
    made, stop = getattr(schemes, scheme)(ranks()), schemes.Stop(seconds=60)
    history = of_a_line(made, mine if rank in listed else iter(mine), stop=stop)
    return history.ended, history.updates


def a_stop_that_cannot_be() -> str:
    unannounced = functools.partial(Unannounced, receive=print)
    return told(lambda: lenet.train(unannounced, ranks(), stop=Stop(loss=1.0)))


LISTED = (), (0,), (1,)


@pytest.fixture(scope="module")
def two():
    calls = {"again": (all_again,), "stop": (a_stop_that_cannot_be,)}
    calls |= {listed: (batches_that_end, "MPIAllreduce", listed) for listed in LISTED}
    return dict(zip(calls, on_ranks(2, *calls.values()), strict=True))


def test_a_stop_ends_its_own_run_and_no_other(two):
    assert two["again"] == (["3 updates", "5 updates"],) * 2


def test_a_stop_that_cannot_be(two):
    said = "the server is told no loss to stop at; got Stop(updates=None, seconds=None, loss=1.0)"
    assert said in two["stop"][0]


@pytest.mark.parametrize("listed", LISTED)
def test_the_first_without_a_batch_ends_all(two, listed):
    assert two[listed] == (("10 updates", 10),) * 2


def hooks() -> list[str]:
    """The order in which one step calls a scheme's hooks."""
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

    train(line(loss), [(torch.ones(4, 1),) * 2] * 2, Told(ranks()))
    return heard


def bad_calls() -> list[str]:
    comm, replica = ranks(), Replica(LeNet(), None, None)
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
            lambda: lenet.train(Scheme, comm, stop=2.5),
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
    for message, part in zip(alone[1], (*expected, "stop=Stop(...); got 2.5"), strict=True):
        assert part in message
