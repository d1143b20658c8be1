"""A checkpoint that any number of ranks can read: parts with names, and a list of them.

Every part of the model is written once, by replica 0, as whole parameters of one tensor rank. The
list is written last, by rank 0, when all parts are there: a folder without it is no checkpoint.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from helpers.sharded.arrays import cut, join
from helpers.sharded.hybrid import Hybrid

LIST = "checkpoint.json"


def save(folder: str | Path, hybrid: Hybrid) -> None:
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


def load(folder: str | Path, hybrid: Hybrid) -> None:
    """Load a checkpoint into a model split in any way, in its precision; every rank calls it."""
    listed = _listed(folder)
    if listed["config"] != asdict(hybrid.config):
        raise ValueError(
            f"load expects a checkpoint of {hybrid.config}; {folder} has {listed['config']}"
        )
    ranks, rank = hybrid.layout.tensor, hybrid.mesh.place["tensor"]
    opened, state, dtype = _Opened(folder), {}, hybrid.unit.flat.values.dtype
    for name in hybrid.names:
        whole = _whole(opened, listed, name)
        state[name] = {
            what: cut(name, part, ranks, rank).to(dtype) if part.dim() else part
            for what, part in whole.items()
        }
    hybrid.load(state)


def _listed(folder: str | Path) -> dict:
    path = Path(folder) / LIST
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no finished checkpoint: {LIST} is missing")
    return json.loads(path.read_text())


class _Opened(dict):
    """The files of a checkpoint by name, each opened when it is first asked for."""

    def __init__(self, folder: str | Path):
        super().__init__()
        self.folder = Path(folder)

    def __missing__(self, file: str) -> dict[str, dict[str, Tensor]]:
        self[file] = torch.load(self.folder / file, mmap=True)
        return self[file]


def _whole(opened: _Opened, listed: dict, name: str) -> dict[str, Tensor]:
    files = sorted(
        (int(file.rpartition("tensor")[2].partition(".")[0]), file)
        for file, names in listed["files"].items()
        if name in names
    )
    parts = [opened[file][name] for _, file in files]
    return {
        what: join(name, [part[what] for part in parts]) if parts[0][what].dim() else parts[0][what]
        for what in parts[0]
    }
