"""What the test of the noise scale runs on its ranks."""

from __future__ import annotations

import numpy as np


def measured(steps: int) -> tuple:
    """The noise of a training, and how far its weights are from one without measuring."""
    import torch
    from mpi4py import MPI

    from helpers.data_parallel import runs
    from helpers.data_parallel.large_batch.noise import NoiseScale
    from helpers.data_parallel.schemes import MPIAllreduce

    torch.set_num_threads(1)
    kept = []

    def made(comm):
        kept.append(NoiseScale(comm))
        return kept[0]

    settings = {"steps": steps, "batch": 16, "rate": 0.02}
    weights = runs.train(made, MPI.COMM_WORLD, **settings).weights
    plain = runs.train(MPIAllreduce, MPI.COMM_WORLD, **settings).weights
    scheme = kept[0]
    return scheme.signals, scheme.noises, scheme.scale(), float(np.abs(weights - plain).max())
