"""Checks behind exercises of A5: a loop's gradient, a rule that rewrites a graph."""

from __future__ import annotations

from typing import Any

from helpers.exercises.answers import several
from helpers.exercises.core import NotAttempted, call, close, counted, exercise, line_of, wrong


@exercise
def back_step(answer):
    """answer(dh, dU, x, h, U) -> one step of h ← tanh(x + h U) backwards: the new dh and dU."""
    import numpy as np
    import torch

    rng = np.random.default_rng(0)
    for rows, width, steps in ((1, 1, 1), (3, 4, 1), (3, 4, 5)):
        what = f"{counted(rows, 'row')}, {counted(width, 'unit')}, {counted(steps, 'step')}"
        xs, g = rng.normal(size=(steps, rows, width)), rng.normal(size=(rows, width))
        start, U, dU = rng.normal(size=(rows, width)), *rng.normal(size=(2, width, width))
        u, first = (torch.tensor(each, requires_grad=True) for each in (U, start))
        states = [first]
        for x in torch.tensor(xs):
            states.append(torch.tanh(x + states[-1] @ u))
        grads = torch.autograd.grad((states.pop() * torch.tensor(g)).sum(), [first, u])
        dh, wanted = g, (grads[0].numpy(), dU + grads[1].numpy())
        for x, h in zip(xs[::-1], [state.detach().numpy() for state in states[::-1]], strict=True):
            lent = [each.copy() for each in (x, h, U)]
            found = several(call(answer, dh.copy(), dU.copy(), *lent), 2, f"{what}: dh and dU")
            for name, before, after in zip("xhU", (x, h, U), lent, strict=True):
                if not np.array_equal(before, after):
                    wrong(f"{what}: it has changed its argument {name}")
            for name, got, like in zip(("dh", "dU"), found, (dh, dU), strict=True):
                if type(got) is not np.ndarray or got.shape != like.shape:
                    wrong(f"{what}: {name} should be an array {like.shape}, got {_kind(got)}")
            dh, dU = found
        close(dh, wanted[0], f"{what}: dh, before all of them", rtol=1e-7)
        close(dU, wanted[1], f"{what}: dU, with what was added before", rtol=1e-7)


def _kind(got: Any) -> str:
    return f"a {type(got).__name__} {getattr(got, 'shape', '')}".rstrip()


@exercise
def averaging_rule(answer):
    """answer(node, operands, gradients, average) -> what replaces node's output, None: nothing."""
    import numpy as np

    from helpers import autodiff
    from helpers.autodiff.rewriting import rebuild

    x, w, v = inputs = [autodiff.variable(name, shape=(3,)) for name in "xwv"]
    loss = autodiff.sum(autodiff.tanh(x * w) * v)
    first, second = autodiff.gradients(loss, [w, v])
    further = autodiff.exp(first) * v
    arrays = [np.random.default_rng(k).normal(size=3) for k in range(3)]
    for what, gradients, outputs in (
        ("one gradient", [first], [w - first]),
        ("two gradients, and the loss", [first, second], [loss, w - first, v - second]),
        ("a gradient that is read twice", [second], [second, v - second, v * second]),
        ("a gradient computed from another", [first, further], [w - first, v - further]),
    ):
        asked: list = []
        order = [node.output for node in autodiff.topological(outputs)]

        def average(g, asked=asked):
            if not isinstance(g, autodiff.Variable):
                wrong(f"average expects a variable of the graph; got {g!r}")
            asked.append(g)
            return 0.25 * g + 1.0

        def rule(node, operands, gradients=gradients, average=average, what=what):
            try:
                found = answer(node, operands, list(gradients), average)
            except Exception as error:
                wrong(f"{what}: it raised {type(error).__name__}: {error}{line_of(error)}")
            if found is not None and not isinstance(found, autodiff.Variable):
                wrong(f"{what}: expected a variable or None, got {found!r}")
            return found

        new = rebuild(outputs, rule, inputs)
        if not asked and new == outputs:
            raise NotAttempted("it returned None for every application")
        if len(asked) != len(gradients):
            wrong(f"{what}: {counted(len(asked), 'average')} for {len(gradients)} of {len(order)}")
        good = rebuild(outputs, _rule(gradients), inputs)
        got, wanted = (autodiff.function(inputs, each)(*arrays) for each in (new, good))
        for number, pair in enumerate(zip(got, wanted, strict=True)):
            close(*pair, f"{what}: output {number} of the new graph", rtol=1e-9)


def _rule(gradients: list) -> Any:
    """The rule that is expected, with the check's average."""
    from helpers import autodiff

    def rule(node, operands):
        if node.output in gradients:
            return 0.25 * autodiff.apply(node.operator, *operands) + 1.0
        return None

    return rule
