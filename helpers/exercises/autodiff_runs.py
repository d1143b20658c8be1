"""Checks behind the exercises of 09, second half: memory, recomputation, state, loops, ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.exercises.autodiff import two_outputs
from helpers.exercises.core import NotAttempted, call, close, exercise, wrong

if TYPE_CHECKING:
    from helpers.autodiff import Operator, Variable


@exercise
def forwarding(answer):
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
        _check_forwarding(what, found, order, inputs, outputs)


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


def _check_forwarding(what: str, found: Any, order: list, inputs: list, outputs: list) -> None:
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
        where = f"{what}: {node.operator} would write over"
        if not any(over is v for v in node.inputs):
            wrong(f"{where} something that it does not read")
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
        what = f"{_number(steps, 'step')} in {_number(parts, 'segment')}"
        schedule = [_action(what, each) for each in call(answer, steps, parts)]
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


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}"


def _action(what: str, given: Any) -> Any:
    from helpers.autodiff.checkpoint import Action

    if isinstance(given, tuple) and len(given) == 2:
        given = Action(*given)
    if not isinstance(given, Action) or given.kind not in ("forward", "backward", "forget"):
        wrong(f'{what}: expected Action("forward" | "backward" | "forget", step), got {given!r}')
    return given


@exercise
def momentum(answer):
    """answer(w, v, g, rate) -> the updates v ← 0.9 v + g and w ← w − rate · v, with the new v."""
    import numpy as np

    from helpers import autodiff
    from helpers.autodiff import passes

    rng = np.random.default_rng(0)
    for rate in (0.1, 0.02):
        weight, speed, target = (rng.normal(size=3) for _ in range(3))
        w, v = autodiff.state("w", weight), autodiff.state("v", speed)
        x = autodiff.variable("x", shape=(3,))
        (g,) = autodiff.gradients(autodiff.sum((w - x) * (w - x)), [w])
        updates = call(answer, w, v, g, rate)
        if not isinstance(updates, (list, tuple)):
            wrong(f"expected a list of two updates, got {updates!r}")
        for each in updates:
            if not isinstance(each, autodiff.Variable):
                wrong(f"expected variables, results of update and add_update; got {each!r}")
        try:
            step = autodiff.function([x], list(updates), passes=[passes.order_updates])
        except ValueError as error:
            wrong(f"these updates cannot be put in order: {error}")
        for number in (1, 2, 3):
            step(target)
            speed = 0.9 * speed + 2 * (weight - target)
            weight = weight - rate * speed
            close(v.value, speed, f"v after step {number}, at a rate of {rate}")
            close(w.value, weight, f"w after step {number}, at a rate of {rate}")


@exercise
def moving_average(answer):
    """answer(xs, start, beta) -> (T,): m_t = beta m_{t−1} + (1 − beta) x_t, for any T."""
    import numpy as np

    from helpers import autodiff

    xs = autodiff.variable("xs", shape=("T",))
    start, beta = autodiff.variable("start"), autodiff.variable("beta")
    made = call(answer, xs, start, beta)
    if not isinstance(made, autodiff.Variable):
        wrong(f"expected a variable of the graph, got {made!r}")
    if made.type != xs.type:
        wrong(f"expected all m_t, {xs.type}; got {made.type}")
    total = autodiff.sum(made * made)
    f = autodiff.function([xs, start, beta], [made, *autodiff.gradients(total, [beta, start])])
    for length in (1, 2, 7):
        values = np.random.default_rng(length).normal(size=length)
        m, by_beta, by_start = 0.4, 0.0, 1.0  # and the derivatives of m, carried along
        wanted, to_beta, to_start = [], 0.0, 0.0
        for value in values:
            by_beta, by_start = m + 0.7 * by_beta - value, 0.7 * by_start
            m = 0.7 * m + 0.3 * value
            wanted.append(m)
            to_beta, to_start = to_beta + 2 * m * by_beta, to_start + 2 * m * by_start
        got = f(values, np.array(0.4), np.array(0.7))
        close(got[0], np.array(wanted), f"T = {length}: m")
        close(got[1], to_beta, f"T = {length}: the gradient of the sum of m² by beta")
        close(got[2], to_start, f"T = {length}: the gradient of the sum of m² by start")


@exercise
def posted_early(answer):
    """answer(weights, gradients, post, arrive) -> the means, each posted as early as possible."""
    import numpy as np

    from helpers import autodiff

    for layers in (2, 4):
        seen: list = []
        h = x = autodiff.variable("x", shape=(3, 3))
        weights = [autodiff.state(f"W{k}", np.eye(3) * (k + 1)) for k in range(1, layers + 1)]
        for w in weights:
            h = autodiff.tanh(h @ w)
        gradients = autodiff.gradients(autodiff.sum(h), weights)
        watched = [
            _noting(g, ("made", w.name), seen) for w, g in zip(weights, gradients, strict=True)
        ]
        names = {g: w.name for w, g in zip(weights, watched, strict=True)}

        def post(g, after=(), names=names, seen=seen):
            if g not in names:
                wrong(f"post expects one of the gradients; got {g!r}")
            return _noting(g, ("post", names[g]), seen, after, 10.0)

        def arrive(posted, after=(), seen=seen):
            label = getattr(getattr(posted.maker, "operator", None), "label", ("", ""))
            if label[0] != "post":
                wrong(f"arrive expects a variable that post made; got {posted!r}")
            return _noting(posted, ("arrive", label[1]), seen, after)

        means = call(answer, list(weights), list(watched), post, arrive)
        if not isinstance(means, (list, tuple)) or len(means) != layers:
            wrong(f"expected {layers} means, one for each weight; got {means!r}")
        for w, mean in zip(weights, means, strict=True):
            label = getattr(getattr(getattr(mean, "maker", None), "operator", None), "label", None)
            if label != ("arrive", w.name):
                wrong(f"in the place of {w.name}: expected what arrive made of its gradient")
        point = np.random.default_rng(0).normal(size=(3, 3))
        autodiff.function([x], list(means))(point)
        _check_early(seen, [w.name for w in weights])


def _noting(
    v: Variable, label: tuple[str, str], seen: list, after: Any = (), factor: float = 1.0
) -> Variable:
    """A copy of a variable that notes when it is made."""
    from dataclasses import dataclass

    from helpers import autodiff

    @dataclass(frozen=True, eq=False)
    class Noting(autodiff.Operator):
        label: tuple[str, str]

        def infer(self, x):
            return x

        def run(self, out, x):
            seen.append(self.label)
            out[...] = x * factor

    return autodiff.apply(Noting(label), v, after=list(after))


def _check_early(seen: list, names: list) -> None:
    layers = len(names)
    posts = [name for kind, name in seen if kind == "post"]
    if len(posts) != layers:
        wrong(f"{layers} gradients were posted {len(posts)} times")
    kinds = [kind for kind, _ in seen]
    if "arrive" in kinds[: len(seen) - kinds[::-1].index("post")]:
        wrong("a rank waits for a mean while a gradient is still to be posted: nothing overlaps")
    ready = "the last weight's gradient is complete first, long before"
    if posts[0] != names[-1]:
        wrong(f"the gradient of {posts[0]} was posted first; {ready}")
    unposted = 0
    for kind, name in seen:
        unposted += {"made": 1, "post": -1}.get(kind, 0)
        if unposted > 1:
            wrong(f"the gradient of {name} is made before the one before it has been posted")
