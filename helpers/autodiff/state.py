"""State: variables that keep their value between runs, and the operators that change it.

    >>> from helpers import autodiff
    >>> w = autodiff.state("w", 1.0)
    >>> step = autodiff.function([], [autodiff.update(w, 2 * w)])
    >>> step(), step(), w.value
    ([array(2.)], [array(4.)], array(4.))

An update's result is the state's own memory. So it matters who comes first: whoever reads the old
value has to be done. Data say nothing about that order; *control dependencies* do, which
:func:`.passes.order_updates` adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.autodiff.elementwise import broadcast_together
from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type


class State(Variable):
    """A variable with memory of its own. Made by :func:`state`."""

    def __init__(self, name: str, value: Any):
        self._array = np.array(value, order="C")
        super().__init__(Type(self._array.dtype, self._array.shape), name)

    def held(self) -> np.ndarray:
        return self._array

    @property
    def value(self) -> np.ndarray:
        """A copy of what it holds now; set it to begin anew."""
        return np.array(self._array)

    @value.setter
    def value(self, value: Any) -> None:
        array = np.asarray(value)
        if array.shape != self.shape or array.dtype != self.dtype:
            raise TypeError(f"{self.name} expects {self.type}; got {array.dtype} {array.shape}")
        self._array[...] = array


@dataclass(frozen=True, eq=False)  # two updates are two, even of one state by one value
class Update(Operator):
    """Write a value over a state."""

    adds: bool
    view_of_input = True

    def infer(self, old: Type, new: Type) -> Type:
        if old != new:
            raise TypeError(f"{self} expects a value of the state's type {old}; got {new}")
        return old

    def view(self, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        if self.adds:
            old += new
        else:
            old[...] = new
        return old

    def gradient(self, g: Variable, y: Variable, old: Variable, new: Variable) -> Sequence[Any]:
        return [g if self.adds else None, g]

    def __str__(self) -> str:
        return "add_update" if self.adds else "update"


def state(name: str, value: Any) -> State:
    """Return a variable that keeps its value, a copy at first, from one run to the next.

    ``state.value`` is what it holds; no function takes it as an input.
    """
    return State(name, value)


def update(state: Variable, new: Any) -> Variable:
    """Write a new value over a state, each time this runs; return it, in the state's own memory.

    ``state`` may be the result of an earlier update: the second is then after the first. ``new`` is
    of the state's type after broadcasting, else TypeError.
    """
    return _updated(Update(adds=False), state, new)


def add_update(state: Variable, change: Any) -> Variable:
    """Add to a state, in its memory, each time this runs; as :func:`update` in all else."""
    return _updated(Update(adds=True), state, change)


def _updated(operator: Update, state: Variable, new: Any) -> Variable:
    if not (isinstance(state, State) or is_update(state)):
        raise TypeError(f"{operator} expects a state, or its last update; got {state!r}")
    return apply(operator, state, broadcast_together(str(operator), state, new)[1])


def is_update(v: Variable) -> bool:
    """Say whether a variable is a state's new value."""
    return v.maker is not None and isinstance(v.maker.operator, Update)


def seen_in(v: Variable) -> Variable:
    """Follow views back to whose value they show; each new value of a state counts as its own."""
    while v.maker and v.maker.operator.view_of_input and not is_update(v):
        v = v.maker.inputs[0]
    return v


def in_a_state(v: Variable) -> bool:
    """Say whether a variable is seen in a state's memory."""
    source = seen_in(v)
    return isinstance(source, State) or is_update(source)
