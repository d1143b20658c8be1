"""A training that may be cut off after any step: a checkpoint has to hold what a step changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Run:
    """One rank's replica in a synchronous training, with its place in the data.

    ``part`` is this rank, and how many there are; ``sync(net)`` replaces each gradient by its mean
    over them. ``epoch`` is the one that the next batch belongs to, ``done`` how many batches of it
    are done.
    """

    def __init__(
        self,
        net: nn.Module,
        inputs: np.ndarray,
        labels: np.ndarray,
        part: tuple[int, int] = (0, 1),
        sync: Callable[[nn.Module], object] | None = None,
        *,
        batch: int = 8,
        rate: float = 0.02,
        momentum: float = 0.9,
    ):
        self.net = net
        self.sgd = torch.optim.SGD(net.parameters(), lr=rate, momentum=momentum)
        self.epoch = self.done = 0
        self._inputs, self._labels = inputs, labels
        self._part, self._sync, self._batch = part, sync, batch

    def step(self) -> None:
        """Make one update, with the next batch of the epoch."""
        rank, size = self._part
        order = np.random.default_rng(self.epoch).permutation(len(self._labels))
        mine = order[rank::size][self.done * self._batch :][: self._batch]
        self.sgd.zero_grad()
        x, y = torch.from_numpy(self._inputs[mine]), torch.from_numpy(self._labels[mine])
        cross_entropy(self.net(x), y).backward()
        if self._sync is not None:
            self._sync(self.net)
        self.sgd.step()
        self.done += 1
        if self.done == len(self._labels) // (size * self._batch):
            self.epoch, self.done = self.epoch + 1, 0

    def fingerprint(self) -> str:
        """Hash all parameters: eight characters, the same only if every bit is."""
        bits = b"".join(p.detach().numpy().tobytes() for p in self.net.parameters())
        return hashlib.sha256(bits).hexdigest()[:8]
