"""A graph as text: a line for each operator, with the type of what it makes.

    >>> from helpers import autodiff
    >>> x = autodiff.variable("x", shape=("n",))
    >>> print(autodiff.listing([x], [autodiff.exp(x) * x]))
    x: float64 (n,)
    a: float64 (n,) = exp x
    b: float64 (n,) = multiply a x
    return b

JAX prints its graphs in this way (*jaxpr*). A name is given to what has none; a number that stands
for itself is written where it is read; ``after`` names what a line waits for without reading it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from string import ascii_lowercase

from helpers.autodiff.constants import Full
from helpers.autodiff.graph import Variable
from helpers.autodiff.reach import leaves, needed
from helpers.autodiff.sizes import Size
from helpers.autodiff.state import State


def listing(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> str:
    """Write down what a function of some inputs does, in order, a line for each operator.

    ValueError if the outputs need a variable that is not among the inputs.
    """
    order = needed(inputs, outputs)
    known = leaves(order, inputs, outputs)
    made = [node.output for node in order]
    names: dict[Variable, str] = {}
    taken = {v.name for v in (*inputs, *known, *made) if v.name}
    fresh = (letters for letters in _letters() if letters not in taken)
    lines = []
    for v in (*inputs, *known):
        names[v] = _own(v, names) or next(fresh)
        lines.append(f"{names[v]}: {v.type}{'  # state' if isinstance(v, State) else ''}")
    for node in order:
        v = node.output
        if isinstance(node.operator, Full) and not v.shape:
            number = node.operator.number
            names[v] = str(number) if isinstance(number, Size) else f"{number:g}"
            continue
        names[v] = _own(v, names) or next(fresh)
        words = [str(node.operator), *(names[each] for each in node.inputs)]
        if node.after:
            words += ["after", *(names[each] for each in node.after)]
        lines.append(f"{names[v]}: {v.type} = {' '.join(words)}")
    return "\n".join([*lines, f"return {', '.join(names[v] for v in outputs)}"])


def _own(v: Variable, names: dict[Variable, str]) -> str:
    """Return a variable's name unless another has it already."""
    return v.name if v.name not in names.values() else ""


def _letters() -> Iterator[str]:
    """Return a, b, ..., z, aa, ab, ..."""
    for k in count():
        k, word = k + 1, ""
        while k:
            k, last = divmod(k - 1, len(ascii_lowercase))
            word = ascii_lowercase[last] + word
        yield word
