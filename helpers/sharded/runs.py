"""What notebook 13 asks of its ranks: each function runs on every rank of a cluster.

cluster.run(runs.stages, Config(...), timeout=60)
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from helpers.collectives.parts import first
from helpers.models.transformer import Config, loss, transformer
from helpers.sharded import zero
from helpers.sharded.fsdp import Sharded
from helpers.sharded.hybrid import Hybrid, load_checkpoint, save_checkpoint
from helpers.sharded.mesh import Layout
from helpers.sharded.messages import Channel, Span
from helpers.waiting import doze


def rows(config: Config, batch: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw inputs and targets (batch, context), the same on every rank."""
    made = torch.Generator().manual_seed(seed)
    x = torch.randint(config.vocabulary, (batch, config.context + 1), generator=made)
    return x[:, :-1], x[:, 1:]


def world() -> Any:
    """Return the communicator of all ranks; one thread for each."""
    from mpi4py import MPI

    torch.set_num_threads(1)
    return MPI.COMM_WORLD


def stages(config: Config, batch: int, steps: int = 2) -> list[dict]:
    """Train at each of ZeRO's stages; tell what this rank held, and what was sent.

    ``batch`` counts rows of all ranks in a step. For stages 0 to 3: "held" bytes at the step,
    "peak" bytes of parameters and gradients, "loss" of the last step, "bytes" and "messages" of one
    step (rank 0 alone).
    """
    from helpers.tracing import gather, record

    comm, found = world(), []
    n, rank = comm.Get_size(), comm.Get_rank()
    for stage in zero.STAGES:
        model = transformer(config)
        with record(comm) as traced:
            channel = Channel(traced)
            sharded = Sharded(model, list(model), channel, stage)
            for step in range(steps):
                x, y = (part[rank::n] for part in rows(config, batch, step))
                value = loss(model(x), y)
                value.backward()
                sharded.step()
        trace = gather(traced)
        messages = [m for m in trace.messages if m.source == 0] if trace else []
        channel.close()
        found.append(
            {
                "held": sharded.held,
                "peak": sharded.peak,
                "loss": comm.allreduce(value.item()) / n,
                "bytes": trace.bytes_sent()[0] / steps if trace else 0.0,
                "messages": len(messages) / steps,
                "parameters": sum(unit.size for unit in sharded.units),
                "units": len(sharded.units),
            }
        )
    return found


def prefetched(
    config: Config, batch: int, prefetch: bool, milliseconds: float = 0.0
) -> tuple[float, list[Span]]:
    """Train two steps at stage 3; return the second's seconds and what this rank did in it.

    With ``prefetch`` the next unit travels while this one computes, in ``milliseconds`` at least
    for each unit's pass. Spans count from the step's beginning.
    """
    comm = world()
    n, rank = comm.Get_size(), comm.Get_rank()
    model = transformer(config)
    channel = Channel(comm, background=True)
    sharded = Sharded(model, list(model), channel, 3, prefetch=prefetch, pace=milliseconds / 1e3)
    for step in range(2):
        channel.spans.clear()
        doze(comm)
        began = time.perf_counter()
        x, y = (part[rank::n] for part in rows(config, batch, step))
        loss(model(x), y).backward()
        sharded.step()
        took = time.perf_counter() - began
    spans = [s._replace(begin=s.begin - began, end=s.end - began) for s in channel.spans]
    channel.close()
    return took, sorted(spans, key=lambda span: span.begin)


def train(
    config: Config,
    layout: Layout,
    tokens: np.ndarray,
    steps: int,
    batch: int,
    micro: int = 1,
    rate: float = 1e-3,
    load: str | Path | None = None,
    save: str | Path | None = None,
    begin: int = 0,
    double: bool = False,
) -> list[float]:
    """Train the transformer on a text, by Adam; every rank calls.

    Parameters
    ----------
    layout
        Of the first ranks; the others have nothing to do.
    tokens : (n,) numpy.ndarray
    batch, micro
        Rows of an update, and micro-batches of each replica.
    load, save
        Folders of checkpoints.
    begin
        The number of the first batch.
    double
        Whether in float64.

    Returns
    -------
    list of float
        Losses in nats for each token; none on ranks that take no part.
    """
    from helpers.datasets.characters import batch as draw

    world()
    losses: list[float] = []
    with first(layout.ranks) as comm:
        if comm is None:
            return losses
        hybrid = Hybrid(
            comm,
            config,
            layout,
            micro,
            lambda parameters: torch.optim.Adam(parameters, lr=rate),
            dtype=torch.float64 if double else torch.float32,
        )
        if load is not None:
            load_checkpoint(load, hybrid)
        for step in range(begin, begin + steps):
            x, y = map(torch.from_numpy, draw(tokens, batch, config.context, 0, step))
            losses.append(hybrid.step(x, y))
        if save is not None:
            save_checkpoint(save, hybrid)
        hybrid.close()
    return losses


def alone(config: Config, tokens: np.ndarray, steps: int, batch: int) -> list[float]:
    """Train as :func:`train` does in float64, in this one process; return the losses."""
    from helpers.datasets.characters import batch as draw

    model = transformer(config, dtype=torch.float64)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-3), []
    for step in range(steps):
        x, y = map(torch.from_numpy, draw(tokens, batch, config.context, 0, step))
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def timed(
    config: Config, layout: Layout, batch: int, micro: int, speed: float, steps: int = 3
) -> tuple[float, int, int]:
    """Time steps of a layout of all ranks, each of a stated speed in operations a second.

    Return the median seconds of ``steps`` (one more warms up), the bytes of parameters, gradient
    and optimizer that this rank holds, and how many blocks had more arithmetic than their pace.
    """
    comm = world()
    hybrid = Hybrid(comm, config, layout, micro, speed=speed)
    took = []
    for step in range(steps + 1):
        x, y = rows(config, batch, step)
        doze(comm)
        began = time.perf_counter()
        hybrid.step(x, y)
        doze(comm)
        took.append(time.perf_counter() - began)
    held = hybrid.unit.resident()
    state = hybrid.optimizer.state[hybrid.unit.parameter].values()
    total = sum(held.values()) + sum(t.numel() * t.element_size() for t in state if t.dim())
    late = hybrid.device.late
    hybrid.close()
    return float(np.median(took[1:])), total, late
