"""Answers to the exercises of 09's second half: right ones, and wrong ones of a reader."""

from collections import Counter

import numpy as np

from helpers import autodiff
from helpers.autodiff import checkpoint
from helpers.autodiff.checkpoint import Action
from tests.exercises.case import Case


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


def in_tuples(steps, segments):
    """Plain tuples, segments from the other end, the rest in the first segment."""
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


def momentum(w, v, g, rate):
    faster = autodiff.update(v, 0.9 * v + g)
    return [faster, autodiff.add_update(w, -rate * faster)]


def by_one_update(w, v, g, rate):
    """Right: the new velocity computed once, written twice, in the other order and as a tuple."""
    faster = 0.9 * v + g
    return autodiff.update(w, w - rate * faster), autodiff.add_update(v, faster - v)


def block(Q, K, V, g, out, log_sum, weights=lambda S, logs: np.exp(S - logs), keep=True, d=None):
    A = weights(Q @ K.T, log_sum)
    dA = g @ V.T
    sums = (g * out if d is None else d(A, dA)).sum(axis=1, keepdims=keep)
    dS = A * (dA - sums)
    return dS @ K, dS.T @ Q, A.T @ g


def by_einsum(Q, K, V, g, out, log_sum):
    """Right: the weights by a quotient of safe exponentials, sums by einsum, in a list."""
    S = np.einsum("id,jd->ij", Q, K)
    top = S.max(axis=1, keepdims=True)
    A = np.exp(S - top) / np.exp(log_sum - top)
    dS = A * np.einsum("ic,ijc->ij", g, V[None] - out[:, None])
    return [dS @ K, np.einsum("ij,id->jd", dS, Q), np.einsum("ij,ic->jc", A, g)]


def anew(S, logs):
    """Wrong with some of the keys: a softmax over those of the block."""
    weights = np.exp(S - S.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def by_torch(*given):
    import torch

    return tuple(map(torch.as_tensor, block(*given)))


def over_its_argument(Q, K, V, g, out, log_sum):
    found = block(Q, K, V, g, out, log_sum)
    out *= g
    return found


def first_operands_alone(order, inputs, outputs):
    found = forward(order, inputs, outputs)
    return {node: over for node, over in found.items() if over is node.inputs[0]}


CASES = {
    "attention_block": Case(
        right=block,
        also=[by_einsum],
        wrong=[
            lambda *a: block(*a, weights=anew),
            lambda *a: block(*a, weights=lambda S, logs: np.exp(S) / np.exp(logs)),  # overflows
            lambda *a: block(*a, d=lambda A, dA: A * dA),  # right with all keys
            lambda *a: block(*a, d=lambda A, dA: 0 * A),  # no softmax's gradient
            lambda *a: block(*a, keep=False),
            lambda *a: [block(*a)[k] for k in (0, 2, 1)],
            lambda *a: block(*a)[0],
        ],
        told={"its argument out": over_its_argument, "dQ is a Tensor": by_torch},
    ),
    "momentum": Case(
        right=momentum,
        also=[by_one_update],
        wrong=[
            lambda w, v, g, rate: [
                autodiff.add_update(w, -rate * v),
                autodiff.update(v, 0.9 * v + g),
            ],
            lambda w, v, g, rate: [0.9 * v + g, w - rate * (0.9 * v + g)],
            lambda w, v, g, rate: [autodiff.add_update(w, -rate * (0.9 * v + g))],
            lambda w, v, g, rate: autodiff.update(v, 0.9 * v + g),
        ],
    ),
    "overwriting": Case(
        right=forward,
        also=[last_by_position],
        wrong=[
            lambda *a: forward(*a, last=False),
            first_operands_alone,
            lambda *a: forward(*a, fed=False),
            lambda *a: forward(*a, wanted=False),
            lambda *a: forward(*a, types=False),
            lambda *a: forward(*a, allowed=False),
            lambda *a: dict(list(forward(*a).items())[:1]),
            lambda *a: list(forward(*a)),
        ],
        told={
            "node.inputs": lambda *a: {n: n.inputs.index(v) for n, v in forward(*a).items()},
        },
    ),
    "sqrt_schedule": Case(
        right=checkpoint.in_segments,
        also=[lambda n, m: tuple(Action(*each) for each in in_tuples(n, m))],
        wrong=[
            lambda n, m: checkpoint.keep_all(n),
            lambda n, m: checkpoint.optimal(n, 2),
            lambda n, m: [Action("backward", i) for i in range(n, 0, -1)],
            in_tuples,  # the next cells ask each for its `kind`
            lambda n, m: iter(checkpoint.in_segments(n, m)),  # and go through them twice
        ],
    ),
}
