import functools

import numpy as np
import pytest
import torch

from helpers import tracing
from helpers.data_parallel import Replica, train
from helpers.data_parallel.compression.compressors import Compressor, Half, Quantised, Sign, TopK
from helpers.data_parallel.schemes import MPIAllreduce
from helpers.data_parallel.schemes.compressed import Compressed, PowerSGD
from helpers.data_parallel.tasks import lenet, ranks
from tests.mpi.several import on_ranks

pytestmark = pytest.mark.mpi


class Dense(Compressor):
    """The values as they are: what travels is exact."""

    name = "float32"

    def nbytes(self, n):
        return 4 * n

    def encode(self, v):
        return v.view(np.uint8)

    def add(self, code, out):
        out += code.view(np.float32)


def _rounded(rank, levels):
    return Quantised(levels, seed=rank)


def _schemes() -> dict:
    made = {}
    for route in ("allgather", "ring"):
        made[f"dense, {route}"] = functools.partial(Compressed, compressor=Dense(), route=route)
        seven = functools.partial(_rounded, levels=7)
        made[f"qsgd, {route}"] = functools.partial(Compressed, compressor=seven, route=route)
    made["half"] = functools.partial(Compressed, compressor=Half())
    made["sign"] = functools.partial(Compressed, compressor=Sign(), feedback=True)
    made["top"] = functools.partial(Compressed, compressor=TopK(0.05), feedback=True)
    made["power"] = functools.partial(PowerSGD, rank=2)
    return made


def weights_and_bytes(steps: int) -> dict:
    """For each scheme: the weights, the bytes of one step as traced, and as its formula says."""
    settings = {"batch": 4, "rate": 0.02, "momentum": 0.0}
    found = {"mpi": (lenet.train(MPIAllreduce, ranks(), steps=steps, **settings).weights,)}
    for name, scheme in _schemes().items():
        totals, history = [], None
        for count in (1, steps):
            with tracing.record(ranks()) as comm:
                made = scheme(comm)
                history = lenet.train(lambda _, made=made: made, comm, steps=count, **settings)
            trace = tracing.gather(comm)
            totals.append(0 if trace is None else sum(trace.bytes_sent().values()))
        says = made.sent(*([] if name == "power" else [len(history.weights)]))
        found[name] = history.weights, (totals[1] - totals[0]) / (steps - 1), says
    return found


def feedback_sums() -> tuple[list, list]:
    """What top-k with feedback has sent in all plus what it still keeps, against all gradients."""
    comm = ranks()
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1, bias=False)
    start = model.weight.detach().flatten().clone()
    slopes = torch.arange(1.0, 9.0) * (1 + comm.rank)
    replica = Replica(model, lambda z, y: z.sum(), torch.optim.SGD(model.parameters(), lr=1.0))
    scheme = Compressed(comm, TopK(0.125), feedback=True)
    start[:] = torch.from_numpy(comm.bcast(start.numpy()))
    train(replica, [(slopes[None], None)] * 6, scheme)
    left = comm.allreduce(scheme.error) / comm.size
    moved = (start - replica.flat.values).numpy()
    return (moved + left).tolist(), (6 * slopes / (1 + comm.rank) * (comm.size + 1) / 2).tolist()


@pytest.fixture(scope="module")
def three():
    return on_ranks(3, (weights_and_bytes, 5), (feedback_sums,))


def test_three_ranks_send_what_the_formulas_say_and_stay_equal(three):
    found = three[0]
    scale = np.abs(found[0]["mpi"][0]).max()
    for rank in found:
        for name, (weights, *_) in rank.items():
            assert np.array_equal(weights, found[0][name][0]), f"{name}: replicas differ"
    for name, (weights, *counted) in found[0].items():
        apart = np.abs(weights - found[0]["mpi"][0]).max() / scale
        exact = name in ("mpi", "dense, allgather", "dense, ring")
        assert apart < (1e-5 if exact else 0.1), name
        if counted:
            traced, says = counted
            assert traced == says, name
            assert exact or apart > 0


def test_nothing_is_lost_with_feedback(three):
    for kept, whole in three[1]:
        assert kept == pytest.approx(whole, rel=1e-5)
