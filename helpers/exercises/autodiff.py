"""Checks behind the exercises of 09, first half: operator, order, gradients, sharing."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from helpers.exercises.core import NotAttempted, call, close, exercise, wrong
from helpers.exercises.groups import in_case

if TYPE_CHECKING:
    from helpers.autodiff import Operator, Variable


@exercise
def four_numbers(value, with_w, with_b, with_x, *, w=3, x=2, b=-5):
    """The value of (w x + b)² x, and its three derivatives."""
    import torch

    w, x, b = (torch.tensor(float(n), requires_grad=True) for n in (w, x, b))
    y = (w * x + b) ** 2 * x
    y.backward()
    close(value, y.item(), "y")
    for name, got, leaf in (("w", with_w, w), ("b", with_b, b), ("x", with_x, x)):
        if name == "x" and got in ((w * x + b).item() ** 2, (2 * (w * x + b) * w * x).item()):
            wrong("∂y/∂x: x reaches y on two paths; this is the share of one of them")
        close(got, leaf.grad, f"∂y/∂{name}")


@exercise
def softplus_operator(answer):
    """answer() -> an operator: log(1 + exp(x)) in ``run``, the gradient as variables."""
    import numpy as np

    from helpers import autodiff

    operator = call(answer)
    if not isinstance(operator, autodiff.Operator):
        wrong(f"expected a class derived from autodiff.Operator, got one that makes {operator!r}")
    for dtype, rtol in (("float64", 1e-12), ("float32", 1e-5)):
        values = np.array([[-3.0, -0.5, 0.0], [0.25, 2.0, 7.0]], dtype)
        out = np.full_like(values, np.nan)
        _run(operator, out, values.copy())
        close(out, np.logaddexp(0, values), f"run, for {dtype}", rtol=rtol)
    large = np.array([-800.0, 800.0])
    out = np.full_like(large, np.nan)
    _run(operator, out, large.copy())
    close(out, np.array([0.0, 800.0]), "run, at -800 and 800 (exp overflows there)")

    x = autodiff.variable("x", shape=("n", 3))
    y = autodiff.apply(operator, x)
    if y.type != x.type:
        wrong(f"infer: of {x.type} it makes {y.type}")
    g = autodiff.variable("g", shape=("n", 3))
    parts = call(operator.gradient, g, y, x)
    if not isinstance(parts, (list, tuple)) or len(parts) != 1:
        wrong(f"gradient: expected a list with one variable for the one operand, got {parts!r}")
    if not isinstance(parts[0], autodiff.Variable):
        wrong(
            f"gradient: expected a variable of the graph, got {type(parts[0]).__name__}; "
            "compute with functions of autodiff, not of NumPy"
        )
    point = np.random.default_rng(0).normal(size=(2, 3))
    weight = np.random.default_rng(1).normal(size=(2, 3))
    made = autodiff.function([x, g], list(parts))
    close(made(point, weight)[0], weight / (1 + np.exp(-point)), "gradient")
    total = autodiff.sum(autodiff.apply(operator, x))
    (first,) = autodiff.gradients(total, [x])
    (second,) = autodiff.gradients(autodiff.sum(first), [x])
    slope = 1 / (1 + np.exp(-point))
    got = autodiff.function([x], [second])(point)[0]
    close(got, slope * (1 - slope), "the gradient of your gradient")


def _run(operator: Operator, out: Any, values: Any) -> None:
    """Run the reader's operator, which is to write into ``out`` and nowhere else."""
    import numpy as np

    before = values.copy()
    try:
        returned = operator.run(out, values)
    except NotImplementedError:
        raise NotAttempted("run is still the general operator's") from None
    except Exception as error:
        wrong(f"run raised {type(error).__name__}: {error}")
    if np.isnan(out).all():
        if returned is None and not operator.run.__code__.co_names:  # a stub calls nothing
            raise NotAttempted("run wrote nothing into out")
        wrong(
            "run: the array out is untouched; a return or `out = ` does not write into its memory"
        )
    if not np.array_equal(values, before):
        wrong("run: it has changed the operand x, which others may still read; write into out only")


def two_outputs() -> tuple[list[Variable], list[Variable]]:
    """A graph where a result is read twice, and one operator stands between two inputs."""
    from helpers import autodiff

    x, y = (autodiff.variable(name, shape=(3,)) for name in "xy")
    a = autodiff.exp(x)
    b = a * y
    c = autodiff.sin(a)
    d = b + c
    return [x, y], [d * a, autodiff.sum(c)]


