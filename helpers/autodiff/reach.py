"""What lies between a function's inputs and its outputs: what to run, to read, and to drop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from helpers.autodiff.graph import Application, Variable
from helpers.autodiff.schedule import schedule
from helpers.autodiff.state import State


def needed(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> list[Application]:
    """List the applications between inputs and outputs, in topological order.

    Parameters
    ----------
    inputs : sequence of Variable
        What is fed; what made one of them is not needed.
    outputs : sequence of Variable
        What is wanted.

    Returns
    -------
    list of Application
        Each after what it reads.

    Raises
    ------
    ValueError
        A variable is fed twice, or one that is needed is not fed.
    """
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
    """List what is read, but neither computed nor fed: states, and what was known before.

    Parameters
    ----------
    order : sequence of Application
        Of a function.
    inputs, outputs : sequence of Variable
        What is fed, and what is wanted.

    Returns
    -------
    list of Variable
        Each once.
    """
    read = dict.fromkeys(outputs) | {v: None for node in order for v in node.inputs}
    return [v for v in read if v.maker is None and v not in inputs]


def held(v: Variable) -> np.ndarray:
    """Return the value of a leaf.

    Parameters
    ----------
    v : Variable
        A state, or a variable whose value is known.

    Returns
    -------
    numpy.ndarray
        Not a copy.
    """
    array = v.held()
    assert array is not None  # `needed` has seen to it
    return array


def last_readers(
    order: Sequence[Application], outputs: Sequence[Variable]
) -> dict[Application, list[Variable]]:
    """Say which variables nobody needs after each application: count readers down to none.

    Parameters
    ----------
    order : sequence of Application
        In which they run.
    outputs : sequence of Variable
        Needed to the end.

    Returns
    -------
    dict
        Application → variables that it is the last to read.
    """
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
