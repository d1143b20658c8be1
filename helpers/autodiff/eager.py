"""Eager variables: operators on them run at once, and the graph is recorded on the way.

    >>> from helpers import autodiff
    >>> x = autodiff.eager(3.0)
    >>> y = x
    >>> while y < 100:                         # the values decide how often
    ...     y = y * x
    >>> (g,) = autodiff.gradients(y, [x])      # of the path that was taken: x⁵
    >>> float(y), float(g)
    (243.0, 405.0)

Operators, gradients and graph are the same as ever; only the moment of running differs
(:func:`.graph.apply`). What is recorded can run again as a function, for another x: then along the
recorded path, however often a loop would have gone round for the new value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.autodiff.graph import Variable
from helpers.autodiff.operator import Type


def eager(value: Any, name: str = "") -> Variable:
    """Return a variable whose value, a copy, is known.

    ``value``, ``bool``, ``float`` and ``int`` of it, and of what is made from it, work at once.
    """
    array = np.array(value)
    return Variable(Type(array.dtype, array.shape), name, known=array)
