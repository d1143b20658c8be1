"""Ranks with torch that fork, load data, use threads, and draw random numbers of their own."""

import sys

import pytest

from helpers.cluster import Cluster
from tests.cluster.test_cluster import on_ranks
from tests.cluster.ways import PART

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked on Linux"),
]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(2, preload=("torch", "numba"), threads=2) as cluster:
        yield cluster


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=PART)])
def test_multiprocessing_by_fork_and_by_spawn(cluster, method):
    body = (
        "import multiprocessing\n"
        f"with multiprocessing.get_context({method!r}).Pool(2) as pool:\n"
        "    return sum(pool.map(abs, range(-10, 0))), comm.allreduce(1)"
    )
    assert on_ranks(cluster, body, timeout=60) == [(55, 2)] * 2


def test_workers_of_data_loaders_draw_numbers_of_their_own_on_every_rank(cluster):
    body = (
        "import torch\n"
        "from torch.utils.data import DataLoader, IterableDataset\n"
        "class Drawn(IterableDataset):\n"
        "    def __iter__(self): return iter([torch.initial_seed()])\n"
        "return [int(seed) for seed in DataLoader(Drawn(), num_workers=2, batch_size=None)]"
    )
    seeds = [seed for each in on_ranks(cluster, body, timeout=60) for seed in each]
    assert len(set(seeds)) == 4


def test_openmp_threads_of_torch_work_beside_numbas(cluster):
    body = (
        "import numba, numpy, torch, psutil\n"
        "before = psutil.Process().num_threads()\n"
        "a = torch.ones(700, 700)\n"
        "product = float((a @ a).double().sum())\n"
        "total = float(torch.arange(2_000_000.).add(1).sqrt().sum() > 0)\n"
        "@numba.njit(parallel=True)\n"
        "def add(x):\n"
        "    s = 0.0\n"
        "    for i in numba.prange(x.size):\n"
        "        s += x[i]\n"
        "    return s\n"
        "found = float(add(numpy.ones(1000)))\n"
        "more = psutil.Process().num_threads() - before\n"
        "return product, total, found, torch.get_num_threads(), numba.get_num_threads(), more > 0"
    )
    assert on_ranks(cluster, body, timeout=120) == [(700.0**3, 1.0, 1000.0, 2, 2, True)] * 2


def test_no_generator_repeats_itself_between_ranks_or_starts(cluster):
    body = (
        "import random, uuid, numba, numpy, torch\n"
        "@numba.njit\n"
        "def of_numba(): return numpy.random.random()\n"
        "return (random.random(), numpy.random.rand(), numpy.random.default_rng().random(),\n"
        "        float(torch.rand(1, dtype=torch.float64)), of_numba(), str(uuid.uuid4()))"
    )
    drawn = [number for each in on_ranks(cluster, body, timeout=60) for number in each]
    cluster.restart()
    drawn += [number for each in on_ranks(cluster, body, timeout=60) for number in each]
    assert len(drawn) == len(set(drawn)) == 2 * 2 * 6


def test_what_was_preloaded_is_there_at_once_and_after_a_restart_for_the_threads_asked_for(cluster):
    def first():
        import os
        import sys

        there, modules = "torch" in sys.modules, len(sys.modules)
        import torch

        torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
        threads = torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]
        return there, len(sys.modules) - modules, threads  # an optimizer imports torch's compiler

    assert cluster.run(first) == [(True, 0, (2, "2"))] * 2
    cluster.restart()
    assert cluster.run(first) == [(True, 0, (2, "2"))] * 2
