"""The same model split by PyTorch's own features and by ours, in one run on our backend."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from helpers.models.transformer import Config, loss, transformer
from helpers.sharded import checkpoint
from helpers.sharded.background import Channel
from helpers.sharded.fsdp import Sharded
from helpers.sharded.hybrid import Hybrid
from helpers.sharded.mesh import Layout
from helpers.sharded.runs import rows, world
from helpers.sharded.slices import cut
from helpers.sharded.tensor_parallel import Split, tensor_transformer
from helpers.sharded.vocabulary import vocabulary_loss
from helpers.waiting import doze

STEPS = 4  # of which the first warms up


def compare(config: Config, batch: int) -> list[tuple[str, float, float, float]]:
    """Train by each feature and by ours; every rank must call it.

    The ranks divide heads, vocabulary and the ``batch`` rows of a step. For ``fully_shard``, tensor
    parallelism by DTensor, and the distributed checkpoint: a name, the largest difference between
    what theirs and ours leave, and milliseconds of ours and of theirs: a step's median, or to save
    and load once.
    """
    import torch.distributed as dist

    from helpers.torch_mpi import BACKEND

    comm = world()
    began = not dist.is_initialized()
    if began:
        dist.init_process_group(BACKEND, init_method="mpi://")
    try:
        return [fsdp(config, batch, comm), tensor(config, batch, comm), saved(config, comm)]
    finally:
        if began:
            dist.barrier()
            dist.destroy_process_group()


def fsdp(config: Config, batch: int, comm: Any) -> tuple[str, float, float, float]:
    """Compare ``fully_shard`` with :class:`helpers.sharded.fsdp.Sharded` at stage 3."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    n, rank = comm.Get_size(), comm.Get_rank()
    ours, theirs = (transformer(config, dtype=torch.float64) for _ in range(2))
    channel = Channel(comm)
    sharded = Sharded(ours, list(ours), channel, 3, _sgd)
    mesh = init_device_mesh("cpu", (n,))
    for piece in theirs:
        fully_shard(piece, mesh=mesh)
    fully_shard(theirs, mesh=mesh)
    optimizer = _sgd(list(theirs.parameters()))

    def our_step(step: int) -> None:
        x, y = (part[rank::n] for part in rows(config, batch, step))
        loss(ours(x), y).backward()
        sharded.step()

    def their_step(step: int) -> None:
        x, y = (part[rank::n] for part in rows(config, batch, step))
        optimizer.zero_grad()
        loss(theirs(x), y).backward()
        optimizer.step()

    took = _in_turn(comm, our_step, their_step)
    mine = sharded.whole()
    off = 0.0
    for name, parameter in theirs.named_parameters():
        whole: Any = parameter
        off = max(off, _apart(whole.full_tensor().flatten(), mine[name]))
    channel.close()
    return "fully_shard", off, *took


def tensor(config: Config, batch: int, comm: Any) -> tuple[str, float, float, float]:
    """Compare ``parallelize_module`` with our columns and rows.

    Theirs cuts the blocks; embedding and head stay whole, as does the loss.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    n, rank = comm.Get_size(), comm.Get_rank()
    ours = tensor_transformer(config, Split(comm), dtype=torch.float64)
    theirs = transformer(config, dtype=torch.float64)
    mesh = init_device_mesh("cpu", (n,))
    for index in range(1, config.layers + 1):
        block: Any = theirs[index]
        plan: dict[str, Any] = {
            f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")
        }
        plan |= {"attention.out": RowwiseParallel()}
        plan |= {"perceptron.up": ColwiseParallel(), "perceptron.down": RowwiseParallel()}
        parallelize_module(block, mesh, plan)
        block.attention.heads = config.heads // n
    our_optimizer, their_optimizer = _sgd(list(ours.parameters())), _sgd(list(theirs.parameters()))

    def our_step(step: int) -> None:
        x, y = rows(config, batch, step)
        our_optimizer.zero_grad()
        vocabulary_loss(ours(x), y, comm).backward()
        our_optimizer.step()

    def their_step(step: int) -> None:
        x, y = rows(config, batch, step)
        their_optimizer.zero_grad()
        loss(theirs(x), y).backward()
        their_optimizer.step()

    took = _in_turn(comm, our_step, their_step)
    off = 0.0
    for name, parameter in theirs.named_parameters():
        whole: Any = parameter.data
        if hasattr(whole, "full_tensor"):
            whole = whole.full_tensor()
        off = max(off, _apart(cut(name, whole, n, rank), ours.get_parameter(name).detach()))
    return "DTensor, columns and rows", off, *took


def saved(config: Config, comm: Any) -> tuple[str, float, float, float]:
    """Compare ``torch.distributed.checkpoint`` of shards with ours: save, then load."""
    import shutil

    import torch.distributed.checkpoint as peer
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    n = comm.Get_size()
    folder = Path(comm.bcast(tempfile.mkdtemp(prefix="sharded-") if comm.Get_rank() == 0 else None))
    mesh = init_device_mesh("cpu", (n,))
    models = []
    for seed in (0, 1):
        model = transformer(config, seed)
        for piece in model:
            fully_shard(piece, mesh=mesh)
        models.append(model)
    hybrids = [Hybrid(comm, config, Layout(data=n, shard=1), seed=seed) for seed in (0, 1)]

    def ours(turn: int) -> None:
        checkpoint.save(folder / f"ours{turn}", hybrids[0])
        checkpoint.load(folder / f"ours{turn}", hybrids[1])

    def theirs(turn: int) -> None:
        there = str(folder / f"theirs{turn}")
        peer.save({"model": models[0].state_dict()}, checkpoint_id=there)
        peer.load({"model": models[1].state_dict()}, checkpoint_id=there)

    took = _in_turn(comm, ours, theirs)
    off = 0.0
    for (_, parameter), mine in zip(
        models[1].named_parameters(), hybrids[1].model.parameters(), strict=True
    ):
        whole: Any = parameter
        off = max(off, _apart(whole.full_tensor(), mine.detach()))
    for hybrid in hybrids:
        hybrid.close()
    comm.Barrier()
    if comm.Get_rank() == 0:
        shutil.rmtree(folder)
    return "distributed checkpoint", off, *took


def _sgd(parameters: list) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def _apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).detach().abs().max())


def _in_turn(
    comm: Any, ours: Callable[[int], None], theirs: Callable[[int], None], steps: int = STEPS
) -> tuple[float, float]:
    """Take steps of both in turn; return the medians in ms, without the first."""
    took: tuple[list[float], list[float]] = ([], [])
    for step in range(steps):
        for side, work in zip(took, (ours, theirs), strict=True):
            doze(comm)
            began = time.perf_counter()
            work(step)
            doze(comm)
            side.append(1e3 * (time.perf_counter() - began))
    return float(np.median(took[0][1:])), float(np.median(took[1][1:]))
