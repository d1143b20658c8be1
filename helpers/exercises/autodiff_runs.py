"""Checks behind the exercises of 09, second half, and of A5: memory, recomputation, state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.exercises.answers import several
from helpers.exercises.autodiff import two_outputs
from helpers.exercises.core import NotAttempted, call, close, counted, exercise, wrong

if TYPE_CHECKING:
    from helpers.autodiff import Operator


@exercise
def overwriting(answer):
    """answer(order, inputs, outputs) -> {application: operand that it may write over}."""
    from helpers import autodiff
    from helpers.autodiff.reach import needed

    x, z = (autodiff.variable(name, shape=(8,)) for name in "xz")
    a = autodiff.exp(x)
    b = autodiff.tanh(a)
    square = autodiff.reshape(x, (2, 4)) @ autodiff.reshape(z, (4, 2))
    for what, outputs in (
        ("exp, tanh and sin in a row", [autodiff.sin(b)]),
        ("a result that is read again later", [autodiff.sin(b) * a]),
        ("a result that is wanted at the end", [autodiff.sin(a), a]),
        ("an operand that comes twice", [autodiff.sin(a * a)]),
        ("operands of one operator that both could go", [autodiff.sin(x) * autodiff.exp(z)]),
        ("what the caller fed", [x + z]),
        ("an operator whose second operand alone can go", [x - autodiff.exp(z)]),
        ("an operator that cannot work in place", [autodiff.softmax(a.T) + autodiff.sum(a)]),
        ("a product of matrices, which reads all of both", [autodiff.exp(square) @ square]),
        ("a result of another dtype", [autodiff.apply(_smaller("float32", (8,)), b)]),
        ("a result of half the size", [autodiff.apply(_smaller("float64", (4,)), b)]),
        ("a larger graph", two_outputs()[1]),
    ):
        inputs = [x, z] if what != "a larger graph" else _fed(outputs)
        inputs = [
            v for v in inputs if any(v in node.inputs for node in autodiff.topological(outputs))
        ]
        order = needed(inputs, outputs)
        found = answer(list(order), list(inputs), list(outputs))
        if found is None:
            raise NotAttempted("it returned None")
        _check_overwriting(what, found, order, inputs, outputs)


def _smaller(dtype: str, shape: tuple[int, ...]) -> Operator:
    """An operator that could write over its operand, if only that had the result's type."""
    from dataclasses import dataclass

    import numpy as np

    from helpers import autodiff
    from helpers.autodiff.operator import Type

    @dataclass(frozen=True)
    class Smaller(autodiff.Operator):
        in_place = (0,)

        def infer(self, x):
            return Type(np.dtype(dtype), shape)

        def __str__(self):
            return "an operator with a smaller result"

    return Smaller()


def _fed(outputs: list) -> list:
    from helpers import autodiff

    read = {v: None for node in autodiff.topological(outputs) for v in node.inputs}
    return [v for v in read if v.maker is None]


def _check_overwriting(what: str, found: Any, order: list, inputs: list, outputs: list) -> None:
    if not isinstance(found, dict):
        wrong(f"{what}: expected a dictionary application → operand, got {type(found).__name__}")
    last = {v: i for i, node in enumerate(order) for v in node.inputs}
    best: dict = {}
    for i, node in enumerate(order):
        over = found.get(node)
        fits = [
            node.inputs[k]
            for k in node.operator.in_place
            if node.inputs[k].type == node.output.type
            and node.inputs[k] not in inputs
            and node.inputs[k] not in outputs
            and last[node.inputs[k]] == i
        ]
        if fits:
            best[node] = fits
        if over is None or any(over is v for v in fits):
            continue
        if not any(over is v for v in node.inputs):
            wrong(f"{what}: for {node.operator} expected one of node.inputs, got {over!r}")
        where = f"{what}: {node.operator} would write over"
        if over in inputs:
            wrong(f"{where} {over.name!r}, an array of the caller's")
        if over in outputs:
            wrong(f"{where} a result that is wanted at the end")
        if last[over] != i:
            reader = order[last[over]].operator
            wrong(f"{where} an operand that {reader} reads afterwards")
        if over.type != node.output.type:
            wrong(f"{where} an operand of another type: {over.type} in place of {node.output.type}")
        wrong(f"{where} an operand that it does not allow (operator.in_place)")
    missed = [node for node in best if found.get(node) is None]
    if missed:
        wrong(f"{what}: {missed[0].operator} makes a new buffer where it could write over one")


