"""What a function is fed: arrays of its inputs' types, and the sizes that they settle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from helpers.autodiff.graph import Variable
from helpers.autodiff.sizes import Size, resolve, symbols


def checked(inputs: Sequence[Variable], arrays: Sequence[np.ndarray]) -> dict[Variable, np.ndarray]:
    """Pair inputs with arrays of their dtype and rank."""
    if len(arrays) != len(inputs):
        raise TypeError(f"a function of {len(inputs)} inputs expects as many; got {len(arrays)}")
    values = {}
    for variable, array in zip(inputs, map(np.asarray, arrays), strict=True):
        if array.dtype != variable.dtype or array.ndim != variable.ndim:
            raise TypeError(
                f"{variable.name or 'an input'} expects {variable.type};"
                f" got {array.dtype} {array.shape}"
            )
        values[variable] = array
    return values


def bind(inputs: Sequence[Variable], arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """Read the symbolic sizes off arrays, then check every size."""
    bindings: dict[str, int] = {}
    for variable, array in zip(inputs, arrays, strict=True):
        for size, actual in zip(variable.shape, array.shape, strict=True):
            if isinstance(size, Size) and symbols(size) == {repr(size)}:
                bindings.setdefault(repr(size), actual)
    for variable, array in zip(inputs, arrays, strict=True):
        unknown = symbols(variable.shape) - bindings.keys()
        if unknown or resolve(variable.shape, bindings) != array.shape:
            known = ", ".join(f"{name} = {size}" for name, size in bindings.items())
            raise ValueError(
                f"{variable.name or 'an input'} expects {variable.shape}"
                f"{f' with {known}' if known else ''}; got {array.shape}"
            )
    return bindings
