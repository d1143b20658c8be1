"""Operators: what is computed of which types, how, and its gradient as a graph.

An operator knows no graph: it says of which :class:`Type` its result is, writes the result into
memory that somebody gives it, and names the operators that its gradient takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from helpers.autodiff.sizes import Size, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from helpers.autodiff.graph import Variable


@dataclass(frozen=True)
class Type:
    """What is known of a tensor before it is computed."""

    dtype: np.dtype
    shape: tuple[int | Size, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


class Operator:
    """A computation: what it makes of which types, how, and its gradient as a graph.

    A subclass with one result gives ``infer``, ``run`` (or ``view``) and ``gradient``. It is a
    frozen dataclass: two operators with the same fields compute the same.
    """

    view_of_input = False  #: the result is the first input's memory, seen in another way
    in_place: tuple[int, ...] = ()  #: the inputs whose memory ``run`` may be given as ``out``
    urgency = 0  #: 1 runs as soon as it can, −1 when nothing else can (see :func:`.reach.schedule`)

    def infer(self, *inputs: Type) -> Type:
        """Return the type of the result, or refuse."""
        raise NotImplementedError

    def run(self, out: np.ndarray, *inputs: np.ndarray) -> None:
        """Compute into memory of the inferred type that is already there."""
        np.copyto(out, self.view(*inputs))

    def view(self, *inputs: np.ndarray) -> np.ndarray:
        """Return the first operand's memory in another shape (where ``view_of_input``)."""
        raise NotImplementedError

    def gradient(self, g: Variable, y: Variable, *inputs: Variable) -> Sequence[Variable | None]:
        """Extend the graph by the gradient of a loss with respect to each operand.

        Given are the loss's gradient ``g`` with respect to the result ``y``, and the operands. None
        stands where the result does not depend on an operand smoothly.
        """
        return [None] * len(inputs)

    def bind(self, bindings: Mapping[str, int]) -> Self:
        """Return this operator with numbers for symbolic sizes."""
        changed = {}
        for field in fields(self):  # type: ignore[arg-type]  # every operator is a dataclass
            value = getattr(self, field.name)
            if isinstance(value, (tuple, Size)):
                changed[field.name] = resolve(value, bindings)
        return replace(self, **changed) if changed else self  # type: ignore[type-var]

    def __str__(self) -> str:
        return type(self).__name__.lower()


def computed(operator: Operator, type: Type, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Run one operator, in new memory unless its result is a view."""
    if operator.view_of_input:
        return operator.view(*operands)
    out = np.empty(type.shape, type.dtype)  # type: ignore[arg-type,type-var]
    operator.run(out, *operands)
    return out
