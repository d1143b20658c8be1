"""Three ranks with batches as readers bring them: what goes wrong on one is told on each."""

import itertools
import math
import sys

import numpy as np
import pytest
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from helpers.data_parallel import Replica, train
from helpers.data_parallel.schemes import Asynchronous, MPIAllreduce, Server
from helpers.data_parallel.tasks import ranks
from tests.data_parallel.test_loop import batches_that_end, of_a_line
from tests.mpi.runner import RankError, run_ranks
from tests.mpi.several import on_ranks

pytestmark = pytest.mark.mpi


def by_a_loader(epochs: int) -> dict[str, object]:
    """Someone else's model, optimizer and DataLoader, by three schemes."""
    comm = ranks()
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
        batches = loader = DataLoader(data, 4, sampler=sampler)
        if not scheme.synchronous:
            batches = itertools.chain(*itertools.repeat(loader, epochs))
        history = train(Replica(model, mse_loss, optimizer), batches, scheme)
        found[scheme.name] = history, model[0].bias.tolist()
    return found


STEPS = "ValueError: train expects steps=None or a whole number from 0, the same on every rank; got"
TOLD = {
    "unequal": ["ValueError: steps=7 expects as many batches on every worker; rank 0 has 5: "],
    "few": ["ValueError: steps=50 expects as many batches on every worker; rank 0 has 5: "],
    "few, of no length": ["ValueError: this rank's batches ended after 5 of 50 steps"],
    "negative": [f"{STEPS} -3, -3, -3"],
    "half a step": [f"{STEPS} 2.5, 2.5, 2.5"],
    "another number": [f"{STEPS} 3, 4, 5"],
    "nan": ["3 updates", "update 2 is the first with a loss that is not finite (rank 1: nan)"],
    "partial": ["2 updates", "update 2 averaged batches of unlike length as if they were alike "
                "(4 on rank 0, 2 on rank 1, 4 on rank 2 samples): "],
    "a stream": ["2 updates"],
}  # fmt: skip


def careless(cases: list[str]) -> list[list[str]]:
    """Train a line on every rank with one thing wrong: the error, or how it ended."""
    rank, one = ranks().Get_rank(), torch.ones(4, 1)

    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(torch.ones(1), torch.ones(1))] * 8)

    def loader(samples: int) -> DataLoader:
        return DataLoader([(torch.ones(1), torch.ones(1))] * samples, batch_size=4)

    def failing():
        yield one, one
        raise OSError("no such picture")

    def run(case: str) -> list[str]:
        batches, steps = {
            "unequal": (loader(20 + 8 * rank), 7),
            "few": (loader(20), 50),
            "few, of no length": ((batch for batch in loader(20)), 50),
            "negative": (loader(20), -3),
            "half a step": (loader(20), 2.5),
            "another number": (loader(20), 3 + rank),
            "fails": (failing() if rank == 1 else loader(20), 5),
            "nan": ([(one * (math.nan if k and rank == 1 else 1), one) for k in range(3)], 3),
            "partial": ((batch for batch in loader(6 if rank == 1 else 8)), 2),
            "a stream": (DataLoader(Stream(), batch_size=4), 2),
        }[case]
        try:
            history = of_a_line(MPIAllreduce(ranks()), batches, steps=steps)
        except (ValueError, RuntimeError, OSError) as error:
            return [f"{type(error).__name__}: {error}"]
        return [history.ended, *history.report]

    return [run(case) for case in cases]


@pytest.fixture(scope="module")
def three():
    calls = (careless, list(TOLD)), (by_a_loader, 2), (batches_that_end, "Server", ())
    return on_ranks(3, *calls)


def test_every_rank_is_told(three):
    for said in three[0]:
        for case, found in zip(TOLD, said, strict=True):
            assert len(found) == len(TOLD[case]), (case, found)
            assert all(map(str.startswith, found, TOLD[case])), (case, found)


def test_someone_elses_model_optimizer_and_loader(three):
    """48 samples in batches of 4: an epoch is 4 steps of 3 workers, 6 of 2."""
    for name, updates, gradients in (
        ("synchronous, mpi", 4, 12),
        ("synchronous, server", 6, 12),
        ("asynchronous", 24, 24),  # two epochs of 6 batches from each of two workers
    ):
        histories, biases = zip(*(found[name] for found in three[1]), strict=True)
        for history in histories:
            assert (history.updates, history.gradients, history.batch) == (updates, gradients, 4)
            assert np.array_equal(history.weights, histories[0].weights)
        assert biases == (biases[0],) * 3  # frozen, and yet rank 0's everywhere
    assert three[1][0]["asynchronous"][0].report == ["the server stopped: no worker left"]


def test_a_server_that_has_the_fewest_batches_ends_nobody(three):
    assert three[2] == (("15 updates", 15),) * 3


def without_a_cluster() -> list:
    """Rank 1 raises, and goes on without the others, which wait inside MPI; nobody else looks."""
    sys.modules.pop("helpers.cluster.rank.rankside", None)
    return careless(["fails"])


def test_an_exception_on_one_rank_ends_those_that_wait_for_it():
    with pytest.raises(RankError, match=r"rank [02] of 3 left no result") as caught:
        run_ranks(3, without_a_cluster, timeout=60)
    assert ": rank 1 left this training with OSError: no such picture" in str(caught.value)
