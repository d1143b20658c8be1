"""A computation graph from scratch: types, gradients, execution, in modules to be read aloud.

    >>> from helpers import autodiff
    >>> x = autodiff.variable("x", shape=("n", 3))
    >>> y = autodiff.sum(autodiff.exp(x) * x)
    >>> (g,) = autodiff.gradients(y, [x])
    >>> step = autodiff.function([x], [y, g])        # arrays in, a list of arrays out

:mod:`.graph` has variables and what operators are applied to, :mod:`.operator` what an operator is,
:mod:`.sizes` the sizes that may be symbols. The operators are in :mod:`.constants`,
:mod:`.elementwise`, :mod:`.shaping`, :mod:`.parts`, :mod:`.broadcasting`, :mod:`.reductions`,
:mod:`.matmul`, :mod:`.convolution`, :mod:`.loop` and :mod:`.state`; each says what type it makes,
how it runs, and its gradient, as a graph.
:mod:`.gradient` extends the graph, :mod:`.run` runs it, :mod:`.listing`
writes it down, :mod:`.passes` make it cheaper to run, :mod:`.memory` plans its buffers to the byte,
and :mod:`.checkpoint` says what a chain may forget and compute again.
"""

from helpers.autodiff import arithmetic  # noqa: F401  # gives variables + - * / @ [ ]
from helpers.autodiff.broadcasting import broadcast, sum
from helpers.autodiff.constants import constant, full, full_like
from helpers.autodiff.convolution import conv2d
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
from helpers.autodiff.matmul import matmul
from helpers.autodiff.memory import Allocator, Plan, plan
from helpers.autodiff.operator import Operator
from helpers.autodiff.parallel import Line, average_gradients
from helpers.autodiff.reductions import max, mean, softmax
from helpers.autodiff.run import function, watch
from helpers.autodiff.shaping import reshape, transpose
from helpers.autodiff.state import State, add_update, state, update

__all__ = [
    "Allocator",
    "Line",
    "Operator",
    "Plan",
    "State",
    "Variable",
    "abs",
    "add",
    "add_update",
    "apply",
    "average_gradients",
    "broadcast",
    "cast",
    "clip_gradient",
    "constant",
    "conv2d",
    "cos",
    "divide",
    "eager",
    "equal",
    "exp",
    "full",
    "full_like",
    "function",
    "gelu",
    "gradients",
    "greater",
    "less",
    "listing",
    "log",
    "matmul",
    "max",
    "maximum",
    "mean",
    "minimum",
    "multiply",
    "negative",
    "plan",
    "power",
    "relu",
    "reshape",
    "reverse_gradient",
    "scan",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "sqrt",
    "state",
    "stop_gradient",
    "subtract",
    "sum",
    "tanh",
    "topological",
    "transpose",
    "update",
    "variable",
    "watch",
    "where",
    "with_gradient",
]
