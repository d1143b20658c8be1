"""Running a graph: arrays in, operators in topological order, arrays out.

The sizes that the graph left open are read off the arrays of the first call that has them; every
other shape must then agree. Each value is dropped after its last reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from helpers.autodiff.graph import Application, Operator, Variable
from helpers.autodiff.schedule import schedule
from helpers.autodiff.sizes import Size, resolve, symbols
from helpers.autodiff.state import State

# an operator, what it reads, its result and the result's shape, what nobody reads afterwards
Bound = tuple[Operator, tuple[Variable, ...], Variable, tuple[int, ...], list[Variable]]
Watcher = Callable[[Operator, float, float], None]
Pass = Callable[[Sequence[Variable], Sequence[Variable]], Sequence[Variable]]


class Function:
    """Some outputs of a graph as a function of some of its variables. Call it with arrays.

    Parameters
    ----------
    inputs : sequence of Variable
        What is fed, each once.
    outputs : sequence of Variable
        What is wanted.
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable]):
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.order = needed(self.inputs, self.outputs)
        self.leaves = leaves(self.order, self.inputs, self.outputs)
        self.last_readers = last_readers(self.order, self.outputs)
        self._bound: dict[tuple[tuple[str, int], ...], list[Bound]] = {}

    def __call__(self, *arrays: np.ndarray, watcher: Watcher | None = None) -> list[np.ndarray]:
        """Run the graph on arrays of the inputs' types; return the outputs' values."""
        values = checked(self.inputs, arrays)
        bindings = bind(self.inputs, [values[v] for v in self.inputs])
        return self.run(values, bindings, watcher)

    def run(
        self,
        values: dict[Variable, np.ndarray],
        bindings: dict[str, int],
        watcher: Watcher | None = None,
    ) -> list[np.ndarray]:
        """Run the graph, sizes given.

        Parameters
        ----------
        values : dict
            Input → array; changed.
        bindings : dict
            Symbol → number.
        watcher : callable, optional
            Told of each operator: ``watcher(operator, begin, end)``, in s of ``perf_counter``.

        Returns
        -------
        list of numpy.ndarray
            The outputs' values.
        """
        values |= {v: held(v) for v in self.leaves}
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
        """Return what to do, in order, with numbers for symbolic sizes.

        Parameters
        ----------
        bindings : dict
            Symbol → number.

        Returns
        -------
        list of Bound
            One for each application in ``order``.
        """
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
    """Make a callable of a graph.

    >>> from helpers import autodiff
    >>> x = autodiff.variable("x", shape=("n",))
    >>> double = autodiff.function([x], [2 * x])
    >>> double(np.array([1.0, 2.0]))
    [array([2., 4.])]

    Parameters
    ----------
    inputs : sequence of Variable
        What is fed, each once; may lie anywhere in the graph.
    outputs : sequence of Variable
        What is wanted.
    passes : sequence of callable
        Applied to the graph in this order (see :mod:`.passes`).

    Returns
    -------
    Function
        Arrays in, a list of arrays out.

    Raises
    ------
    ValueError
        The outputs need a variable that is not among the inputs.
    """
    for each in passes:
        outputs = each(outputs, inputs)
    return Function(inputs, outputs)


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


def checked(inputs: Sequence[Variable], arrays: Sequence[np.ndarray]) -> dict[Variable, np.ndarray]:
    """Pair inputs with arrays of their dtype and rank.

    Parameters
    ----------
    inputs : sequence of Variable
        Of a function.
    arrays : sequence of numpy.ndarray
        As many.

    Returns
    -------
    dict
        Variable → array.

    Raises
    ------
    TypeError
        There are more or fewer arrays, or one has another dtype.
    """
    if len(arrays) != len(inputs):
        raise TypeError(f"a function of {len(inputs)} inputs expects as many; got {len(arrays)}")
    values = {}
    for variable, array in zip(inputs, map(np.asarray, arrays), strict=True):
        if array.dtype != variable.dtype or array.ndim != variable.ndim:
            raise TypeError(
                f"{variable.name or 'an input'} expects {variable.type};"
                f" got {array.dtype} {array.shape}"
            )
        values[variable] = array
    return values


def bind(inputs: Sequence[Variable], arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """Read the symbolic sizes off arrays, then check every size.

    Parameters
    ----------
    inputs : sequence of Variable
        Of a function.
    arrays : sequence of numpy.ndarray
        Of the same ranks.

    Returns
    -------
    dict
        Symbol → number.

    Raises
    ------
    ValueError
        A shape does not agree with a number in the graph, or with another shape.
    """
    bindings: dict[str, int] = {}
    for variable, array in zip(inputs, arrays, strict=True):
        for size, actual in zip(variable.shape, array.shape, strict=True):
            if isinstance(size, Size) and symbols(size) == {repr(size)}:
                bindings.setdefault(repr(size), actual)
    for variable, array in zip(inputs, arrays, strict=True):
        unknown = symbols(variable.shape) - bindings.keys()
        if unknown or resolve(variable.shape, bindings) != array.shape:
            known = ", ".join(f"{name} = {size}" for name, size in bindings.items())
            raise ValueError(
                f"{variable.name or 'an input'} expects {variable.shape}"
                f"{f' with {known}' if known else ''}; got {array.shape}"
            )
    return bindings
