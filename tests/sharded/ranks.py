"""What the tests of shards run on their ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.datasets.characters import batch
from helpers.models.transformer import Config, loss, transformer
from helpers.sharded import runs
from helpers.sharded.fsdp import Sharded
from helpers.sharded.messages import Channel
from helpers.sharded.tensor_parallel import Split, tensor_transformer
from helpers.tracing import gather, record

SMALL = Config(vocabulary=24, context=12, layers=2, heads=6, width=24)
DEEP = Config(vocabulary=24, context=12, layers=4, heads=4, width=16)
TEXT = np.random.default_rng(0).integers(24, size=400)


def begin():
    """Return the communicator, its rank and its size; float64 on one thread."""
    from mpi4py import MPI

    torch.set_num_threads(1)
    torch.manual_seed(0)
    comm = MPI.COMM_WORLD
    return comm, comm.Get_rank(), comm.Get_size()


def tokens(rows: int, seed: int = 3):
    """Return (inputs, targets), the same on every rank."""
    return runs.rows(SMALL, rows, seed)


def messages_sent(trace):
    """Count the point-to-point messages of each rank."""
    return {rank: sum(m.source == rank for m in trace.messages) for rank in trace.ranks}


def alone(drawn, config: Config = SMALL, seed: int = 1):
    """Train one copy with Adam on all rows that are drawn; return losses and parameters."""
    model = transformer(config, seed, torch.float64)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for x, y in drawn:
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses, {name: p.detach() for name, p in model.named_parameters()}


def alone_on_text(steps: int) -> list[float]:
    """Return the losses of one process that trains as :func:`trained`."""
    drawn = (map(torch.from_numpy, batch(TEXT, 8, DEEP.context, 0, k)) for k in range(steps))
    return alone(drawn, DEEP, seed=0)[0]


def zero(rows: int, steps: int, stages, background: bool):
    """Train in shards at each stage; return what each left, and what it sent."""
    comm, rank, size = begin()
    found = {}
    for stage in stages:
        with record(comm) as traced:
            channel = Channel(traced, background)
            model = transformer(SMALL, seed=1, dtype=torch.float64)
            sharded = Sharded(
                model,
                list(model),
                channel,
                stage,
                lambda ps: torch.optim.Adam(ps, lr=1e-2),
                prefetch=background,
            )
            losses = []
            for step in range(steps):
                x, y = (part[rank::size] for part in tokens(rows, seed=step))
                value = loss(model(x), y)
                value.backward()
                sharded.step()
                losses.append(comm.allreduce(value.item()) / size)
        trace = gather(traced)
        whole = sharded.whole()
        found[stage] = {
            "losses": losses,
            "whole": whole,
            "held": sharded.held,
            "peak": sharded.peak,
            "messages": trace and messages_sent(trace),
            "bytes": trace and trace.bytes_sent(),
            "unmatched": trace and len(trace.unmatched_sends),
            "parameters": sum(unit.size for unit in sharded.units),
            "units": len(sharded.units),
        }
        channel.close()
    return found


def refusals():
    """Units that do not make up the model, a step without a backward pass, dropout in parts."""
    comm, _, _ = begin()
    channel, model = Channel(comm), transformer(SMALL)
    with pytest.raises(ValueError, match=r"in none: .*scores"):
        Sharded(model, list(model)[:-1], channel)
    with pytest.raises(ValueError, match=r"in several: .*scores"):
        Sharded(model, [*model, model[-1]], channel)
    sharded = Sharded(model, list(model), channel)
    with pytest.raises(RuntimeError, match="without all gradients"):
        sharded.step()
    x, y = tokens(2)
    loss(model(x), y).backward()
    with pytest.raises(RuntimeError, match="after each backward pass"):
        loss(model(x), y).backward()
    with pytest.raises(ValueError, match="no dropout"):
        tensor_transformer(replace(SMALL, dropout=0.5), Split(comm))
    channel.close()


def trained(layout, micro, steps, **options):
    """Train the transformer on a mesh, as the notebook does; return the losses."""
    options = {"batch": 8, "rate": 1e-2, "double": True} | options
    return runs.train(DEEP, layout, TEXT, steps, micro=micro, **options)


def several(calls):
    """Train one after another, in one start of the ranks."""
    return [trained(*args, **options) for args, options in calls]