@exercise(time_limit=10)
def topological_order(answer):
    """answer(outputs) -> the applications, each once, each after what it reads."""
    from helpers import autodiff

    @functools.wraps(answer)
    def listed(outputs):
        found = answer(outputs)  # a dictionary from applications to None is an order
        return list(found) if isinstance(found, Iterable) else found

    _, outputs = two_outputs()
    x = autodiff.variable("x", shape=(2,))
    twice = autodiff.tanh(x)
    deep = x
    for _ in range(5000):
        deep = autodiff.exp(deep)
    doubled = x
    for _ in range(60):
        doubled = doubled + doubled
    for what, wanted in (
        ("two outputs", outputs),
        ("an operator that reads its operand twice", [twice * twice]),
        ("one output twice", [twice, twice]),
        ("an output that another needs", [twice, autodiff.exp(twice)]),
        ("5 000 operators in a row", [deep]),
        ("60 sums of a result with itself, by 2⁶⁰ ways", [doubled]),
    ):
        given = list(wanted)
        with in_case(what, first=True):
            order = call(listed, given)
        if list(map(id, given)) != list(map(id, wanted)):  # == would make an application
            wrong(f"{what}: it changes `outputs`, which later cells use; left are {given}")
        _check_order(what, order, autodiff.topological(wanted))
    fed = answer([x])
    if fed is not None and list(fed):
        wrong(f"of an input alone, nothing has to be computed; got {fed!r}")


def _check_order(what: str, order: list, wanted: list) -> None:
    from helpers.autodiff.graph import Application

    for node in order:
        if not isinstance(node, Application):
            wrong(f"{what}: expected applications (a variable's .maker), got {node!r}")
    counts = Counter(order)
    for node, count in counts.items():
        if count > 1:
            wrong(f"{what}: {node!r} is listed {count} times")
    missing = [node for node in wanted if node not in counts]
    if missing:
        wrong(f"{what}: {len(missing)} of {len(wanted)} applications are missing")
    if len(order) > len(wanted):
        wrong(f"{what}: {len(order) - len(wanted)} applications too many")
    done: set = set()
    for node in order:
        for v in node.inputs:
            if v.maker is not None and v.maker not in done:
                wrong(f"{what}: {node!r} comes before {v.maker!r}, whose result it reads")
        done.add(node)


@exercise
def gradients_by_extension(answer):
    """answer(y, xs) -> for each x the variable ∂y/∂x of the same graph."""
    import numpy as np

    from helpers import autodiff

    x = autodiff.variable("x", shape=(2, 3))
    z = autodiff.variable("z", shape=(2, 3))
    h = autodiff.tanh(x)
    for what, y, xs in (
        ("y = sum(exp(x))", autodiff.sum(autodiff.exp(x)), [x]),
        ("a variable with two readers", autodiff.sum(h * autodiff.exp(h) + h), [x]),
        ("x and z", autodiff.sum(h * z / (1 + z * z)), [x, z]),
        ("with respect to something in between", autodiff.sum(h * h * z), [h, x]),
        ("y itself", autodiff.sum(x), [x]),
        ("where part of the graph is flat", autodiff.sum(autodiff.where(x > z, x * z, h)), [x, z]),
    ):
        _check_gradients(answer, what, y, xs, [x, z])
    apart = call(answer, autodiff.sum(h), [x, z])
    if len(apart) == 2 and apart[1] is None:
        wrong("where y does not depend on z: expected zeros of z's type, got None")
    _check_gradients(answer, "where y does not depend on z", autodiff.sum(h), [x, z], [x, z])

    total = autodiff.sum(autodiff.exp(x) * z)
    (first,) = call(answer, total, [x])
    (second,) = call(answer, autodiff.sum(first * first), [x])
    point = [np.random.default_rng(k).normal(size=(2, 3)) for k in range(2)]
    got = autodiff.function([x, z], [second])(*point)[0]
    close(got, 2 * (np.exp(point[0]) * point[1]) ** 2, "a gradient of your gradient")