@exercise
def sqrt_schedule(answer):
    """answer(steps, segments) -> a schedule: what is computed, used and forgotten, in order."""
    from helpers.autodiff import checkpoint

    for steps, parts in ((1, 1), (9, 3), (10, 3), (12, 4), (7, 7), (7, 1), (100, 10)):
        what = f"{counted(steps, 'step')} in {counted(parts, 'segment')}"
        schedule = call(answer, steps, parts)
        if not isinstance(schedule, list | tuple):  # it is gone through more than once
            wrong(f"{what}: expected a list of actions, got a {type(schedule).__name__}")
        for each in schedule:
            _is_action(what, each)
        try:
            found = checkpoint.cost(steps, schedule)
        except (ValueError, KeyError) as error:
            reason = (
                f"forgets x_{error}, which is not held" if isinstance(error, KeyError) else error
            )
            wrong(f"{what}: {reason}")
        most = parts + -(-steps // parts)
        if found.peak > most:
            wrong(f"{what}: {found.peak} x's are held at one time; {most} suffice")
        if found.forwards > 2 * steps:
            wrong(f"{what}: {found.forwards} steps forward; each may be taken twice, not more")


def _is_action(what: str, given: Any) -> None:
    from helpers.autodiff.checkpoint import Action

    if not isinstance(given, Action) or given.kind not in ("forward", "backward", "forget"):
        wrong(f'{what}: expected Action("forward" | "backward" | "forget", step), got {given!r}')


@exercise
def momentum(answer, keep=0.9):
    """answer(w, v, g, rate) -> the updates v ← keep v + g and w ← w − rate · v, with the new v."""
    import numpy as np

    from helpers import autodiff
    from helpers.autodiff import passes

    rng = np.random.default_rng(0)
    for rate in (0.1, 0.02):
        weight, speed, target = (rng.normal(size=3) for _ in range(3))
        w, v = autodiff.state("w", weight), autodiff.state("v", speed)
        x = autodiff.variable("x", shape=(3,))
        (g,) = autodiff.gradients(autodiff.sum((w - x) * (w - x)), [w])
        updates = several(call(answer, w, v, g, rate), 2, "expected a list of two updates")
        for each in updates:
            if not isinstance(each, autodiff.Variable):
                wrong(f"expected variables, results of update and add_update; got {each!r}")
        try:
            step = autodiff.function([x], list(updates), passes=[passes.order_updates])
        except ValueError as error:
            wrong(f"these updates cannot be put in order: {error}")
        for number in (1, 2, 3):
            step(target)
            speed = keep * speed + 2 * (weight - target)
            weight = weight - rate * speed
            close(v.value, speed, f"v after step {number}, at a rate of {rate}")
            close(w.value, weight, f"w after step {number}, at a rate of {rate}")


@exercise
def attention_block(answer):
    """answer(Q, K, V, g, out, log_sum) -> what a block adds to the gradients of Q, K and V."""
    import numpy as np

    rng = np.random.default_rng(0)
    Q, K = rng.normal(size=(5, 4)), rng.normal(size=(7, 4))
    V, g = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    for what, b, k, far in (
        ("all queries, all keys", slice(None), slice(None), 0.0),
        ("2 of 5 queries, 4 of 7 keys", slice(1, 3), slice(2, 6), 0.0),
        ("products of 800 and more", slice(1, 3), slice(2, 6), 800.0),
    ):
        near = np.hstack([Q, np.ones((5, 1))]), np.hstack([K, np.full((7, 1), far)])
        S = near[0] @ near[1].T
        log_sum = S.max(axis=1, keepdims=True)
        log_sum += np.log(np.exp(S - log_sum).sum(axis=1, keepdims=True))
        A = np.exp(S - log_sum)
        slopes = A * (g @ V.T - (A * (g @ V.T)).sum(axis=1, keepdims=True))
        given = near[0][b], near[1][k], V[k], g[b], (A @ V)[b], log_sum[b]
        lent = [each.copy() for each in given]
        with np.errstate(all="ignore"):
            found = several(call(answer, *lent), 3, f"{what}: expected three arrays, dQ, dK and dV")
        for name, before, after in zip(
            ("Q", "K", "V", "g", "out", "log_sum"), given, lent, strict=True
        ):
            if not np.array_equal(before, after):
                wrong(f"{what}: it has changed its argument {name}, which other blocks read")
        dS = slopes[b, k]
        wanted = dS @ given[1], dS.T @ given[0], A[b, k].T @ given[3]
        for name, got, want in zip(("dQ", "dK", "dV"), found, wanted, strict=True):
            if type(got) is not np.ndarray:
                wrong(f"{what}: {name} is a {type(got).__name__}, expected an array of NumPy")
            close(got, want, f"{what}: {name}", rtol=1e-7)
