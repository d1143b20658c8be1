"""Memory planned before it is used: who owns which bytes, from when to when.

A *buffer* is memory of its own. A result gets a new one or is *forwarded* that of an operand:

- read-only: the same bytes seen in another way (reshape, transpose, broadcast, slice);
- writable: the operator writes over its operand, in place.

The second is allowed only where this operator is the last to read the buffer, through whatever
view, and where the buffer is ours to write: not the caller's input. A buffer is freed after its
last reader. All of this is known before a byte is touched, so the peak is arithmetic;
:class:`Allocator` counts what really happens, and the two are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from helpers.autodiff.gradient import Custom
from helpers.autodiff.graph import Application, Variable
from helpers.autodiff.operator import Operator
from helpers.autodiff.reach import bind, checked, leaves, needed
from helpers.autodiff.shaping import Reshape
from helpers.autodiff.sizes import resolve, symbols
from helpers.autodiff.state import Update


class Allocator:
    """Gives out memory and counts it: bytes ``now`` in use, and the ``peak`` that ever were."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Give out an array of any content."""
        self.now += prod(shape) * dtype.itemsize
        self.peak = max(self.peak, self.now)
        return np.empty(shape, dtype)

    def free(self, array: np.ndarray) -> None:
        """Take an array back."""
        self.now -= array.nbytes


@dataclass(frozen=True)
class Step:
    """One operator with its memory."""

    node: Application
    operator: Operator  # with numbers for symbolic sizes
    shape: tuple[int, ...]
    how: str  # "new", "view" or "in place"
    over: Variable | None  # in place: who owned the buffer before
    done: tuple[Variable, ...]  # values that nobody reads after this step
    free: tuple[Variable, ...]  # owners of buffers that nobody reads after this step


@dataclass(frozen=True)
class Plan:
    """A graph in order, with memory; call it with arrays.

    A plan holds for one set of sizes, its ``bindings``. ``live`` are the bytes in buffers while
    each of its ``steps`` runs. Inputs are the caller's and states are there anyway: neither counts.
    """

    inputs: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    bindings: Mapping[str, int]
    steps: tuple[Step, ...]
    live: tuple[int, ...]

    @property
    def peak(self) -> int:
        """The most bytes in buffers at one time, predicted."""
        return max(self.live, default=0)

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [resolve(v.shape, self.bindings) for v in self.inputs]

    @cached_property
    def _leaves(self) -> list[Variable]:
        return leaves([step.node for step in self.steps], self.inputs, self.outputs)

    def __call__(self, *arrays: np.ndarray, allocator: Allocator | None = None) -> list[np.ndarray]:
        """Run the graph in the planned memory; return the outputs' values."""
        memory = Allocator() if allocator is None else allocator
        values = {v: np.asarray(a, order="C") for v, a in checked(self.inputs, arrays).items()}
        got = [values[v].shape for v in self.inputs]
        if got != self._shapes:
            bind(self.inputs, [values[v] for v in self.inputs])  # which may say what is wrong
            raise ValueError(f"this plan expects {dict(self.bindings)}; got shapes {got}")
        values |= {v: v.held() for v in self._leaves}  # type: ignore[misc]  # see `needed`
        buffers: dict[Variable, np.ndarray] = {}
        for step in self.steps:
            operands, result = [values[v] for v in step.node.inputs], step.node.output
            if step.how == "view":
                values[result] = step.operator.view(*operands)
            else:
                if step.over is None:
                    buffers[result] = memory.allocate(step.shape, result.dtype)
                else:
                    buffers[result] = buffers.pop(step.over).reshape(step.shape)
                values[result] = buffers[result]
                step.operator.run(values[result], *operands)
            del operands
            for variable in step.done:
                del values[variable]
            for owner in step.free:
                memory.free(buffers.pop(owner))
        return [values[v] if v in buffers else np.array(values[v]) for v in self.outputs]


