"""Loops in a graph: the body is a graph of its own, run again and again.

    >>> from helpers import autodiff
    >>> xs = autodiff.variable("xs", shape=("t",))
    >>> step = lambda s, x: ([s + x], [s + x])              # new states, outputs
    >>> (total,), (sums,) = autodiff.scan(step, [autodiff.full(0.0)], [xs])
    >>> autodiff.function([xs], [total, sums])(np.array([1.0, 2.0, 3.0]))
    [array(6.), array([1., 3., 6.])]

A scan carries *states* from step to step, takes an *element* of each sequence at every step, and
stacks what a step gives *out*. However long the sequences, the graph has one operator. Its gradient
is a scan too, in the other direction: its states are the gradients of the states, its elements the
states as they were before each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np

from helpers.autodiff.constants import full_like
from helpers.autodiff.elementwise import add
from helpers.autodiff.gradient import pullback
from helpers.autodiff.graph import Variable, apply, topological
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.rewriting import rebuild
from helpers.autodiff.run import Function
from helpers.autodiff.shaping import Shape
from helpers.autodiff.sizes import Size, count

Step = Callable[..., tuple[Sequence[Variable], Sequence[Variable]]]


@dataclass(frozen=True, eq=False)
class Body:
    """What a loop does at each step: a graph that reads these variables and no others."""

    states: tuple[Variable, ...]  # carried along
    elements: tuple[Variable, ...]  # different at each step
    constants: tuple[Variable, ...]  # the same at each step
    results: tuple[Variable, ...]  # a new value for each state, then what is stacked

    @property
    def fed(self) -> tuple[Variable, ...]:
        """All that a step reads."""
        return (*self.states, *self.elements, *self.constants)

    @property
    def outs(self) -> tuple[Variable, ...]:
        """What is stacked."""
        return self.results[len(self.states) :]

    @cached_property
    def function(self) -> Function:
        """One step."""
        return Function(self.fed, self.results)


@dataclass(frozen=True)
class Scan(Operator):
    """A loop. Its one result is a vector: the last states, then each output stacked, end to end.

    The values inside a step are its own and not in a memory plan.
    """

    body: Body
    steps: int | Size
    shapes: tuple[Shape, ...]  # of the parts of the result
    backwards: bool
    bindings: tuple[tuple[str, int], ...] = ()  # numbers for the sizes inside the body

    def infer(self, *xs: Type) -> Type:
        expected = [v.type for v in self.body.fed]
        k, n = len(self.body.states), len(self.body.states) + len(self.body.elements)
        for i, (x, inner) in enumerate(zip(xs, expected, strict=True)):
            front = (self.steps,) if k <= i < n else ()
            if x != Type(inner.dtype, (*front, *inner.shape)):
                raise ValueError(f"scan expects {front} + {inner} as operand {i}; got {x}")
        return Type(self.body.results[0].dtype, (sum(map(count, self.shapes)),))

    def bind(self, bindings: Mapping[str, int]) -> Self:
        return replace(super().bind(bindings), bindings=tuple(bindings.items()))

    def run(self, out: np.ndarray, *xs: np.ndarray) -> None:
        body, bindings = self.body, dict(self.bindings)
        k, n = len(body.states), len(body.states) + len(body.elements)
        states, sequences, constants = list(xs[:k]), xs[k:n], xs[n:]
        finals, stacks = self._parts(out)
        for i in range(self.steps)[:: -1 if self.backwards else 1]:  # type: ignore[arg-type]
            fed = (*states, *(xs[i] for xs in sequences), *constants)
            results = body.function.run(dict(zip(body.fed, fed, strict=True)), bindings)
            states = results[:k]
            for stack, value in zip(stacks, results[k:], strict=True):
                stack[i] = value
        for final, state in zip(finals, states, strict=True):
            final[...] = state

    def _parts(self, whole: Any) -> tuple[list[Any], list[Any]]:
        """Split a result, array or variable, into last states and stacked outputs."""
        ends = pairwise(accumulate(map(count, self.shapes), initial=0))
        parts = [
            whole[start:stop].reshape(shape)
            for (start, stop), shape in zip(ends, self.shapes, strict=True)
        ]
        return parts[: len(self.body.states)], parts[len(self.body.states) :]

    def gradient(self, g: Variable, y: Variable, *xs: Variable) -> Sequence[Variable | None]:
        body, k = self.body, len(self.body.states)
        n = k + len(body.elements)
        smooth = [v.dtype.kind == "f" for v in body.fed]
        # one step back, in the body's own variables
        arriving = tuple(Variable(v.type) for v in body.results)
        wanted = [v for v, is_smooth in zip(body.fed, smooth, strict=True) if is_smooth]
        found = dict(zip(wanted, pullback(body.results, arriving, wanted), strict=True))
        weights = [v for v in body.constants if v in found]
        totals = tuple(Variable(v.type) for v in weights)
        back = (
            *(found[v] for v in body.states),
            *(add(total, found[v]) for total, v in zip(totals, weights, strict=True)),
            *(found[v] for v in body.elements if v in found),
        )
        read = {v for node in topological(back) for v in node.inputs} | set(back)
        before = [v for v in body.states if v in read]  # the old states that a step back reads
        values = _stacked(self, y, xs, before)

        g_finals, g_stacks = self._parts(g)
        inner = Body(
            (*arriving[:k], *totals),
            (*before, *body.elements, *arriving[k:]),
            body.constants,
            back,
        )
        g_states, g_elements = _applied(
            inner,
            [*g_finals, *(full_like(v, 0) for v in weights)],
            [*values, *xs[k:n], *g_stacks],
            xs[n:],
            self.steps,
            not self.backwards,
        )
        places = [*body.states, *weights, *(v for v in body.elements if v in found)]
        result = dict(zip(places, [*g_states, *g_elements], strict=True))
        return [result.get(v) for v in body.fed]


def scan(
    step: Step,
    initial: Sequence[Variable],
    sequences: Sequence[Variable],
) -> tuple[list[Variable], list[Variable]]:
    """Loop over the first axis of sequences, carrying states along.

    Parameters
    ----------
    step
        ``step(*states, *elements)`` → new states, outputs: two sequences of variables. What else it
        uses is the same at each step, and gets a gradient as well.
    initial
        The states before the first step, one or more. All floating variables have one dtype.
    sequences
        Each (t, ...), of one length t.

    Returns
    -------
    states : list of Variable
        Those after the last step.
    outputs : list of Variable
        Each (t, ...).
    """
    for what, given in (("states", initial), ("sequences", sequences)):
        if isinstance(given, Variable):
            raise TypeError(f"scan expects a list of {what}; got {given!r}")
    lengths = {x.shape[0] for x in sequences}
    if len(lengths) != 1 or not initial:
        raise ValueError(
            "scan expects states, and sequences of one length; "
            f"got {list(initial)} and {list(sequences)}"
        )
    states = tuple(Variable(v.type, v.name) for v in initial)
    elements = tuple(Variable(Type(v.dtype, v.shape[1:]), v.name) for v in sequences)
    new, outs = stepped = step(*states, *elements)
    if isinstance(new, Variable) or isinstance(outs, Variable):
        raise TypeError(
            f"scan expects of a step a list of states and one of outputs; got {stepped}"
        )
    if [v.type for v in new] != [v.type for v in initial]:
        expected, got = ([str(v.type) for v in vs] for vs in (initial, new))
        raise TypeError(f"scan expects new states of types {expected}; got {got}")
    results = [*new, *outs, *states]  # the states before each step: what a gradient reads
    captured = _captured((*states, *elements), results)
    constants = tuple(Variable(v.type, v.name) for v in captured)
    instead = dict(zip(captured, constants, strict=True))
    closed = rebuild(
        results, lambda node, xs: None, {*states, *elements, *captured}, instead=instead
    )
    body = Body(states, elements, constants, tuple(closed))
    dtypes = {v.dtype for v in (*body.fed, *body.results) if v.dtype.kind == "f"}
    if len(dtypes) > 1 or any(v.dtype.kind != "f" for v in closed):
        raise TypeError(
            "scan expects states, outputs and whatever floats to have one floating dtype; "
            f"got {[str(v.type) for v in (*body.fed, *outs)]}"
        )
    finals, stacks = _applied(body, initial, sequences, captured, lengths.pop(), False)
    return finals, stacks[: len(outs)]


def _applied(
    body: Body,
    states: Sequence[Variable],
    sequences: Sequence[Variable],
    constants: Sequence[Variable],
    steps: int | Size,
    backwards: bool,
) -> tuple[list[Variable], list[Variable]]:
    """Apply a loop; return the last states and the stacked outputs."""
    shapes = (*(v.shape for v in body.states), *((steps, *v.shape) for v in body.outs))
    operator = Scan(body, steps, shapes, backwards)
    return operator._parts(apply(operator, *states, *sequences, *constants))


def _stacked(
    scan: Scan, y: Variable, xs: Sequence[Variable], wanted: Sequence[Variable]
) -> list[Variable]:
    """Return the stacked values of some variables of a loop: from its result, or by another run."""
    body = scan.body
    have = dict(zip(body.outs, scan._parts(y)[1], strict=True))
    if not all(v in have for v in wanted):
        longer = replace(body, results=(*body.results, *wanted))
        k, n = len(body.states), len(body.states) + len(body.elements)
        _, stacks = _applied(longer, xs[:k], xs[k:n], xs[n:], scan.steps, scan.backwards)
        have = dict(zip(longer.outs, stacks, strict=True))
    return [have[v] for v in wanted]


def _captured(fed: Sequence[Variable], results: Sequence[Variable]) -> list[Variable]:
    """List what a step uses that does not depend on the step; plain numbers stay inside."""
    varying = set(fed)
    read = dict.fromkeys(results)
    for node in topological(results, stop=set(fed)):
        if not varying.isdisjoint((*node.inputs, *node.after)):
            varying.add(node.output)
            read |= dict.fromkeys(node.inputs)
    return [v for v in read if v not in varying and (v.maker is None or v.maker.inputs)]
