"""Data × pipeline × tensor at once: the transformer trained on one mesh.

Each rank has its tensor part of its stage's layers. A step cuts this replica's rows into
micro-batches, sends all of them forwards through the stages, then all backwards (GPipe: Huang et
al., 2019), averages gradients over the replicas, and moves the parameters. With ZeRO 1 each replica
moves its shard and hands it out.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from helpers.collectives.parts import split
from helpers.models.transformer import Config
from helpers.sharded import messages
from helpers.sharded.arrays import cut, join, need_divisible
from helpers.sharded.counts import segments
from helpers.sharded.device import Device, Metered, Patient
from helpers.sharded.mesh import Layout, Mesh
from helpers.sharded.messages import Channel
from helpers.sharded.tensor_parallel import Split, tensor_layer, vocabulary_loss
from helpers.sharded.unit import Unit


def stage_pieces(config: Config, stages: int) -> list[range]:
    """Return which pieces each stage has: blocks shared out evenly, ends with the ends.

    ValueError for more stages than blocks.

    >>> stage_pieces(Config(layers=4), 2)
    [range(0, 3), range(3, 6)]
    """
    if not 1 <= stages <= config.layers:
        raise ValueError(f"stage_pieces expects 1 to {config.layers} stages; got {stages}")
    cuts = [1 + part.start for part in split(config.layers, stages)]
    cuts = [0, *cuts[1:], config.pieces]
    return [range(a, b) for a, b in itertools.pairwise(cuts)]


class Hybrid:
    """This rank's part of a transformer, its optimizer, and the messages of a step."""

    def __init__(
        self,
        comm: Any,
        config: Config,
        layout: Layout,
        micro: int = 1,
        optimizer: Callable[[list], torch.optim.Optimizer] = torch.optim.Adam,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        speed: float | None = None,
    ):
        if layout.shard > 1 or config.dropout:
            raise ValueError(
                f"Hybrid has ZeRO's stages 0 and 1, and no dropout; got {layout}, {config.dropout}"
            )
        self.config, self.layout, self.micro = config, layout, micro
        self.mesh = Mesh(comm, layout)
        self.device = Device(speed)
        self.tensor = Metered(self.mesh.tensor, self.device)
        shared = Split(self.tensor)
        stage = self.mesh.place["pipeline"]
        self.pieces = stage_pieces(config, layout.pipeline)[stage]
        self.first, self.last = stage == 0, stage == layout.pipeline - 1
        self.model = nn.Sequential(
            *(tensor_layer(config, index, shared, seed, dtype) for index in self.pieces)
        )
        self.channel = Channel(self.mesh.data)
        self.unit = Unit("stage", self.model, self.channel, layout.shard)
        self.optimizer = optimizer([self.unit.parameter])

    @property
    def names(self) -> list[str]:
        """Of this rank's parameters, as in the whole model, in the order of the unit."""
        found = []
        for name in self.unit.flat.names:
            piece, _, rest = name.partition(".")
            found.append(f"{self.pieces[int(piece)]}.{rest}")
        return found

    def step(self, x: Tensor, y: Tensor) -> float:
        """Train on this replica's rows of the whole batch (B, T); return the mean loss of all."""
        rows = need_divisible(len(x), self.layout.data * self.micro, "batch")
        first = self.mesh.place["data"] * self.micro
        xs, ys = (part.split(rows)[first : first + self.micro] for part in (x, y))
        shares = [self._forward(a, b) for a, b in zip(xs, ys, strict=True)]
        total = sum(self._backward(*share) for share in shares) / self.micro
        self.unit.begin_reduce()
        self.unit.finish_reduce()
        self.optimizer.step()
        self.unit.after_step()
        return self._agree(total)

    def _forward(self, x: Tensor, y: Tensor) -> tuple:
        """Pass one micro-batch through this stage; return what its way back needs."""
        comm, stage = self.mesh.pipeline, self.mesh.place["pipeline"]
        came = None
        if not self.first:
            shape = (*x.shape, self.config.width)
            came = messages.receive(shape, self.unit.parameter.dtype, stage - 1, comm)
            came.requires_grad_()
        with self.device.compute(self._work(x)):
            out = self.model(x if came is None else came)
            if self.last:
                out = vocabulary_loss(out, y, self.tensor)
        sent = None if self.last else messages.send(out, stage + 1, comm)
        return x, came, out, sent

    def _backward(self, x: Tensor, came: Tensor | None, out: Tensor, sent: Any) -> float:
        """The same way back; return the loss, on the last stage."""
        comm, stage = self.mesh.pipeline, self.mesh.place["pipeline"]
        gradient = None
        if sent is not None:
            gradient = messages.receive(out.shape, out.dtype, stage + 1, comm)
            Patient(comm).wait([sent[0]], stage + 1)
        with self.device.compute([2 * part for part in reversed(self._work(x))]):
            if gradient is None:
                (out / self.micro).backward()
            else:
                out.backward(gradient)
        if came is not None and came.grad is not None:
            request, kept = messages.send(came.grad, stage - 1, comm)
            Patient(comm).wait([request], stage - 1)
            del kept
        return out.item() if self.last else 0.0

    def _work(self, x: Tensor) -> list[float]:
        """Operations of this rank's forward pass, up to where tensor ranks meet."""
        found = segments(self.config, self.pieces, *x.shape)
        return [part / self.layout.tensor for part in found]

    def _agree(self, loss: float) -> float:
        """Tell all stages the last one's loss, averaged over the replicas."""
        total = np.array([loss])
        self.mesh.data.Allreduce(np.array([loss]), total)
        self.mesh.pipeline.Bcast(total, root=self.layout.pipeline - 1)
        return float(total[0]) / self.layout.data

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Gather each parameter and what Adam keeps of it from the replicas; all ranks call it."""
        found: dict[str, dict[str, Tensor]] = {name: {} for name in self.names}
        moments = self.optimizer.state.get(self.unit.parameter, {})
        kept = {"value": self.unit.parameter.detach()} | dict(sorted(moments.items()))
        for what, mine in kept.items():
            if not mine.dim():  # Adam's count of steps
                for name in found:
                    found[name][what] = mine.clone()
                continue
            shapes = [p.shape for p in self.model.parameters()]
            for name, part, shape in zip(found, self.unit.collect(mine), shapes, strict=True):
                found[name][what] = part.view(shape).clone()
        return found

    def load(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Take over what :meth:`state` gave, cut for this rank."""
        for what in state[self.names[0]]:
            parts = [state[name][what] for name in self.names]
            if not parts[0].dim():
                self.optimizer.state[self.unit.parameter][what] = parts[0].clone()
                continue
            flat = torch.cat([part.flatten() for part in parts])
            if what == "value":
                self.unit.flat.values.copy_(flat)
            else:
                self.optimizer.state[self.unit.parameter][what] = flat[self.unit.mine].clone()

    def close(self) -> None:
        """Free the communicators. All ranks call it."""
        self.channel.close()
        self.mesh.free()


