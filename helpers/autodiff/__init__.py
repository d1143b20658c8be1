"""A computation graph from scratch: types, gradients, execution, in modules to be read aloud.

    >>> from helpers import autodiff
    >>> x = autodiff.variable("x", shape=("n", 3))
    >>> y = autodiff.sum(autodiff.exp(x) * x)
    >>> (g,) = autodiff.gradients(y, [x])
    >>> step = autodiff.function([x], [y, g])        # arrays in, a list of arrays out

:mod:`.graph` has variables and what operators are applied to, :mod:`.operator` what an operator is,
:mod:`.sizes` the sizes that may be symbols. The operators are in :mod:`.constants`,
:mod:`.elementwise`, :mod:`.shaping`, :mod:`.broadcasting`, :mod:`.reductions`, :mod:`.products`,
:mod:`.loop` and :mod:`.state`; each says what type it makes, how it runs, and
its gradient, as a graph. :mod:`.gradient` extends the graph, :mod:`.run` runs it, :mod:`.listing`
writes it down, :mod:`.passes` make it cheaper to run, :mod:`.memory` plans its buffers to the byte,
and :mod:`.checkpoint` says what a chain may forget and compute again.
"""

from collections.abc import Callable
from typing import Any

from helpers.autodiff.broadcasting import broadcast, sum
from helpers.autodiff.constants import constant, full, full_like
from helpers.autodiff.elementwise import (
    abs,
    add,
    cast,
    cos,
    divide,
    equal,
    exp,
    gelu,
    greater,
    less,
    log,
    maximum,
    minimum,
    multiply,
    negative,
    power,
    relu,
    sigmoid,
    sign,
    sin,
    sqrt,
    subtract,
    tanh,
    where,
)
from helpers.autodiff.gradient import (
    clip_gradient,
    gradients,
    reverse_gradient,
    stop_gradient,
    with_gradient,
)
from helpers.autodiff.graph import Variable, apply, eager, topological, variable
from helpers.autodiff.listing import listing
from helpers.autodiff.loop import scan
from helpers.autodiff.memory import Allocator, Plan, plan
from helpers.autodiff.operator import Operator
from helpers.autodiff.parallel import Line, average_gradients
from helpers.autodiff.products import conv2d, matmul
from helpers.autodiff.reductions import max, mean, softmax
from helpers.autodiff.run import function, watch
from helpers.autodiff.shaping import getitem, reshape, transpose
from helpers.autodiff.state import State, add_update, state, update


def _turned(operator: Callable[..., Variable]) -> Callable[..., Variable]:
    return lambda self, other: operator(other, self)


def _reshape(self: Variable, *shape: Any) -> Variable:
    """See the same elements in another shape."""
    return reshape(self, shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape)


# No module of the graph knows all operators: here, where they are known, the class is given them.
_METHODS: dict[str, Any] = {
    "__add__": lambda a, b: add(a, b),
    "__sub__": lambda a, b: subtract(a, b),
    "__mul__": lambda a, b: multiply(a, b),
    "__truediv__": lambda a, b: divide(a, b),
    "__radd__": _turned(add),
    "__rsub__": _turned(subtract),
    "__rmul__": _turned(multiply),
    "__rtruediv__": _turned(divide),
    "__neg__": lambda a: negative(a),
    "__pow__": power,
    "__lt__": lambda a, b: less(a, b),
    "__gt__": lambda a, b: greater(a, b),
    "__matmul__": matmul,
    "__getitem__": getitem,
    "T": property(lambda x: transpose(x)),
    "astype": cast,
    "max": max,
    "mean": mean,
    "reshape": _reshape,
    "sum": sum,
    "transpose": transpose,
}
for _name, _method in _METHODS.items():
    setattr(Variable, _name, _method)
