"""The graph: variables and applications of operators, each knowing only the other kind.

    variable --> application --> variable --> application --> ...
                 (operator)                   (operator)

A *variable* stands for a tensor: it has a dtype and a shape, known before anything runs. An
*application* is one use of an *operator*: it points to the variables that it reads and to those
that it makes. Applying an operator infers the types of its results, or refuses. The graph is what
can be reached from a variable by going back; nothing else holds it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from helpers.autodiff.sizes import Size, resolve, shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Type:
    """What is known of a tensor before it is computed.

    Parameters
    ----------
    dtype : numpy.dtype
        Of each element.
    shape : tuple of int or Size
        One size for each axis.
    """

    dtype: np.dtype
    shape: tuple[int | Size, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


class Variable:
    """A tensor of the graph. Made by :func:`variable` or by applying an operator.

    Parameters
    ----------
    type : Type
        Its dtype and shape.
    name : str
        For people; "" for none.
    maker : Application, optional
        Whose result it is; none for what is fed from outside.
    """

    __array_ufunc__ = None  # NumPy leaves array + variable to the variable

    def __init__(self, type: Type, name: str = "", maker: Application | None = None):
        self.type, self.name, self.maker = type, name, maker

    @property
    def dtype(self) -> np.dtype:
        """Of each element."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int | Size, ...]:
        """One size for each axis, an ``int`` or a symbol: ``x.shape[1] // 2`` is a size too."""
        return self.type.shape

    @property
    def ndim(self) -> int:
        """How many axes."""
        return len(self.type.shape)

    def __repr__(self) -> str:
        maker = f" = {self.maker.operator}" if self.maker else ""
        return f"<{self.name or 'variable'}{maker}: {self.type}>"

    def __bool__(self) -> bool:
        raise TypeError(f"a variable has no value before the graph runs; got the truth of {self!r}")


class Operator:
    """A computation: what it makes of which types, how, and its gradient as a graph.

    A subclass with one result gives ``infer``, ``run`` (or ``view``) and ``gradient``. It is a
    frozen dataclass: two operators with the same fields compute the same.
    """

    view_of_input = False  #: the result is the first input's memory, seen in another way
    in_place: tuple[int, ...] = ()  #: the inputs whose memory ``run`` may be given as ``out``

    def infer(self, *inputs: Type) -> Type:
        """Return the type of the result, or refuse.

        Parameters
        ----------
        *inputs : Type
            Of the operands.

        Returns
        -------
        Type
            Of the result.
        """
        raise NotImplementedError

    def run(self, out: np.ndarray, *inputs: np.ndarray) -> None:
        """Compute into memory that is already there.

        Parameters
        ----------
        out : numpy.ndarray
            Of the inferred type.
        *inputs : numpy.ndarray
            The operands' values.
        """
        np.copyto(out, self.view(*inputs))

    def view(self, *inputs: np.ndarray) -> np.ndarray:
        """Return the first operand's memory in another shape (where ``view_of_input``).

        Parameters
        ----------
        *inputs : numpy.ndarray
            The operands' values.

        Returns
        -------
        numpy.ndarray
            Not a copy.
        """
        raise NotImplementedError

    def gradient(self, g: Variable, y: Variable, *inputs: Variable) -> Sequence[Variable | None]:
        """Extend the graph by the gradient of a loss with respect to each operand.

        Parameters
        ----------
        g : Variable
            The loss's gradient with respect to the result.
        y : Variable
            The result.
        *inputs : Variable
            The operands.

        Returns
        -------
        sequence of Variable or None
            One for each operand; None where the result does not depend on it smoothly.
        """
        return [None] * len(inputs)

    def bind(self, bindings: Mapping[str, int]) -> Self:
        """Return this operator with numbers for symbolic sizes.

        Parameters
        ----------
        bindings : mapping
            Symbol → number.

        Returns
        -------
        Operator
            Of the same class.
        """
        changed = {}
        for field in fields(self):  # type: ignore[arg-type]  # every operator is a dataclass
            value = getattr(self, field.name)
            if isinstance(value, (tuple, Size)):
                changed[field.name] = resolve(value, bindings)
        return replace(self, **changed) if changed else self  # type: ignore[type-var]

    def __str__(self) -> str:
        return type(self).__name__.lower()


class Application:
    """One use of an operator: the graph's other kind of node.

    Parameters
    ----------
    operator : Operator
        What is computed.
    inputs : tuple of Variable
        What it reads; ``output`` is what it makes.
    """

    def __init__(self, operator: Operator, inputs: tuple[Variable, ...]):
        self.operator, self.inputs = operator, inputs
        self.output = Variable(operator.infer(*(each.type for each in inputs)), maker=self)

    def __repr__(self) -> str:
        return f"<{self.operator}: {', '.join(str(v.type) for v in self.inputs)}>"


def apply(operator: Operator, *inputs: Variable) -> Variable:
    """Apply an operator: infer the type of its result, and add both to the graph.

    Parameters
    ----------
    operator : Operator
        What to compute.
    *inputs : Variable
        Its operands.

    Returns
    -------
    Variable
        The result.

    Raises
    ------
    TypeError
        The operator does not take operands of these dtypes.
    ValueError
        It does not take operands of these shapes.
    """
    return Application(operator, inputs).output


def variable(name: str, shape: Iterable[int | str | Size] = (), dtype: Any = "float64") -> Variable:
    """Return a variable that is fed from outside.

    >>> variable("x", shape=("n", 3))
    <x: float64 (n, 3)>

    Parameters
    ----------
    name : str
        For people, and for error messages.
    shape : iterable of int, str or Size
        One for each axis; a name is a size that is known when the graph runs.
    dtype : str or numpy.dtype
        Of each element.

    Returns
    -------
    Variable
        Without a maker.
    """
    return Variable(Type(np.dtype(dtype), shape_of(shape)), name)


def topological(outputs: Iterable[Variable], stop: Container[Variable] = ()) -> list[Application]:
    """List what must be applied to have some variables, each after what it reads.

    Parameters
    ----------
    outputs : iterable of Variable
        What is wanted.
    stop : container of Variable
        What is there already; what made these is not listed.

    Returns
    -------
    list of Application
        Each once. Of two that do not depend on each other, the one met first comes first.
    """
    order: dict[Application, None] = {}
    stack = [(v.maker, False) for v in reversed(list(outputs)) if v.maker and v not in stop]
    while stack:  # depth first, without recursion: graphs are deeper than Python's stack
        node, ready = stack.pop()
        if node in order:
            continue
        if ready:
            order[node] = None
        else:
            stack.append((node, True))
            before = [v.maker for v in reversed(node.inputs) if v.maker and v not in stop]
            stack += [(maker, False) for maker in before]
    return list(order)
