"""What ``torch.distributed.ReduceOp`` means: a torch operation for each member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch.distributed import ReduceOp

_KIND = type(ReduceOp.SUM)
_PREMUL = ReduceOp.RedOpType.PREMUL_SUM.value  # type: ignore[attr-defined]
COMBINE = {"SUM": torch.add, "AVG": torch.add, "PREMUL_SUM": torch.add, "PRODUCT": torch.mul}
COMBINE |= {"MIN": torch.minimum, "MAX": torch.maximum, "BAND": torch.bitwise_and}
COMBINE |= {"BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
_UFUNC = {"SUM": "add", "PRODUCT": "multiply", "MIN": "minimum", "MAX": "maximum"}
_UFUNC |= {"BAND": "bitwise_and", "BOR": "bitwise_or", "BXOR": "bitwise_xor"}
_UFUNC |= {"AVG": "add", "PREMUL_SUM": "add"}
# Short floats lose less if several are added up in 32 bits and rounded once. MPI has none of them.
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
WIDER |= {torch.complex32: torch.complex64}
# torch computes little with these three; NumPy, on the same memory, does all of it.
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
_FLOATING = ("AVG", "PREMUL_SUM")
_BITWISE = ("BAND", "BOR", "BXOR")


@dataclass(frozen=True)
class Reduction:
    """One reduce operation on one dtype: ``before`` each input, ``combine`` by pairs, ``after``.

    Made by :func:`reduction`. ``factor`` is PREMUL_SUM's, a number or a tensor; else None.
    """

    name: str
    factor: Any
    dtype: torch.dtype

    def before(self, tensor: torch.Tensor) -> None:
        """Multiply by the factor, in place (PREMUL_SUM)."""
        if self.name == "PREMUL_SUM":
            tensor.mul_(self.factor)

    def combine(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        """Compute out ← a ∘ b, element by element; ``out`` may be ``a`` or ``b``."""
        if self.dtype in _UNSIGNED:
            import numpy as np

            getattr(np, _UFUNC[self.name])(a.numpy(), b.numpy(), out=out.numpy())
        else:
            COMBINE[self.name](a, b, out=out)  # type: ignore[operator]

    def fold(self, parts: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        """Compute out ← parts[0] ∘ parts[1] ∘ ..., in this order: all ranks get the same bits.

        ``out`` may be ``parts[0]`` or ``parts[1]``.
        """
        if len(parts) == 1:
            out.copy_(parts[0])
            return
        self.combine(parts[0], parts[1], out)
        for part in parts[2:]:
            self.combine(out, part, out)

    def after(self, accumulator: torch.Tensor, ranks: int) -> None:
        """Divide the sum by the number of ranks, in place (AVG; integers towards zero)."""
        if self.name != "AVG":
            return
        if self.dtype.is_floating_point or self.dtype.is_complex:
            accumulator.div_(ranks)
        else:
            accumulator.div_(ranks, rounding_mode="trunc")


def reduction(op: Any, dtype: torch.dtype) -> Reduction:
    """Return what torch's operation means for a dtype: one object for the same arguments.

    ValueError if the two do not fit (a bitwise operation on floats, MIN of complex numbers, AVG of
    booleans, any arithmetic in eight-bit floats).
    """
    kind = op if isinstance(op, _KIND) else op.op
    number = kind.value  # of an enumeration whose own hashing and comparing take microseconds
    factor = op.factor if number == _PREMUL else None
    return _plain(number, dtype) if factor is None else _checked(kind, factor, dtype)


@lru_cache
def _plain(number: int, dtype: torch.dtype) -> Reduction:
    return _checked(_KIND(number), None, dtype)


def _checked(kind: Any, factor: Any, dtype: torch.dtype) -> Reduction:
    name = kind.name
    inexact = dtype.is_floating_point or dtype.is_complex
    reason = None
    if name not in COMBINE:
        reason = f"it is not one of {', '.join(COMBINE)}"
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