def plan(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    sizes: Mapping[str, int] | None = None,
    in_place: bool = True,
    guard: bool = True,
) -> Plan:
    """Return a plan of where each result lives, with its peak in bytes.

    >>> from helpers import autodiff
    >>> x = autodiff.variable("x", shape=("n",))
    >>> y = autodiff.exp(autodiff.tanh(x))
    >>> [step.how for step in plan([x], [y], {"n": 1000}).steps]
    ['new', 'in place']
    >>> plan([x], [y], {"n": 1000}).peak, plan([x], [y], {"n": 1000}, in_place=False).peak
    (8000, 16000)

    Parameters
    ----------
    in_place : bool
        Whether results may be written over operands; without it only views share memory.
    guard : bool
        Whether to make sure first that nobody else will read the operand. Without it the results
        are wrong: this is here to be seen, once.
    """
    bindings = dict(sizes or {})
    wanted = symbols(tuple(v.shape for v in inputs))
    if wanted != bindings.keys():
        raise ValueError(f"plan expects a size for each of {sorted(wanted)}; got {bindings}")
    order = needed(inputs, outputs)
    owner, dense = _owners((*inputs, *leaves(order, inputs, outputs)), order)
    last: dict[Variable, int] = {}  # of each value and of each buffer: the last step to read it
    for i, node in enumerate(order):
        for v in (node.output, *node.inputs):
            last[v] = last[owner[v]] = i
    for v in outputs:
        last[v] = last[owner[v]] = len(order)

    ours: dict[Variable, int] = {}  # owners of buffers in use → bytes
    steps, live = [], []
    for i, node in enumerate(order):
        result, over = node.output, None
        shape = resolve(result.shape, bindings)
        if owner[result] is result:
            if in_place:
                over = next(
                    (
                        owner[v]
                        for v in _fitting(node, owner, dense)
                        if owner[v] in ours and (last[owner[v]] == i or not guard)
                    ),
                    None,
                )
            ours[result] = result.dtype.itemsize * prod(shape) if over is None else ours.pop(over)
        live.append(sum(ours.values()))
        read = (*node.inputs, result)
        seen = dict.fromkeys((*read, *(owner[v] for v in read)))
        done = tuple(v for v in seen if last[v] == i)
        free = tuple(v for v in done if v in ours)
        for v in free:
            del ours[v]
        how = "view" if owner[result] is not result else "new" if over is None else "in place"
        steps.append(Step(node, node.operator.bind(bindings), shape, how, over, done, free))
    return Plan(tuple(inputs), tuple(outputs), bindings, tuple(steps), tuple(live))


def _owners(
    inputs: Sequence[Variable], order: Sequence[Application]
) -> tuple[dict[Variable, Variable], set[Variable]]:
    """Say whose memory each variable is seen in, and which fill theirs in C order."""
    owner, dense = {v: v for v in inputs}, set(inputs)
    for node in order:
        result, first = node.output, node.inputs[0] if node.inputs else node.output
        plain = isinstance(node.operator, (Reshape, Custom, Update))  # elements in the same order
        if node.operator.view_of_input and (
            first in dense or not isinstance(node.operator, Reshape)
        ):
            owner[result] = owner[first]
            if plain and first in dense:
                dense.add(result)
        else:  # a reshape of what is not in C order has to copy
            owner[result] = result
            dense.add(result)
    return owner, dense


def _fitting(
    node: Application, owner: Mapping[Variable, Variable], dense: set[Variable]
) -> list[Variable]:
    """List the operands whose whole buffer the result fits in, element over element."""

    def over_itself(v: Variable) -> bool:
        return v in dense and v.shape == node.output.shape

    return [
        v
        for position, v in enumerate(node.inputs)
        if position in node.operator.in_place
        and v.dtype == node.output.dtype
        # x + xᵀ reads, through xᵀ, what it would have written over
        and all(over_itself(other) for other in node.inputs if owner[other] is owner[v])
    ]
