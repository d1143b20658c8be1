"""The asynchronous server: whole gradients, staleness, ends; and workers that fail."""

import functools
import time

import numpy as np
import pytest
import torch

from helpers.data_parallel import Ended, Replica, train
from helpers.data_parallel.schemes import Asynchronous, Stop, Unannounced, protocol
from helpers.data_parallel.schemes.faults import Faulty
from helpers.data_parallel.tasks import lenet
from helpers.data_parallel.tasks import ranks as _comm
from helpers.datasets import mnist
from helpers.models.lenet import LeNet, accuracy_of
from tests.mpi.several import on_ranks


def asynchronous(updates: int, faults: dict, settings: dict):
    """Train on messages of its own: what a fault leaves behind must not reach the next run."""
    scheme = functools.partial(Faulty, faults=faults, patience=3.0)
    given = {"momentum": 0.0, "steps": None, "stop": Stop(updates=updates)} | settings
    return lenet.train(scheme, _comm().Dup(), **given)


def late_worker() -> tuple:
    """A run in which rank 2's first gradient takes seconds, and another run behind it.

    Last comes whether the first run's end came before its time limit.
    """

    class Late(Asynchronous):
        def after_backward(self, replica, step):
            if self.comm.Get_rank() == 2 and step == 0:
                time.sleep(1.5)
            super().after_backward(replica, step)

    until, in_time = protocol._until, []
    protocol._until = lambda *given: in_time.append(until(*given)) or in_time[-1]
    comm = _comm()
    late = functools.partial(Late, patience=0.6)
    settings = {"momentum": 0.0, "batch": 8}
    first = lenet.train(late, comm, steps=None, stop=Stop(seconds=0.3), **settings)
    all_left = in_time[-1]
    return first, lenet.train(Asynchronous, comm, steps=12, **settings), all_left


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
    scheme, replica = Asynchronous(_comm(), patience=0.5), Replica(LeNet(), None, None)
    if scheme.serves:
        return "vanished"
    scheme.begin(replica)
    try:
        scheme.before_backward(replica, 0)
    except Ended as error:
        return str(error)
    return "served"


def without_handshake(answer: str, steps: int):
    """Train by a receive of the given kind; with "none" it forgets to say whose gradient it was."""
    receive = _from_one_source if answer == "right" else lambda comm, layers: None
    made = functools.partial(Unannounced, receive=receive)
    return lenet.train(made, _comm(), steps=steps, momentum=0.0)


def _from_one_source(comm, layers):
    from mpi4py import MPI

    status = MPI.Status()
    comm.Recv(layers[0], MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    for layer in layers[1:]:
        comm.Recv(layer, status.Get_source())
    return status.Get_source()


def in_one_message(steps: int):
    """Whether a gradient in one message trains as well as by layer."""
    whole = functools.partial(Asynchronous, layers=False)
    return lenet.train(whole, _comm(), steps=steps, momentum=0.0)


FAULTY = {
    "die": "rank 2 left: it died on purpose",
    "die mid-push": "rank 2 fell silent while sending: push dropped",
    "nan": "rank 2 sent a gradient that is not finite: dropped",
    "wrong shape": "rank 2 dismissed: layer 0 has 149 elements, expected 150",
}
CASES = {
    "learns": (250, {}, {}),
    "straggler": (80, {}, {"slow": {2: 8.0}, "pace": 5e-3}),
    "all gone": (500, {1: ("die", 3), 2: ("die mid-push", 3)}, {}),
    **{fault: (60, {2: (fault, 5)}, {}) for fault in FAULTY},
}


@pytest.fixture(scope="module")
def histories():
    found = on_ranks(3, *((asynchronous, *case) for case in CASES.values()))
    for told in found:
        assert all(history.report == told[0].report for history in told)
    return {name: told[0] for name, told in zip(CASES, found, strict=True)}


@pytest.fixture(scope="module")
def others():
    calls = (whole_pushes, 60), (without_handshake, "right", 60), (without_handshake, "none", 10)
    return on_ranks(3, *calls, (in_one_message, 20), (late_worker,), (server_that_vanishes,))


@pytest.mark.mpi
def test_workers_learn_and_every_update_has_its_staleness(histories):
    history = histories["learns"]
    assert history.updates == history.gradients == len(history.staleness) == 250
    assert set(history.workers) == {1, 2}
    # With W workers, those served between a worker's two turns are the updates it missed.
    last = {}
    for update, (worker, stale) in enumerate(zip(history.workers, history.staleness, strict=True)):
        if worker in last:
            assert stale == update - last[worker] - 1
        last[worker] = update
    assert np.mean(history.losses[-20:]) < 0.6 * np.mean(history.losses[:20])
    assert accuracy_of(history.weights, mnist.load()) > 0.5  # guessing: 0.1
    assert history.report == ["the server stopped: 250 updates"]
    assert history.batch == 16


@pytest.mark.mpi
def test_layers_of_different_workers_never_mix(others):
    seen = others[0][0]
    assert len(seen) == 60
    assert all(taken == [worker] for worker, taken in seen), seen
    assert {worker for worker, _ in seen} == {1, 2}


@pytest.mark.mpi
def test_a_straggler_pushes_less_and_staler_at_its_own_pace(histories):
    history = histories["straggler"]
    workers, staleness = np.array(history.workers), np.array(history.staleness)
    assert (workers == 2).sum() < (workers == 1).sum()
    assert staleness[workers == 2].mean() > staleness[workers == 1].mean()
    assert history.seconds[-1] >= (workers == 2).sum() * 8 * 5e-3


@pytest.mark.mpi
@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_worker_ends_nobody_else(histories, fault):
    history = histories[fault]
    assert any(FAULTY[fault] in line for line in history.report)
    assert history.updates == 60
    assert history.workers[-10:] == [1] * 10
    assert np.isfinite(history.weights).all()


@pytest.mark.mpi
def test_all_workers_gone_ends_the_server(histories):
    history = histories["all gone"]
    assert 0 < history.updates < 10
    assert history.report[-1] == "the server stopped: no worker left"


@pytest.mark.mpi
def test_a_server_that_says_nothing_ends_the_workers(others):
    assert others[5][1:] == ("the server did not answer within 1 s",) * 2


@pytest.mark.mpi
def test_a_worker_that_comes_too_late_leaves_at_once_and_disturbs_no_other_run(others):
    first, second, _ = others[4][0]
    assert first.ended == "0.3 s"
    assert any("fell silent: given up" in line for line in first.report)
    assert set(first.workers) == {1}
    assert second.report == ["the server stopped: 12 updates"]
    assert set(second.workers) == {1, 2}
    assert all(all_left for _, _, all_left in others[4]), "somebody has waited out a time limit"


@pytest.mark.mpi
def test_a_receive_of_ones_own_serves_without_a_handshake(others):
    history = others[1][0]
    assert history.updates == history.gradients == 60
    assert set(history.workers) == {1, 2}
    last = {}
    for update, (worker, stale) in enumerate(zip(history.workers, history.staleness, strict=True)):
        assert stale == update - last.get(worker, 0)
        last[worker] = update + 1


@pytest.mark.mpi
def test_a_receive_that_names_nobody_and_a_gradient_in_one_message(others):
    for history, updates, said in (
        (others[2][0], 0, "expected the rank of a worker; got None"),
        (others[3][0], 20, "the server stopped: 20 updates"),
    ):
        assert (history.updates, history.report) == (updates, [said])
