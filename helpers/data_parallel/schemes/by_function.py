"""Gradients averaged by a function that someone else has written: the reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import nn

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class ByFunction(Scheme):
    """In step, with your own ``sync_gradients(model)``, whose name the history bears.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks.
    function : callable
        Called on every rank after the backward pass; changes the gradients of its model in place.
    """

    def __init__(self, comm: Intracomm, function: Callable[[nn.Module], object]):
        super().__init__(comm)
        self.function = function
        self.name = f"synchronous, {getattr(function, '__name__', type(function).__name__)}"

    def after_backward(self, replica: Replica, step: int) -> None:
        self.function(replica.model)
