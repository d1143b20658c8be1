"""Synchronous SGD with a server: workers send gradients, the server averages and answers.

Rank 0 waits for the gradient of *every* worker, makes one update, and sends all the same
parameters: the slowest worker and the server's own link set the pace.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from helpers.data_parallel.asynchronous import FlatSGD
from helpers.data_parallel.history import History, batches
from helpers.data_parallel.messages import GRADIENT, PARAMETERS, receive, wait


def train(
    images: np.ndarray,
    labels: np.ndarray,
    comm,
    *,
    steps: int = 100,
    batch: int = 16,
    rate: float = 0.05,
    momentum: float = 0.9,
    seed: int = 0,
    slow: dict[int, float] | None = None,
    patience: float = 20.0,
) -> History:
    """Train LeNet in step on ``comm`` (rank 0 serves); return the same history on all ranks.

    W = ranks − 1 workers with batch B make one step of batch W·B. Raises ValueError for fewer than
    2 ranks, and SilenceError if a rank does not send for ``patience`` seconds.
    """
    import torch

    from helpers.models.lenet import Flat, LeNet, backward

    rank, ranks = comm.Get_rank(), comm.Get_size()
    if ranks < 2:
        raise ValueError(f"a server and a worker need at least 2 ranks; got {ranks}")
    workers = ranks - 1
    model = LeNet(seed=seed)
    flat = Flat(model)
    values, gradients = flat.values.numpy(), flat.gradients.numpy()
    optimizer = FlatSGD(values, rate, momentum)
    history = History("synchronous, server", ranks, batch)
    chosen = batches(len(labels), batch, max(rank - 1, 0), workers, seed)
    computing, synchronizing = [], []
    comm.Bcast(values, root=0)
    comm.Barrier()
    began = time.perf_counter()
    for _ in range(steps):
        if rank == 0:
            gradients[:] = 0
            arriving = np.empty_like(gradients)
            for worker in range(1, ranks):
                receive(comm, arriving, worker, GRADIENT, patience)
                gradients += arriving / workers
            optimizer.step(gradients)
            for worker in range(1, ranks):
                sent = comm.Isend(values, worker, PARAMETERS)
                wait(sent, patience, f"rank {worker} did not take the parameters")
            history.record(time.perf_counter() - began, 0.0)
            continue
        where = next(chosen)
        gradients[:] = 0
        start = time.perf_counter()
        x, y = torch.from_numpy(images[where]), torch.from_numpy(labels[where])
        loss = backward(model, x, y)
        if slow and rank in slow:
            time.sleep((slow[rank] - 1) * (time.perf_counter() - start))
        middle = time.perf_counter()
        wait(comm.Isend(gradients, 0, GRADIENT), patience, "the server did not take the gradient")
        receive(comm, values, 0, PARAMETERS, patience)
        synchronizing.append(time.perf_counter() - middle)
        computing.append(middle - start)
        history.record(time.perf_counter() - began, loss)
    everyone = comm.allgather((history.seconds, history.losses, computing, synchronizing))
    history.seconds = everyone[0][0]
    history.losses = np.mean([losses for _, losses, _, _ in everyone[1:]], axis=0).tolist()
    history.gradients = steps * workers
    history.compute = max(statistics.median(c) for _, _, c, _ in everyone[1:])
    history.synchronize = min(statistics.median(s) for _, _, _, s in everyone[1:])
    history.weights = values.copy()
    return history
