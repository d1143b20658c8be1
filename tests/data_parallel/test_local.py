"""Local SGD, DiLoCo and gossip against the same arithmetic written down in NumPy."""

import functools
from collections import Counter

import numpy as np
import pytest
import torch

from helpers.data_parallel import Replica, Scheme, train
from helpers.data_parallel.schemes.gossip import Gossip, mixing
from helpers.data_parallel.schemes.local import (
    NEVER,
    AtTheMean,
    DiLoCo,
    LocalSGD,
    PostLocalSGD,
    SometimesAveraged,
)
from helpers.data_parallel.tasks import lenet
from helpers.data_parallel.tasks import ranks as _comm
from helpers.data_parallel.theory import drift, time_model
from helpers.tracing import gather, record
from tests.mpi.runner import run_ranks
from tests.mpi.several import on_ranks

pytestmark = pytest.mark.mpi
R, STEPS, RATE = 3, 11, 0.01


def serial(name: str) -> np.ndarray:
    """All replicas in one process: (STEPS + 1, R, 3), momentum 0.5."""
    goals = np.array([1.0, -2.0, 3.0]) * (np.arange(1, R + 1)[:, None] ** 2)
    steep = np.arange(1, R + 1)[:, None]
    at, v = np.full((R, 3), 5.0), np.zeros((R, 3))
    anchor, outer = at[0].copy(), np.zeros(3)
    path, W = [at.copy()], mixing(R)
    met = {
        "H = 1": range(1, 12),
        "H = 3": (3, 6, 9),
        "at the mean": (3, 6, 9),
        "schedule": (1, 2, 3, 7, 11),
        "post-local": (1, 2, 3, 7, 11),
        "DiLoCo": (3, 6, 9),
        "DiLoCo, plain": (3, 6, 9),
        "sometimes": (5, 10),
    }.get(name, ())
    for step in range(STEPS):
        g = steep * ((at.mean(0) if name == "at the mean" else at) - goals)
        if name == "sometimes" and step % 2 == 0:
            g[:] = g.mean(0)
        v = 0.5 * v + g
        at = at - RATE * v
        if name == "gossip":
            at = W @ at
        if step + 1 in met:
            at[:] = at.mean(0)
            if name == "DiLoCo":
                moved = anchor - at[0]
                outer = 0.9 * outer + moved
                anchor = anchor - 0.7 * (moved + 0.9 * outer)
                at[:] = anchor
        path.append(at.copy())
    return np.array(path)


def _schemes() -> dict:
    def growing(step):
        return 1 if step < 3 else 4

    made = functools.partial
    return {
        "H = 1": made(LocalSGD, period=1),
        "H = 3": made(LocalSGD, period=3),
        "at the mean": made(AtTheMean, period=3),
        "never": made(LocalSGD, period=NEVER),
        "schedule": made(LocalSGD, period=growing),
        "post-local": made(PostLocalSGD, period=4, switch=3),
        "sometimes": made(SometimesAveraged, gradients=2, parameters=5),
        "DiLoCo": made(DiLoCo, period=3),
        "DiLoCo, plain": made(DiLoCo, period=3, rate=1.0, momentum=0.0),
        "gossip": Gossip,
    }


def quadratic(steps: int, rate: float) -> dict[str, tuple]:
    """Each rank pulls towards a point of its own, without noise: where each scheme leads."""
    comm = _comm()
    rank, found = comm.Get_rank(), {}
    goal = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64) * (rank + 1) ** 2

    class Point(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.at = torch.nn.Parameter(torch.ones(3, dtype=torch.float64) * (5 + rank))

        def forward(self, x):
            return (rank + 1) * (self.at - x).square().sum() / 2

    for name, scheme in _schemes().items():
        model = Point()
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.5)
        made, path = scheme(comm), drift.Path()
        endless = iter(lambda: (goal, goal), None)
        replica = Replica(model, lambda z, _: z, optimizer)
        history = train(replica, endless, made, steps=steps, watch=[path])
        averages = getattr(made, "averages", None)
        found[name] = np.array(path.after), history.weights, averages
    return found


def same_batches(steps: int) -> dict[str, np.ndarray]:
    """LeNet, every rank with the same batches: the mean of equal numbers is exact on 2, 4 ranks."""
    settings = {"steps": steps, "batch": 4, "rate": 0.02, "divide": False}
    found = {
        name: lenet.train(scheme, _comm(), **settings).weights
        for name, scheme in _schemes().items()
        if name in ("H = 1", "H = 3", "schedule", "post-local", "sometimes")
    }
    from mpi4py import MPI

    found["one process"] = lenet.train(Scheme, MPI.COMM_SELF, **settings).weights
    return found


def counted(steps: int) -> tuple:
    """Bytes and messages of each rank by trace, and how often there was an average."""
    comm, found = _comm(), {}
    x = torch.ones(2, 7)
    for name, scheme in _schemes().items():
        model = torch.nn.Linear(7, 12)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        replica = Replica(model, torch.nn.functional.mse_loss, optimizer)
        with record(comm) as traced:
            made = scheme(traced)
            train(replica, iter(lambda: (x, torch.ones(2, 12)), None), made, steps=steps)
        trace = gather(traced)
        sources = [message.source for message in trace.messages] if trace else []
        told = (trace.bytes_sent(), Counter(sources)) if trace else None
        found[name] = told, getattr(made, "averages", None)
    return replica.flat.values.numel(), found


@pytest.fixture(scope="module")
def of_three():
    return on_ranks(R, (quadratic, STEPS, RATE), (counted, 10))


@pytest.fixture(scope="module")
def led(of_three):
    return of_three[0]


@pytest.fixture(scope="module")
def of_two():
    return run_ranks(2, same_batches, 12)


def test_every_scheme_leads_where_the_formula_says(led):
    for name in led[0]:
        found = np.stack([each[name][0] for each in led], axis=1)
        assert np.allclose(found, serial(name), rtol=1e-12, atol=1e-12), name


def test_at_the_end_the_replicas_of_local_sgd_are_one(led):
    for name, (path, weights, averages) in led[0].items():
        others = [each[name][1] for each in led]
        equal = all(np.array_equal(weights, other) for other in others)
        assert equal == (averages is not None), name
        if name not in ("DiLoCo", "gossip"):
            mean = np.mean([each[name][0][-1] for each in led], axis=0)
            assert np.allclose(weights, mean), name
        assert len(path) == STEPS + 1


def test_with_the_same_batches_everywhere_two_replicas_have_the_bits_of_one_process(of_two):
    for found in of_two:
        for name, weights in found.items():
            assert np.array_equal(weights, found["one process"]), name


def test_the_bytes_of_a_trace_are_those_of_the_formula(of_three):
    steps = 10
    parameters, found = of_three[1][0]
    assert parameters == 96
    for name, ((sent, messages), averages) in found.items():
        if averages is None:  # gossip: two messages of everything, each step, to two neighbours
            assert set(sent.values()) == {2 * steps * 4 * parameters}
            assert set(messages.values()) == {2 * steps}
        else:
            averages += steps if name == "at the mean" else 0  # one more before each gradient
            assert set(sent.values()) == {time_model.bytes_sent(parameters, R, averages)}, name
            assert set(messages.values()) == {averages * 2 * (R - 1)}, name
    averages = {name: count for name, (_, count) in found.items()}
    assert averages["H = 1"] == 10
    assert averages["H = 3"] == 4
    assert averages["never"] == 1
    assert averages["sometimes"] == 5 + 2
