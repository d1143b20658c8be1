"""The graph: variables and applications of operators, each knowing only the other kind.

    variable --> application --> variable --> application --> ...
                 (operator)                   (operator)

A *variable* stands for a tensor: it has a dtype and a shape, known before anything runs. An
*application* is one use of an *operator*: it points to the variables that it reads and to those
that it makes. Applying an operator infers the types of its results, or refuses. The graph is what
can be reached from a variable by going back; nothing else holds it. An edge carries data, or only
order: an application may name variables that must be there *before* it, which it does not read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from helpers.autodiff.operator import Operator, Type, computed
from helpers.autodiff.sizes import Size, shape_of, symbols

if TYPE_CHECKING:
    from collections.abc import Mapping


class Variable:
    """A tensor of the graph. Made by :func:`variable` or by applying an operator.

    ``maker`` is the application whose result it is: None for what is fed from outside. ``known`` is
    its value: operators on it run at once (see :func:`eager`).
    """

    __array_ufunc__ = None  # NumPy leaves array + variable to the variable

    def __init__(
        self,
        type: Type,
        name: str = "",
        maker: Application | None = None,
        known: np.ndarray | None = None,
    ):
        self.type, self.name, self.maker, self.known = type, name, maker, known
        self.eager = known is not None

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

    def held(self) -> np.ndarray | None:
        """Return the value itself, not a copy, where it is known before any function runs, or None.

        It is known of constants, of states, and of what runs at once.
        """
        if self.known is None and self.maker and not symbols(self.shape):
            order = topological([self])
            made = all(v.maker for node in order for v in node.inputs)  # of constants alone
            if made and not any(map(_symbolic, order)):
                for node in order:
                    y, operands = node.output, [v.known for v in node.inputs]
                    y.known = computed(node.operator, y.type, operands)  # type: ignore[arg-type]
        return self.known

    @property
    def value(self) -> np.ndarray:
        """A copy of what is known before any function runs."""
        array = self.held()
        if array is None:
            raise TypeError(f"a variable has no value before the graph runs; got {self!r}")
        return np.array(array)

    def __iter__(self) -> NoReturn:  # __getitem__ alone would let it be taken for a list
        raise TypeError(f"where a list of variables is expected, write [x] for one; got {self!r}")

    if TYPE_CHECKING:  # the package gives these

        def _with(self, other: Any) -> Variable: ...

        __add__ = __sub__ = __mul__ = __truediv__ = __radd__ = __rsub__ = __rmul__ = _with
        __rtruediv__ = __matmul__ = __pow__ = __lt__ = __gt__ = __getitem__ = _with

        def __neg__(self) -> Variable: ...

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)


class Application:
    """One use of an operator: the graph's other kind of node; ``output`` is what it makes.

    ``after`` are control dependencies: what must be there before it runs, though it does not read
    it.
    """

    def __init__(
        self, operator: Operator, inputs: tuple[Variable, ...], after: tuple[Variable, ...] = ()
    ):
        self.operator, self.inputs, self.after = operator, inputs, after
        self.output = Variable(operator.infer(*(each.type for each in inputs)), maker=self)

    def __repr__(self) -> str:
        return f"<{self.operator}: {', '.join(str(v.type) for v in self.inputs)}>"


def _symbolic(node: Application) -> bool:
    """Say whether some size is open in an operator or its result."""
    return bool(symbols((node.output.shape, *vars(node.operator).values())))


def apply(operator: Operator, *inputs: Variable, after: Sequence[Variable] = ()) -> Variable:
    """Return the result of an operator: infer its type, and add both to the graph.

    Where some operand's value is known already and the others' are too, the operator also runs.
    ``after`` is what must be there before it, though it does not read it. TypeError or ValueError
    if it does not take operands of these dtypes or shapes.
    """
    result = Application(operator, inputs, tuple(after)).output
    if any(v.eager for v in inputs):
        operands = [array for v in inputs if (array := v.held()) is not None]
        if len(operands) == len(inputs):
            result.known, result.eager = computed(operator, result.type, operands), True
    return result


def variable(name: str, shape: Iterable[int | str | Size] = (), dtype: Any = "float64") -> Variable:
    """Return a variable that is fed from outside.

    >>> variable("x", shape=("n", 3))
    <x: float64 (n, 3)>

    Parameters
    ----------
    shape
        A name in it is a size that is known when the graph runs.
    """
    return Variable(Type(np.dtype(dtype), shape_of(shape)), name)


def eager(value: Any, name: str = "") -> Variable:
    """Return a variable whose value, a copy, is known: operators on it run at once.

    ``value``, ``bool``, ``float`` and ``int`` of it, and of what is made from it, work at once.

    >>> from helpers import autodiff
    >>> x = autodiff.eager(3.0)
    >>> y = x
    >>> while y < 100:  # the values decide how often
    ...     y = y * x
    >>> (g,) = autodiff.gradients(y, [x])  # of the path that was taken: x⁵
    >>> float(y), float(g)
    (243.0, 405.0)
    """
    array = np.array(value)
    return Variable(Type(array.dtype, array.shape), name, known=array)


def topological(
    outputs: Iterable[Variable],
    stop: Container[Variable] = (),
    after: Mapping[Application, Sequence[Variable]] | None = None,
) -> list[Application]:
    """List what must be applied to have some variables, each after what it reads or names.

    Of two that do not depend on each other, the one met first comes first. What is in ``stop`` is
    there already; ``after`` has for an application more variables that must be there before it.
    ValueError if one would have to wait for itself.
    """
    order: dict[Application, bool] = {}  # whether it is listed, or still waits for its operands
    stack = [(v.maker, False) for v in reversed(list(outputs)) if v.maker and v not in stop]
    while stack:  # depth first, without recursion: graphs are deeper than Python's stack
        node, ready = stack.pop()
        if ready:
            del order[node]  # again, behind what it has waited for
            order[node] = True
        elif node in order:
            if not order[node]:
                raise ValueError(f"an order expects no circle; got {node!r} that waits for itself")
        else:
            order[node] = False
            stack.append((node, True))
            extra = tuple(after.get(node, ())) if after else ()
            before = [*node.after, *extra, *node.inputs]
            stack += [(v.maker, False) for v in reversed(before) if v.maker and v not in stop]
    return list(order)
