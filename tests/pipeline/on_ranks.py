"""What ranks do in the tests: run schedules and compare with one process."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional

from helpers.models.transformer import Config, loss, transformer
from helpers.pipeline import families, runner, runs
from helpers.pipeline.model import kept
from helpers.pipeline.runner import Pipeline
from helpers.pipeline.runs import batches, modules_of

CONFIG = Config(vocabulary=11, context=5, layers=14, heads=2, width=8)  # 16 pieces
MICRO = 8


def whole(micro=MICRO):
    model = transformer(CONFIG, 0, torch.float64)
    inputs, targets = batches(CONFIG, micro)
    losses = [loss(model(x), y) for x, y in zip(inputs, targets, strict=True)]
    (sum(losses) / micro).backward()
    return model, [value.item() for value in losses]


def equal_to_one_process():
    """Every schedule, with and without recomputation: losses and gradients of one process."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    wanted = {m: whole(m) for m in (2 * size, 3)}
    close = functools.partial(torch.testing.assert_close, rtol=0, atol=1e-12)
    for name, make in families.FAMILIES.items():
        if name == "PipeDream":
            continue
        for micro, recompute in ((2 * size, False), (3, True)):
            if name == "interleaved" and (micro % size or 2 * size > CONFIG.pieces):
                continue
            model, losses = wanted[micro]
            schedule = make(size, micro)
            modules, parts = modules_of(schedule, rank, CONFIG, torch.float64)
            pipeline = Pipeline(
                comm, schedule, modules, loss, recompute=recompute, measure=not recompute
            )
            inputs, targets = batches(CONFIG, micro)
            for _ in range(2):  # the second step adds
                result = pipeline.step(
                    inputs if rank == 0 else None, targets if rank == size - 1 else None
                )
            assert all(stage.kept == 0 for stage in pipeline.stages)
            if not recompute:
                assert result.bytes > 0
                assert pipeline.meter.now == 0
            if rank == size - 1:
                close(result.losses, losses)
            for module, part in zip(modules, parts, strict=True):
                theirs = model[part.start : part.stop].parameters()
                for p, q in zip(module.parameters(), theirs, strict=True):
                    close(p.grad, 2 * q.grad)


def memory():
    """Bytes kept are the formula's micro-batches, times what one keeps; less when recomputed."""
    from mpi4py import MPI

    size, rank = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank
    for name in ("GPipe", "1F1B", "zero-bubble"):
        schedule, most = families.FAMILIES[name](size, MICRO), kept(name, size, MICRO, rank)
        many, one = runs.bytes_kept(schedule, recompute=False)
        less, _ = runs.bytes_kept(schedule, recompute=True)
        if name == "zero-bubble":  # what is put off is kept in any case
            assert less <= many <= most * one
        else:
            assert many == most * one, (name, rank, many, most, one)
            assert less < many or most == 1


def refused():
    """What a pipeline does not take; nobody waits for ever for a rank that is not there."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    schedule = families.gpipe(comm.size, 2)
    module = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="GPipe is for 3 ranks; there are 2"):
        Pipeline(comm, families.gpipe(3, 2), [module], loss)
    with pytest.raises(ValueError, match="GPipe has 1 chunks on each rank; got 2"):
        Pipeline(comm, schedule, [module, module], loss)
    with pytest.raises(ValueError, match="PipeDream updates: expected rate > 0"):
        Pipeline(comm, families.pipedream(2, 2), [module], loss)
    runner.PATIENCE = 0.3
    pipeline = Pipeline(comm, schedule, [module], functional.mse_loss)
    x = [torch.ones(1, 2)] * 2
    with pytest.raises(ValueError, match=f"rank {comm.rank} has stage {comm.rank} and needs 2"):
        pipeline.step(x[: 1 + comm.rank], x[: 2 - comm.rank])
    pipeline.step(x, x)
    if comm.rank == 1:
        with pytest.raises(TimeoutError, match=r"rank 1 waited 0.3 s in vain at F0: nothing came"):
            pipeline.step(x, x)
