"""What ``torch.distributed.ReduceOp`` means: an in-place torch operation for each member."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.distributed import ReduceOp

_KIND = type(ReduceOp.SUM)
_INTO = {  # in place: accumulator, other
    "SUM": lambda a, b: a.add_(b),
    "AVG": lambda a, b: a.add_(b),
    "PREMUL_SUM": lambda a, b: a.add_(b),
    "PRODUCT": lambda a, b: a.mul_(b),
    "MIN": lambda a, b: torch.minimum(a, b, out=a),
    "MAX": lambda a, b: torch.maximum(a, b, out=a),
    "BAND": lambda a, b: a.bitwise_and_(b),
    "BOR": lambda a, b: a.bitwise_or_(b),
    "BXOR": lambda a, b: a.bitwise_xor_(b),
}
_UFUNC = {"SUM": "add", "PRODUCT": "multiply", "MIN": "minimum", "MAX": "maximum"}
_UFUNC |= {"BAND": "bitwise_and", "BOR": "bitwise_or", "BXOR": "bitwise_xor"}
_UFUNC |= {"AVG": "add", "PREMUL_SUM": "add"}
# torch computes little with these three; NumPy, on the same memory, does all of it.
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
_FLOATING = ("AVG", "PREMUL_SUM")
_BITWISE = ("BAND", "BOR", "BXOR")


@dataclass(frozen=True)
class Reduction:
    """One reduce operation on one dtype: ``before`` on each input, ``into`` by pairs, ``after``."""

    name: str
    factor: object
    dtype: torch.dtype

    def before(self, tensor: torch.Tensor) -> None:
        """PREMUL_SUM multiplies what each rank brings by a factor, in place."""
        if self.name == "PREMUL_SUM":
            tensor.mul_(self.factor)

    def into(self, accumulator: torch.Tensor, other: torch.Tensor) -> None:
        """accumulator ← accumulator ∘ other, element by element, in place."""
        if self.dtype in _UNSIGNED:
            import numpy as np

            into = accumulator.numpy()
            getattr(np, _UFUNC[self.name])(into, other.numpy(), out=into)
        else:
            _INTO[self.name](accumulator, other)

    def after(self, accumulator: torch.Tensor, ranks: int) -> None:
        """AVG divides the sum by the number of ranks, in place (integers towards zero)."""
        if self.name != "AVG":
            return
        if self.dtype.is_floating_point or self.dtype.is_complex:
            accumulator.div_(ranks)
        else:
            accumulator.div_(ranks, rounding_mode="trunc")


def reduction(op: ReduceOp | _KIND, dtype: torch.dtype) -> Reduction:
    """Return the :class:`Reduction` for torch's ``op`` on ``dtype``.

    Raises ValueError where the two do not fit (a bitwise operation on floats, MIN of complex
    numbers, AVG of booleans, any arithmetic in eight-bit floats).
    """
    kind, factor = (op, None) if isinstance(op, _KIND) else op.__getstate__()
    name = kind.name
    inexact = dtype.is_floating_point or dtype.is_complex
    reason = None
    if name not in _INTO:
        reason = f"it is not one of {', '.join(_INTO)}"
    elif name in _BITWISE and inexact:
        reason = "bitwise operations need integers or booleans"
    elif name in ("MIN", "MAX") and dtype.is_complex:
        reason = "complex numbers have no order"
    elif name in _FLOATING and (dtype is torch.bool or dtype in _UNSIGNED):
        reason = "it needs signed integers or floats"
    elif name == "PREMUL_SUM" and not inexact:
        reason = "a factor needs floats"
    elif dtype.is_floating_point and dtype.itemsize == 1:
        reason = "eight-bit floats travel but do not add up: reduce them in float32"
    if reason:
        raise ValueError(f"cannot reduce {dtype} with ReduceOp.{name}: {reason}")
    return Reduction(name, factor, dtype)