def _check_gradients(answer: Any, what: str, y: Variable, xs: list, inputs: list) -> None:
    import numpy as np

    from helpers import autodiff

    got = call(answer, y, list(xs))
    if not isinstance(got, (list, tuple)) or len(got) != len(xs):
        wrong(f"{what}: expected {len(xs)} gradients, one for each x; got {got!r}")
    for v, each in zip(xs, got, strict=True):
        if not isinstance(each, autodiff.Variable):
            wrong(f"{what}: expected a variable of the graph, got {each!r}")
        if each.type != v.type:
            wrong(f"{what}: a gradient of {v.type} has type {each.type}")
    arrays = [np.random.default_rng(k).normal(size=(2, 3)) for k in range(len(inputs))]
    mine = autodiff.function(inputs, list(got))(*arrays)
    true = autodiff.function(inputs, autodiff.gradients(y, xs))(*arrays)
    for v, value, wanted in zip(xs, mine, true, strict=True):
        close(value, wanted, f"{what}: ∂y/∂{v.name or 'h'}", rtol=1e-9)


@exercise
def common_subexpressions(answer):
    """answer(order) -> {application: the earlier application that computes the same}."""
    from helpers import autodiff

    x, z = (autodiff.variable(name, shape=(3, 3)) for name in "xz")

    @functools.wraps(answer)
    def both(order):
        return answer(order), order  # {node: None} is an answer, and no stub's

    def twice(what):
        return what() + what()

    far = autodiff.sin(autodiff.exp(x))
    for what, outputs in (
        ("exp(x) + exp(x)", [twice(lambda: autodiff.exp(x))]),
        ("exp(x) + exp(x) + exp(x)", [twice(lambda: autodiff.exp(x)) + autodiff.exp(x)]),
        ("a product of sines, three times", [twice(lambda: autodiff.sin(x) * autodiff.sin(x))]),
        ("sums over different axes", [autodiff.sum(x, axis=0) * autodiff.sum(x, axis=1)]),
        ("sums over the same axis", [autodiff.sum(x, axis=0) * autodiff.sum(x, axis=0)]),
        ("x − z and z − x", [(x - z) * (z - x)]),
        ("x · z and z · x", [(x * z) - (z * x)]),
        ("x + z and z + x", [(x + z) - (z + x)]),
        ("exp(x) and exp(z)", [autodiff.exp(x) * autodiff.exp(z)]),
        ("nothing twice", [autodiff.exp(x) * autodiff.sin(x)]),
        ("results that lie far apart", [autodiff.tanh(far) * z, autodiff.sin(autodiff.exp(x))]),
        ("a gradient", autodiff.gradients(autodiff.sum(autodiff.softmax(x, fine=True) * z), [x])),
    ):
        order = autodiff.topological(outputs)
        found, given = call(both, list(order))
        if found is None:
            raise NotAttempted("it returned None")
        if given != order:
            wrong(f"{what}: it changes `order`, which later cells use; left are {given}")
        _check_shared(what, found, order)


def _check_shared(what: str, found: Any, order: list) -> None:
    if not isinstance(found, dict):
        wrong(f"{what}: expected a dictionary application → application, got {found!r}")
    place = {node: i for i, node in enumerate(order)}
    first: dict = {}  # what is computed -> a number for it
    number: dict = {}  # variable -> the number of its value
    computes: dict = {}
    for node in order:
        key = (node.operator, tuple(number.get(v, v) for v in node.inputs))
        computes[node] = number[node.output] = first.setdefault(key, len(first))
    for node, earlier in found.items():
        if earlier is None:
            continue
        if earlier is node:
            wrong(f"{what}: {node!r} is its own earlier application; leave such out")
        if earlier not in place:
            wrong(f"{what}: for {node!r} expected an application, got {earlier!r}")
        if computes[earlier] != computes[node]:
            wrong(
                f"{what}: {node!r} and {earlier!r} differ in the operator, in what they read or in "
                "the order of it"
            )
        if place[earlier] > place[node]:
            wrong(f"{what}: {earlier!r} runs later than {node!r}, which is to use its result")
        if earlier is not next(one for one in order if computes[one] == computes[node]):
            wrong(f"{what}: {earlier!r} repeats an application, too; expected the first one")
    known: set = set()
    for node in order:
        missing = found.get(node) is None
        if computes[node] in known and missing:
            wrong(f"{what}: {node!r} is computed once more; an earlier application has its value")
        known.add(computes[node])
