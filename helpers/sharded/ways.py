"""Each way to split a model, run on the ranks of a cluster: messages counted, waiting timed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from helpers.models.transformer import Config, loss, parameter_count, transformer
from helpers.sharded import counts, zero
from helpers.sharded.device import Device, Metered
from helpers.sharded.experts import Experts
from helpers.sharded.fsdp import Sharded
from helpers.sharded.messages import Channel, shift
from helpers.sharded.ring_attention import ring_attention
from helpers.sharded.runs import rows, world
from helpers.sharded.tensor_parallel import Split, tensor_transformer, vocabulary_loss
from helpers.waiting import doze


def splits(config: Config, batch: int) -> dict[str, dict]:
    """Take a forward and a backward pass in each way to split; count and time its messages.

    "messages" and "bytes" are as a trace of rank 0 counted them (0 elsewhere), "formula" has both
    by :mod:`helpers.sharded.counts`, and "waited" the seconds in messages, without a trace.
    """
    from helpers.tracing import gather, record

    comm, found = world(), {}
    for name, (work, formula) in _ways(config, batch, comm.Get_size()).items():
        device = Device()
        work(Metered(comm, device))
        doze(comm)
        before = device.waited
        work(Metered(comm, device))
        with record(comm) as traced:
            work(traced)
        trace = gather(traced)
        found[name] = {
            "messages": len([m for m in trace.messages if m.source == 0]) if trace else 0,
            "bytes": trace.bytes_sent()[0] if trace else 0,
            "formula": formula,
            "waited": device.waited - before,
        }
    return found


def _ways(config: Config, batch: int, n: int) -> dict:
    T, C = config.context, config.width

    def replicas(stage: int) -> Any:
        def work(comm: Any) -> None:
            model = transformer(config)
            channel = Channel(comm)
            channel.comm = comm
            sharded = Sharded(model, list(model), channel, stage)
            mine = slice(comm.Get_rank(), None, n)
            x, y = (part[mine] for part in rows(config, batch, 0))
            loss(model(x), y).backward()
            sharded.step()

        return work

    def tensor(sequence: bool) -> Any:
        def work(comm: Any) -> None:
            x, y = rows(config, batch, 0)
            model = tensor_transformer(config, Split(comm, sequence))
            vocabulary_loss(model(x), y, comm).backward()

        return work

    def context(comm: Any) -> None:
        shape = (batch, config.heads, T // n, C // config.heads)
        q, k, v = (torch.randn(shape).requires_grad_() for _ in range(3))
        for _ in range(config.layers):
            ring_attention(q, k, v, comm).sum().backward()

    def experts(comm: Any) -> None:
        layer = Experts(C, 4 * C, n, 1, comm, factor=float(n))
        x = torch.randn(batch * T // n, C).requires_grad_()
        for _ in range(config.layers):
            layer(x).sum().backward()

    count = parameter_count(config)
    ring = counts.ring_attention(batch * T // n * C, n).times(config.layers)
    all_to_all = counts.experts(batch * T // n, C, n, 1, n).times(config.layers)
    return {
        **{
            f"ZeRO {stage}": (
                replicas(stage),
                counts.Sent(zero.messages(stage, n, config.pieces), zero.sent(stage, n, count)),
            )
            for stage in (1, 3)
        },
        "tensor": (tensor(False), counts.tensor(config, n, batch)),
        "tensor, sequence": (tensor(True), counts.tensor(config, n, batch, True)),
        "context (attention)": (context, ring),
        "experts (top-1)": (experts, all_to_all),
    }


def link(size: int = 1 << 18, turns: int = 8) -> tuple[float, float]:
    """Measure what a message in a ring of all ranks costs: α in s, and β in s for each byte.

    Every rank sends and receives at once; ``size`` is the bytes of the longer of two messages.
    """
    comm, found = world(), []
    for count in (8, size):
        x, took = torch.zeros(count // 4), []
        for _ in range(turns + 1):
            doze(comm)
            comm.Barrier()
            began = time.perf_counter()
            for _ in range(4):
                (x,) = shift([x], comm)
            took.append((time.perf_counter() - began) / 4)
        found.append(comm.allreduce(float(np.median(took[1:]))) / comm.Get_size())
    return found[0], max(0.0, found[1] - found[0]) / size
