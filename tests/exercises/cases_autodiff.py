"""Answers to the exercises of 09: right ones, and wrong ones that a reader could write."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from helpers import autodiff
from helpers.autodiff.constants import full_like
from tests.exercises.case import Case


@dataclass(frozen=True)
class Softplus(autodiff.Operator):
    def infer(self, x):
        return x

    def run(self, out, x):
        np.logaddexp(0, x, out=out)

    def gradient(self, g, y, x):
        return [g * autodiff.sigmoid(x)]


class ByItsResult(Softplus):
    """Right: the slope from y, 1 − exp(−y), and a tuple."""

    def run(self, out, x):
        out[...] = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))

    def gradient(self, g, y, x):
        return (g * (1 - autodiff.exp(-y)),)


class Overflows(Softplus):
    def run(self, out, x):
        with np.errstate(over="ignore"):
            out[...] = np.log(1 + np.exp(x))


class ReturnsIt(Softplus):
    def run(self, out, x):
        return np.logaddexp(0, x)


class BindsOutAnew(Softplus):
    def run(self, out, x):
        out = np.logaddexp(0, x)  # noqa: F841


class WritesOverItsOperand(Softplus):
    def run(self, out, x):
        np.logaddexp(0, x, out=x)
        out[...] = x


def with_gradient(gradient):
    """Softplus with another ``gradient(g, x)``."""
    return type("Answer", (Softplus,), {"gradient": lambda self, g, y, x: gradient(g, x)})


def kahn(outputs):
    """Right: count what each application still waits for."""
    found, todo = {}, [v.maker for v in outputs if v.maker]
    while todo:
        node = todo.pop()
        if node not in found:
            found[node] = [v.maker for v in node.inputs if v.maker]
            todo += found[node]
    readers = {node: [] for node in found}
    for node, before in found.items():
        for maker in before:
            readers[maker].append(node)
    waits = {node: len(before) for node, before in found.items()}
    ready, order = [node for node in found if not waits[node]], []
    while ready:
        order.append(ready.pop())
        for reader in readers[order[-1]]:
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    return order


def recursive(outputs):
    """Wrong for 5 000 in a row."""
    order = []

    def visit(v):
        if v.maker and v.maker not in order:
            for each in v.maker.inputs:
                visit(each)
            order.append(v.maker)

    for v in outputs:
        visit(v)
    return order


def breadth_first(outputs):
    """Wrong: backwards by distance, which is not the longest one."""
    order, row = {}, [v.maker for v in outputs if v.maker]
    while row:
        for node in row:
            order.setdefault(node)
        row = list({v.maker: None for node in row for v in node.inputs if v.maker})
    return list(order)[::-1]


def all_ways(outputs):
    """Wrong: every way from the outputs is walked, and there may be 2⁶⁰."""
    order, todo = {}, deque(v.maker for v in outputs)
    while todo:
        node = todo.popleft()
        if node:
            order.pop(node, None)
            order[node] = None
            todo.extend(v.maker for v in node.inputs)
    return list(order)[::-1]


def extend(y, xs, add=True, zeros=True, backwards=True):
    total = {y: full_like(y, 1)}
    order = autodiff.topological([y])
    for node in reversed(order) if backwards else order:
        if node.output not in total:
            continue
        parts = node.operator.gradient(total[node.output], node.output, *node.inputs)
        for v, part in zip(node.inputs, parts, strict=True):
            if part is not None:
                total[v] = total[v] + part if add and v in total else part
    if zeros:
        return [total.get(v, full_like(v, 0)) for v in xs]
    return [total.get(v) for v in xs]


def shared(
    order, resolve=True, operator=lambda same: same, alike=lambda operator, inputs: tuple(inputs)
):
    """Right: by operator and operands, repeated results replaced by the first."""
    first, instead, found = {}, {}, {}
    for node in order:
        inputs = [instead.get(v, v) if resolve else v for v in node.inputs]
        key = (operator(node.operator), alike(node.operator, inputs))
        if key in first:
            found[node] = first[key]
            instead[node.output] = first[key].output
        else:
            first[key] = node
    return found


def commutes(order, names=("add", "multiply")):
    """Wrong: the text asks for the same order."""

    def alike(operator, inputs):
        return tuple(sorted(inputs, key=id) if str(operator) in names else inputs)

    return shared(order, alike=alike)


def shared_with_the_nearest(order):
    """Wrong: of several before it the last is named."""
    firsts, last, found = shared(order), {}, {}
    for node in order:
        first = firsts.get(node, node)
        found[node] = last.get(first)
        last[first] = node
    return found


CASES = {
    "four_numbers": Case(
        right=(2, 8, 4, 13),
        also=[(2.0, np.float64(8), 4, 13.0)],
        wrong=[(2, 4, 4, 13), (2, 8, 4, "x")],
        told={"on two paths": (2, 8, 4, 12), "one of them": (2, 8, 4, 1)},
    ),
    "softplus_operator": Case(
        right=Softplus,
        also=[ByItsResult],
        wrong=[
            *(Overflows, WritesOverItsOperand),
            with_gradient(lambda g, x: [autodiff.sigmoid(x)]),  # forgets the chain
            with_gradient(lambda g, x: [np.ones(3)]),  # in NumPy
            with_gradient(lambda g, x: g * autodiff.sigmoid(x)),  # no list
            # right once, not twice
            with_gradient(lambda g, x: [g * autodiff.stop_gradient(autodiff.sigmoid(x))]),
            dict,
        ],
        told={"the array out": BindsOutAnew, "does not write into": ReturnsIt},
    ),
    "topological_order": Case(
        long=True,
        right=autodiff.topological,
        also=[kahn, lambda outputs: dict.fromkeys(kahn(outputs))],
        wrong=[
            *(recursive, breadth_first, lambda outputs: [kahn(outputs)[0], *kahn(outputs)]),
            lambda outputs: kahn(outputs[:1]),
            all_ways,
        ],
        told={"changes `outputs`": lambda outputs: kahn([outputs.pop() for _ in outputs[:]])},
    ),
    "gradients_by_extension": Case(
        right=extend,
        also=[autodiff.gradients],
        wrong=[
            lambda y, xs: extend(y, xs, add=False),
            lambda y, xs: extend(y, xs, zeros=False),
            lambda y, xs: extend(y, xs, backwards=False),
            lambda y, xs: [autodiff.stop_gradient(g) for g in extend(y, xs)],
        ],
    ),
    "common_subexpressions": Case(
        right=shared,
        also=[lambda order: {node: shared(order).get(node) for node in order}],
        wrong=[
            lambda order: shared(order, resolve=False),
            lambda order: shared(order, alike=lambda operator, inputs: frozenset(inputs)),
            lambda order: shared(order, operator=type),
            lambda order: {a: b for b, a in shared(order).items()},  # backwards
            lambda order: {node: shared(order).get(node, node) for node in order},
            lambda order: {a: b.output for a, b in shared(order).items()},
            lambda order: list(shared(order)),
        ],
        told={
            "expected the first one": shared_with_the_nearest,
            "x · z and z · x": commutes,
            "over the same axis": lambda order: shared(order, operator=id),
            "changes `order`": lambda order: shared([order.pop(0) for _ in order[:]]),
            "x + z and z + x": lambda order: commutes(order, ("add",)),
        },
    ),
}
