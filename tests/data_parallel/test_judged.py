import numpy as np
import pytest

from tests.mpi.runner import run_ranks


def judged() -> tuple[float, float]:
    """Of weights that are rank 0's but on rank 2: the accuracy as told, and as counted here."""
    import torch
    from mpi4py import MPI

    from helpers.data_parallel.runs import digits, judged_once
    from helpers.models.lenet import LeNet, accuracy_of

    comm = MPI.COMM_WORLD
    weights = torch.cat([p.detach().flatten() for p in LeNet(seed=1).parameters()]).numpy()
    if comm.Get_rank() == 2:
        weights[-10:] = 1e3 * np.arange(10)  # it takes every digit for a nine
    return judged_once(weights, comm), accuracy_of(weights, digits())


@pytest.mark.mpi
def test_each_rank_is_told_the_accuracy_of_its_own_weights():
    found = run_ranks(3, judged)
    assert all(told == counted for told, counted in found), found
    assert found[0] == found[1] != found[2]
