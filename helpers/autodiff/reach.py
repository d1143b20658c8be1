"""What lies between a function's inputs and its outputs: what to run, to read, and to drop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from helpers.autodiff.graph import Application, Variable
from helpers.autodiff.schedule import schedule
from helpers.autodiff.state import State


def needed(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> list[Application]:
    """List the applications between inputs and outputs in order, or say what is missing."""
    if len(set(inputs)) < len(inputs):
        raise ValueError(f"function expects each input once; got {inputs}")
    for variable in inputs:
        if isinstance(variable, State):
            raise ValueError(f"a state keeps its own value and is not fed; got {variable!r}")
    order = schedule(outputs, stop=set(inputs))
    for variable in leaves(order, inputs, outputs):
        if variable.held() is None:
            raise ValueError(f"function expects {variable!r} among its inputs; got {inputs}")
    return order


def leaves(
    order: Sequence[Application], inputs: Sequence[Variable], outputs: Sequence[Variable]
) -> list[Variable]:
    """List what is read, but neither computed nor fed: states, and what was known before."""
    read = dict.fromkeys(outputs) | {v: None for node in order for v in node.inputs}
    return [v for v in read if v.maker is None and v not in inputs]


def held(v: Variable) -> np.ndarray:
    """Return the value of a leaf."""
    array = v.held()
    assert array is not None  # `needed` has seen to it
    return array


def last_readers(
    order: Sequence[Application], outputs: Sequence[Variable]
) -> dict[Application, list[Variable]]:
    """Say which variables nobody needs after each application: count readers down to none."""
    readers = Counter(v for node in order for v in set(node.inputs))
    done: dict[Application, list[Variable]] = {}
    for node in order:
        if not readers[node.output] and node.output not in outputs:  # run for its effect
            done[node] = [node.output]
        for variable in dict.fromkeys(node.inputs):
            readers[variable] -= 1
            if not readers[variable] and variable not in outputs:
                done.setdefault(node, []).append(variable)
    return done
