"""What goes wrong on one rank of a training is told on each, and none waits for ever."""

import sys

import numpy as np
import pytest

from helpers.machine import launcher
from helpers.paths import ROOT
from tests.data_parallel import careless
from tests.mpi.runner import run_ranks

pytestmark = pytest.mark.mpi

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


def test_every_rank_is_told():
    for told in run_ranks(3, careless.trained, list(TOLD), timeout=120):
        for case, found in zip(TOLD, told, strict=True):
            assert len(found) == len(TOLD[case]), (case, found)
            assert all(map(str.startswith, found, TOLD[case])), (case, found)


def test_partial_batches_count_by_their_samples():
    """Three ranks with 4, 4, 4 and then 4, 2, 4 samples are one process with 12 and then 10."""
    ((alone, _),) = run_ranks(1, careless.weighed, ["MPIAllreduce"], timeout=120)
    schemes = ["MPIAllreduce", "Ring", "PerTensor", "DDP", "Buckets"]
    for found in run_ranks(3, careless.weighed, schemes, timeout=120):
        for name, one in zip(np.repeat(schemes, 2), found, strict=True):
            assert np.allclose(one, alone, atol=1e-6), (name, one, alone)


def test_an_exception_on_one_rank_ends_those_that_wait_for_it():
    done = launcher.run_ranks(
        3,
        [sys.executable, "-m", "tests.data_parallel.careless"],
        timeout=100,
        env={"PYTHONPATH": str(ROOT)},
        threads=None,
    )
    assert done.code != 0
    assert "OSError: no such picture" in done.output
    for rank in (0, 2):
        said = f"rank {rank}: rank 1 left this training with OSError: no such picture"
        assert said in done.output
