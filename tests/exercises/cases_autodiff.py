"""Answers to the exercises of 09: right ones, and wrong ones that a reader could write."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from helpers import autodiff
from helpers.autodiff import checkpoint
from helpers.autodiff.checkpoint import Action
from helpers.autodiff.constants import full_like
from tests.exercises.case import Case

# ---------------------------------------------------------------------------------- an operator


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


class ForgetsTheChain(Softplus):
    def gradient(self, g, y, x):
        return [autodiff.sigmoid(x)]


class InNumPy(Softplus):
    def gradient(self, g, y, x):
        return [np.ones(3)]


class SlopeOfSigmoid(Softplus):
    def gradient(self, g, y, x):
        return [g * autodiff.sigmoid(x) * (1 - autodiff.sigmoid(x))]


class NotAList(Softplus):
    def gradient(self, g, y, x):
        return g * autodiff.sigmoid(x)


class StoppedGradient(Softplus):
    """Right once, not twice."""

    def gradient(self, g, y, x):
        return [g * autodiff.stop_gradient(autodiff.sigmoid(x))]


# ------------------------------------------------------------------------------------- the order


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


def with_repeats(outputs):
    order = kahn(outputs)
    return order[:1] + order


def only_the_first(outputs):
    return kahn(outputs[:1])


def variables(outputs):
    return [node.output for node in kahn(outputs)]


# ----------------------------------------------------------------------------------- gradients


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


def recursively(y, xs):
    """Right, from the other end: the gradient of v is what its readers say."""
    order = autodiff.topological([y])

    def of(v):
        shares = [full_like(v, 1 if v is y else 0)]
        for node in order:
            if v in node.inputs:
                parts = node.operator.gradient(of(node.output), node.output, *node.inputs)
                shares += [p for w, p in zip(node.inputs, parts, strict=True)
                           if w is v and p is not None]  # fmt: skip
        total = shares[0]
        for share in shares[1:]:
            total = total + share
        return total

    return [of(v) for v in xs]


# ------------------------------------------------------------------------------------ forwarding


def forward(order, inputs, outputs, *, last=True, fed=True, wanted=True, types=True, allowed=True):
    readers = Counter(v for node in order for v in set(node.inputs))
    found = {}
    for node in order:
        for v in set(node.inputs):
            readers[v] -= 1
        places = node.operator.in_place if allowed else range(len(node.inputs))
        for k in places:
            v = node.inputs[k]
            if (
                (not types or v.type == node.output.type)
                and (not last or readers[v] == 0)
                and (not fed or v not in inputs)
                and (not wanted or v not in outputs)
            ):
                found[node] = v
                break
    return found


def last_by_position(order, inputs, outputs):
    """Right: the last reader by its place, the last operand that fits, None for the others."""
    last = {v: i for i, node in enumerate(order) for v in node.inputs}
    found = {}
    for i, node in enumerate(order):
        fits = [node.inputs[k] for k in node.operator.in_place]
        fits = [v for v in fits if v.type == node.output.type and last[v] == i and v.maker]
        fits = [v for v in fits if v not in outputs and v not in inputs]
        found[node] = fits[-1] if fits else None
    return found


# --------------------------------------------------------------------------------- recomputation


def in_tuples(steps, segments):
    """Right: plain tuples, segments from the other end, the rest in the first segment."""
    starts = sorted({max(0, steps - -(-steps // segments) * k) for k in range(1, segments + 1)})
    schedule = []
    for i in range(1, starts[-1] + 1):
        schedule.append(("forward", i))
        if i - 1 not in starts:
            schedule.append(("forget", i - 1))
    for start, stop in zip(starts[::-1], [steps, *starts[:0:-1]], strict=True):
        schedule += [("forward", i) for i in range(start + 1, stop)]
        for i in range(stop, start, -1):
            schedule += [("backward", i), ("forget", i - 1)]
    return schedule


def forgets_too_much(steps, segments):
    schedule = checkpoint.in_segments(steps, segments)
    return [a for i, a in enumerate(schedule) if a.kind != "forward" or i < steps]


def never_forgets(steps, segments):
    return [a for a in checkpoint.in_segments(steps, segments) if a.kind != "forget"]


# ---------------------------------------------------------------------------------------- state


def momentum(w, v, g, rate):
    faster = autodiff.update(v, 0.9 * v + g)
    return [faster, autodiff.add_update(w, -rate * faster)]


def by_one_update(w, v, g, rate):
    """Right: the new velocity computed once, written twice, in the other order and as a tuple."""
    faster = 0.9 * v + g
    return autodiff.update(w, w - rate * faster), autodiff.add_update(v, faster - v)


def by_the_old_velocity(w, v, g, rate):
    return [autodiff.add_update(w, -rate * v), autodiff.update(v, 0.9 * v + g)]


def without_updates(w, v, g, rate):
    return [0.9 * v + g, w - rate * (0.9 * v + g)]


def only_the_weight(w, v, g, rate):
    return [autodiff.add_update(w, -rate * (0.9 * v + g))]


CASES = {
    "four_numbers": Case(
        right=(2, 8, 4, 13),
        also=[(2.0, np.float64(8), 4, 13.0)],
        wrong=[(2, 8, 4, 1), (2, 8, 4, 12), (2, 4, 4, 13), (1, 8, 4, 13)],
    ),
    "softplus_operator": Case(
        right=Softplus,
        also=[ByItsResult],
        wrong=[Overflows, ReturnsIt, ForgetsTheChain, InNumPy, SlopeOfSigmoid, NotAList,
               StoppedGradient, dict],
    ),
    "topological_order": Case(
        right=autodiff.topological,
        also=[kahn, lambda outputs: tuple(kahn(outputs))],
        wrong=[recursive, breadth_first, with_repeats, only_the_first, variables,
               lambda outputs: kahn(outputs)[::-1]],
    ),
    "gradients_by_extension": Case(
        right=extend,
        also=[autodiff.gradients, recursively],
        wrong=[
            lambda y, xs: extend(y, xs, add=False),
            lambda y, xs: extend(y, xs, zeros=False),
            lambda y, xs: extend(y, xs, backwards=False),
            lambda y, xs: [autodiff.stop_gradient(g) for g in extend(y, xs)],
            lambda y, xs: extend(y, xs)[:1],
        ],
    ),
    "forwarding": Case(
        right=forward,
        also=[last_by_position],
        wrong=[
            lambda *a: forward(*a, last=False),
            lambda *a: forward(*a, fed=False),
            lambda *a: forward(*a, wanted=False),
            lambda *a: forward(*a, types=False, allowed=False),
            lambda *a: dict(list(forward(*a).items())[:1]),
            lambda *a: list(forward(*a)),
        ],
    ),
    "momentum": Case(
        right=momentum,
        also=[by_one_update],
        wrong=[by_the_old_velocity, without_updates, only_the_weight,
               lambda w, v, g, rate: autodiff.update(v, 0.9 * v + g),
               lambda w, v, g, rate: momentum(w, v, g, -rate)],
    ),
    "sqrt_schedule": Case(
        right=checkpoint.in_segments,
        also=[in_tuples],
        wrong=[
            lambda n, m: checkpoint.keep_all(n),
            lambda n, m: checkpoint.optimal(n, 2),
            forgets_too_much,
            never_forgets,
            lambda n, m: [Action("backward", i) for i in range(n, 0, -1)],
            lambda n, m: list(range(n)),
        ],
    ),
}  # fmt: skip
