"""One rank's copy of a model: what every scheme works on."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn

from helpers.data_parallel.flat import Flat
from helpers.data_parallel.history import History, Stop


class _Optimizer(Protocol):
    """An optimizer: torch's, or anything else that moves the parameters by their gradients."""

    def step(self) -> object:
        """Move the parameters against their gradients."""


class Replica:
    """A model with its loss and its optimizer, and its parameters in one flat buffer.

    Parameters
    ----------
    loss : callable
        ``loss(model(x), y)`` is the mean loss of a mini-batch, a tensor without dimensions.
    optimizer : torch.optim.Optimizer or another with ``step()``
        Of the model's parameters, or of ``flat.parameter``.
    delay : callable, optional
        Makes this rank slow on purpose: ``delay(seconds)`` is how long to sleep after a gradient
        that took so many seconds. See :func:`slower`.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        optimizer: _Optimizer,
        *,
        flat: Flat | None = None,
        delay: Callable[[float], float] | None = None,
    ):
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.flat = Flat(model) if flat is None else flat
        self.delay = delay
        self.forward: nn.Module = model
        self.last_loss = 0.0
        self.history, self.stop = History("untrained", 1, 0), Stop()

    def in_a_run(self, history: History, stop: Stop) -> Replica:
        """Return what the hooks of one training see: this replica, with a history and an end."""
        run = copy.copy(self)
        run.history, run.stop = history, stop
        return run

    def backward(self, x: Tensor, y: Tensor) -> float:
        """Add the gradient of one mini-batch's mean loss; return the loss."""
        began = time.perf_counter()
        loss = self.loss(self.forward(x), y)
        loss.backward()
        self.last_loss = loss.item()
        if self.delay is not None:
            time.sleep(self.delay(time.perf_counter() - began))
        return self.last_loss


def slower(factor: float) -> Callable[[float], float]:
    """Make a replica's ``delay`` that lets every gradient take ``factor`` (from 1) times as long.

    >>> slower(3.0)(0.5)
    1.0
    """
    if factor < 1:
        raise ValueError(f"slower expects a factor of at least 1; got {factor}")
    return lambda seconds: (factor - 1) * seconds


def paced(
    seconds: float, drawn: Callable[[float], float] = lambda mean: mean
) -> Callable[[float], float]:
    """Make a replica's ``delay`` that lets every gradient take so many seconds, if it can.

    ``drawn(seconds)`` is asked for the seconds of each gradient.
    """
    return lambda took: max(0.0, drawn(seconds) - took)
