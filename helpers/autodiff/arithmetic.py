"""What ``+ - * / ** @ < > [ ]`` and methods mean on variables.

:mod:`.graph` knows no operator and every operator knows :mod:`.graph`; here, where both are known,
the class is given its arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers.autodiff import broadcasting, elementwise, matmul, parts, reductions, shaping
from helpers.autodiff.graph import Variable


def _turned(operator: Callable[..., Variable]) -> Callable[..., Variable]:
    return lambda self, other: operator(other, self)


def _reshape(self: Variable, *shape: Any) -> Variable:
    """See the same elements in another shape."""
    return shaping.reshape(
        self, shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    )


def _transposed(x: Variable) -> Variable:
    """The axes in the opposite order."""
    return shaping.transpose(x)


_METHODS: dict[str, Any] = {
    "__add__": lambda a, b: elementwise.add(a, b),
    "__sub__": lambda a, b: elementwise.subtract(a, b),
    "__mul__": lambda a, b: elementwise.multiply(a, b),
    "__truediv__": lambda a, b: elementwise.divide(a, b),
    "__radd__": _turned(elementwise.add),
    "__rsub__": _turned(elementwise.subtract),
    "__rmul__": _turned(elementwise.multiply),
    "__rtruediv__": _turned(elementwise.divide),
    "__neg__": lambda a: elementwise.negative(a),
    "__pow__": elementwise.power,
    "__lt__": lambda a, b: elementwise.less(a, b),
    "__gt__": lambda a, b: elementwise.greater(a, b),
    "__matmul__": matmul.matmul,
    "__getitem__": parts.getitem,
    "T": property(_transposed),
    "astype": elementwise.cast,
    "max": reductions.max,
    "mean": reductions.mean,
    "reshape": _reshape,
    "sum": broadcasting.sum,
    "transpose": shaping.transpose,
}
for _name, _method in _METHODS.items():
    setattr(Variable, _name, _method)
