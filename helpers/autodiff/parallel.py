"""Data parallelism as a rewriting of the graph: an all-reduce behind each gradient.

::

    line = autodiff.Line(MPI.COMM_WORLD)
    average = autodiff.average_gradients(gradients, line)
    step = autodiff.function([x], [loss, *updates], [average, passes.order_updates])

Each rank has the same graph, its own part of the data, and after each step the same weights. The
all-reduce is two operators: one begins, as soon as the gradient is there, and one waits, when
nothing else is left to compute (:func:`.reach.schedule`). Between them the network is busy while
the gradients of earlier layers are computed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from helpers.autodiff.graph import Application, Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.rewriting import Inputs, rebuild
from helpers.autodiff.run import Pass


class Line:
    """Where gradients are averaged: a duplicated communicator, and a thread that reduces in order.

    All ranks run the same graph. A reduction goes on while its caller computes: RuntimeError if MPI
    does not take calls from a second thread. ``events`` has (begin, end, bytes) of each reduction,
    in s of ``perf_counter``.
    """

    def __init__(self, communicator: Any):
        from mpi4py import MPI

        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise RuntimeError("a line expects MPI with MPI_THREAD_MULTIPLE")
        self.communicator = communicator.Dup()
        self.events: list[tuple[float, float, int]] = []
        self._thread = ThreadPoolExecutor(1, "all-reduce")
        self._pending: dict[int, Future] = {}

    def post(self, array: np.ndarray) -> None:
        """Begin to average an array without gaps over the ranks, in its own memory.

        It is not to be touched before :meth:`wait`.
        """
        self._pending[array.ctypes.data] = self._thread.submit(self._average, array)

    def wait(self, array: np.ndarray) -> None:
        """Wait until an array is averaged."""
        self._pending.pop(array.ctypes.data).result()

    def close(self) -> None:
        """End the thread, and free the communicator. All ranks call it."""
        self._thread.shutdown()
        self.communicator.Free()

    def _average(self, array: np.ndarray) -> None:
        begin = perf_counter()
        average_in_order(self.communicator, array)
        self.events.append((begin, perf_counter(), array.nbytes))


def average_in_order(communicator: Any, array: np.ndarray) -> None:
    """Average an array over the ranks, adding rank 0, 1, 2, ...: the same bits as in one process.

    Each rank adds up one part and gives it to all: 2(N − 1)/N of the bytes, as a ring moves.
    """
    n, flat = communicator.Get_size(), array.reshape(-1)
    mine = np.zeros((n, -(-flat.size // n)), array.dtype)  # (N, elements of a part)
    mine.reshape(-1)[: flat.size] = flat
    parts = np.empty_like(mine)
    communicator.Alltoall(mine, parts)  # row r: my part, as rank r has it
    total = parts[0]
    for part in parts[1:]:
        total += part
    total /= n
    communicator.Allgather(total, mine)
    flat[:] = mine.reshape(-1)[: flat.size]


@dataclass(frozen=True)
class Post(Operator):
    """A copy of the operand, of which the average over the ranks is under way."""

    line: Line
    urgency = 1

    def infer(self, x: Type) -> Type:
        if x.dtype.kind != "f":
            raise TypeError(f"an average over ranks expects floating; got {x}")
        return x

    def run(self, out: np.ndarray, x: np.ndarray) -> None:
        out[...] = x  # the operand's memory may have another use before the average is there
        self.line.post(out)

    def __str__(self) -> str:
        return "begin all-reduce"


@dataclass(frozen=True)
class Wait(Operator):
    """The average that was under way."""

    line: Line
    urgency = -1
    view_of_input = True

    def infer(self, x: Type) -> Type:
        return x

    def view(self, x: np.ndarray) -> np.ndarray:
        self.line.wait(x)
        return x

    def __str__(self) -> str:
        return "wait"


def average_gradients(gradients: Sequence[Variable], line: Line) -> Pass:
    """Return a pass that puts an all-reduce behind each gradient of the graph; it comes first.

    It raises ValueError where a gradient is not in the graph it is given.
    """

    def rewrite(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
        missing = set(gradients)

        def averaged(node: Application, operands: Inputs) -> Variable | None:
            if node.output not in missing:
                return None
            missing.remove(node.output)
            g = node.output if operands == node.inputs else apply(node.operator, *operands)
            return apply(Wait(line), apply(Post(line), g))

        new = rebuild(outputs, averaged, inputs)
        if missing:
            raise ValueError(f"average_gradients expects gradients of this graph; got {missing}")
        return new

    return rewrite
