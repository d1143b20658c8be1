"""Running a graph: arrays in, operators in topological order, arrays out.

The sizes that the graph left open are read off the arrays of the first call that has them; every
other shape must then agree. Each value is dropped after its last reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from helpers.autodiff.graph import Variable
from helpers.autodiff.operator import Operator
from helpers.autodiff.reach import bind, checked, last_readers, leaves, needed
from helpers.autodiff.sizes import resolve

if TYPE_CHECKING:
    from helpers.autodiff.parallel import Line

# an operator, what it reads, its result and the result's shape, what nobody reads afterwards
Bound = tuple[Operator, tuple[Variable, ...], Variable, tuple[int, ...], list[Variable]]
Watcher = Callable[[Operator, float, float], None]
Pass = Callable[[Sequence[Variable], Sequence[Variable]], Sequence[Variable]]


class Function:
    """Some outputs of a graph as a function of some of its variables. Call it with arrays."""

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable]):
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.order = needed(self.inputs, self.outputs)
        self.leaves = leaves(self.order, self.inputs, self.outputs)
        self.last_readers = last_readers(self.order, self.outputs)
        self._bound: dict[tuple[tuple[str, int], ...], list[Bound]] = {}
        self._bindings: dict[tuple[tuple[int, ...], ...], dict[str, int]] = {}

    def __call__(self, *arrays: np.ndarray, watcher: Watcher | None = None) -> list[np.ndarray]:
        """Run the graph on arrays of the inputs' types; return the outputs' values."""
        values = checked(self.inputs, arrays)
        shapes = tuple(values[v].shape for v in self.inputs)
        if shapes not in self._bindings:  # seen before, they need not be looked at again
            self._bindings[shapes] = bind(self.inputs, [values[v] for v in self.inputs])
        return self.run(values, self._bindings[shapes], watcher)

    def run(
        self,
        values: dict[Variable, np.ndarray],
        bindings: dict[str, int],
        watcher: Watcher | None = None,
    ) -> list[np.ndarray]:
        """Run the graph with values of its inputs and of its sizes; ``values`` are changed."""
        values |= {v: v.held() for v in self.leaves}  # type: ignore[misc]  # see `needed`
        for operator, operands, result, shape, done in self.bound(bindings):
            begin = perf_counter() if watcher else 0.0
            read = [values[v] for v in operands]
            if operator.view_of_input:
                values[result] = operator.view(*read)
            else:
                values[result] = np.empty(shape, result.dtype)
                operator.run(values[result], *read)
            if watcher:
                watcher(operator, begin, perf_counter())
            del read  # or the last operands would live on
            for variable in done:
                del values[variable]
        return [np.array(values[v]) if _borrowed(v) else values[v] for v in self.outputs]

    def bound(self, bindings: dict[str, int]) -> list[Bound]:
        """Return what to do, in order, with numbers for symbolic sizes."""
        key = tuple(sorted(bindings.items()))
        if key not in self._bound:
            self._bound[key] = [
                (
                    node.operator.bind(bindings),
                    node.inputs,
                    node.output,
                    resolve(node.output.shape, bindings),
                    self.last_readers.get(node, []),
                )
                for node in self.order
            ]
        return self._bound[key]


def _borrowed(variable: Variable) -> bool:
    """Say whether a variable's memory is, or may be, also another's."""
    return variable.maker is None or variable.maker.operator.view_of_input


def function(
    inputs: Sequence[Variable], outputs: Sequence[Variable], passes: Sequence[Pass] = ()
) -> Function:
    """Make a callable of a graph: arrays in, a list of arrays out.

    >>> from helpers import autodiff
    >>> x = autodiff.variable("x", shape=("n",))
    >>> double = autodiff.function([x], [2 * x])
    >>> double(np.array([1.0, 2.0]))
    [array([2., 4.])]

    Parameters
    ----------
    inputs
        Each once; they may lie anywhere in the graph.
    passes
        Applied to the graph in this order: see :mod:`.passes`.

    Raises
    ------
    ValueError
        If the outputs need a variable that is not among the inputs.
    """
    for each in passes:
        outputs = each(outputs, inputs)
    return Function(inputs, outputs)


@dataclass(frozen=True)
class Interval:
    """Something that took time."""

    label: str  # an operator's name, or how many bytes were averaged
    start: float  # seconds since the run began, as the next
    stop: float
    lane: str  # "compute", "wait" or "network"


def watch(
    function: Function, *arrays: np.ndarray, line: Line | None = None
) -> tuple[list[np.ndarray], list[Interval]]:
    """Run a function; return its outputs, and when each operator ran, in the order of beginnings.

    A ``line`` is one whose reductions are to be seen too.
    """
    events: list[Interval] = []
    known = len(line.events) if line else 0
    zero = perf_counter()

    def watcher(operator: Operator, begin: float, end: float) -> None:
        lane = "wait" if str(operator) == "wait" else "compute"
        events.append(Interval(str(operator), begin - zero, end - zero, lane))

    values = function(*arrays, watcher=watcher)
    for begin, end, size in line.events[known:] if line else ():
        events.append(Interval(f"{size} B", begin - zero, end - zero, "network"))
    return values, sorted(events, key=lambda event: event.start)