# -- a checkpoint that any number of ranks can read ------------------------------------------------
#
# Every part of the model is written once, by replica 0, as whole parameters of one tensor rank. The
# list is written last, by rank 0, when all parts are there: a folder without it is no checkpoint.

LIST = "checkpoint.json"


def save_checkpoint(folder: str | Path, hybrid: Hybrid) -> None:
    """Write a checkpoint; every rank must call it."""
    folder, place = Path(folder), hybrid.mesh.place
    folder.mkdir(parents=True, exist_ok=True)
    state = hybrid.state()  # messages: a rank that saves alone would wait here
    name = f"pipeline{place['pipeline']}-tensor{place['tensor']}.pt"
    if place["data"] == 0:
        torch.save(state, folder / f"{name}.part")
        os.replace(folder / f"{name}.part", folder / name)
    files = hybrid.mesh.comm.gather((name, list(state)) if place["data"] == 0 else None)
    if files is not None:
        listed = {
            "config": asdict(hybrid.config),
            "tensor": hybrid.layout.tensor,
            "files": dict(filter(None, files)),
        }
        (folder / f"{LIST}.part").write_text(json.dumps(listed))
        os.replace(folder / f"{LIST}.part", folder / LIST)
    hybrid.mesh.comm.barrier()


def load_checkpoint(folder: str | Path, hybrid: Hybrid) -> None:
    """Load a checkpoint into a model split in any way, in its precision; every rank calls it."""
    path = Path(folder) / LIST
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no finished checkpoint: {LIST} is missing")
    listed = json.loads(path.read_text())
    if listed["config"] != asdict(hybrid.config):
        raise ValueError(
            f"load_checkpoint expects one of {hybrid.config}; {folder} has {listed['config']}"
        )
    ranks, rank = hybrid.layout.tensor, hybrid.mesh.place["tensor"]
    opened = functools.cache(lambda file: torch.load(Path(folder, file), mmap=True))
    state, dtype = {}, hybrid.unit.flat.values.dtype
    for name in hybrid.names:
        whole = _whole(opened, listed, name)
        state[name] = {
            what: cut(name, part, ranks, rank).to(dtype) if part.dim() else part
            for what, part in whole.items()
        }
    hybrid.load(state)


def _whole(opened: Callable[[str], dict], listed: dict, name: str) -> dict[str, Tensor]:
    files = sorted(
        (int(file.rpartition("tensor")[2].partition(".")[0]), file)
        for file, names in listed["files"].items()
        if name in names
    )
    parts = [opened(file)[name] for _, file in files]
    return {
        what: join(name, [part[what] for part in parts]) if parts[0][what].dim() else parts[0][what]
        for what in parts[0]
    }
