"""Fusion: elementwise operators that feed one another become one loop in C.

Each operator by itself reads its operands from memory and writes its result there. In one loop the
values between stay in registers: a chain of k operators moves two arrays, not 2k. An operand that
is not contiguous is copied first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from helpers.autodiff.constants import Full
from helpers.autodiff.elementwise import Elementwise
from helpers.autodiff.graph import Application, Operator, Type, Variable, apply
from helpers.autodiff.rewriting import Inputs, maker_of, readers, rebuild
from helpers.autodiff.sizes import symbols

C_TYPES = {"float64": "double", "float32": "float", "int64": "long long", "bool": "unsigned char"}

LIMIT = 64  # operators in a loop: beyond, registers run out long before

Step = tuple[Elementwise, tuple[int, ...], str]  # operator, operands by position, dtype of result


@dataclass(frozen=True)
class Fused(Operator):
    """Elementwise operators as one.

    Parameters
    ----------
    operands : tuple of str
        The operands' dtypes.
    numbers : tuple
        (number, dtype) of constants; they stand behind the operands.
    steps : tuple of Step
        In order; each may read operands, numbers and earlier steps by position. The last is the
        result.
    """

    operands: tuple[str, ...]
    numbers: tuple[tuple[float, str], ...]
    steps: tuple[Step, ...]

    @property
    def in_place(self) -> tuple[int, ...]:  # type: ignore[override]
        """Any operand: element i is read before it is written."""
        return tuple(range(len(self.operands)))

    def infer(self, *xs: Type) -> Type:
        if tuple(str(x.dtype) for x in xs) != self.operands or len({x.shape for x in xs}) != 1:
            raise ValueError(f"{self} expects {self.operands} of one shape; got {xs}")
        return Type(np.dtype(self.steps[-1][2]), xs[0].shape)

    def run(self, out: np.ndarray, *xs: np.ndarray) -> None:
        xs = tuple(map(np.ascontiguousarray, xs))
        loop = _loop(self.source())
        loop(ctypes.c_long(out.size), *(ctypes.c_void_p(a.ctypes.data) for a in (out, *xs)))

    def source(self) -> str:
        """Return the loop in C.

        Returns
        -------
        str
            A function ``fused(n, out, operands...)`` of contiguous arrays.
        """
        result = C_TYPES[self.steps[-1][2]]
        parameters = [f"const {C_TYPES[dtype]} *x{i}" for i, dtype in enumerate(self.operands)]
        lines = [f"const {C_TYPES[d]} v{i} = x{i}[i];" for i, d in enumerate(self.operands)]
        for number, dtype in self.numbers:
            value = {np.inf: "INFINITY", -np.inf: "-INFINITY"}.get(number, repr(number))
            value = "NAN" if number != number else str(int(number)) if dtype == "bool" else value
            lines.append(f"const {C_TYPES[dtype]} v{len(lines)} = {value};")
        for operator, places, dtype in self.steps:
            expression = operator.c.format(*(f"v{p}" for p in places), T=C_TYPES[dtype])
            lines.append(f"const {C_TYPES[dtype]} v{len(lines)} = {expression};")
        body = "\n        ".join([*lines, f"out[i] = v{len(lines) - 1};"])
        return (
            "#include <tgmath.h>\n"
            f"void fused(long n, {', '.join([f'{result} *out', *parameters])}) {{\n"
            f"    for (long i = 0; i < n; i++) {{\n        {body}\n    }}\n}}\n"
        )

    def __str__(self) -> str:
        return f"fused({', '.join(str(operator) for operator, _, _ in self.steps)})"


@dataclass(frozen=True, eq=False)
class Tree:
    """Operators that are to be one loop.

    Parameters
    ----------
    operator : Elementwise
        The last.
    leaves : tuple of Tree, Variable or (number, dtype)
        Its operands.
    dtype : str
        Of its result.
    size : int
        How many operators there are.
    """

    operator: Elementwise
    leaves: tuple[Leaf, ...]
    dtype: str
    size: int


Leaf = Tree | Variable | tuple[float, str]


@lru_cache(maxsize=1024)
def _loop(source: str) -> ctypes._CFuncPtr:
    from helpers.native import load_c  # only who fuses needs a compiler

    return load_c(source, ("-fno-math-errno",)).fused


def fuse(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
    """Join elementwise operators whose result only one other of them reads.

    Parameters
    ----------
    outputs : sequence of Variable
        What the graph is for.
    inputs : container of Variable
        What is fed.

    Returns
    -------
    list of Variable
        In place of ``outputs``.
    """
    count = readers(outputs, inputs)
    trees: dict[Variable, Tree] = {}

    def fused(node: Application, operands: Inputs) -> Variable | None:
        types = [str(v.dtype) for v in (*operands, node.output)]
        if not isinstance(node.operator, Elementwise) or not C_TYPES.keys() >= set(types):
            return None
        leaves: list[Leaf] = []
        for operand, old in zip(operands, node.inputs, strict=True):
            maker = maker_of(operand, inputs)
            if isinstance(maker, Full) and not symbols(maker.number):
                leaves.append((maker.number, str(maker.dtype)))
            elif count[old] == 1 and operand in trees and trees[operand].size < LIMIT:
                leaves.append(trees[operand])
            else:
                leaves.append(operand)
        size = 1 + sum(leaf.size for leaf in leaves if isinstance(leaf, Tree))
        tree = Tree(node.operator, tuple(leaves), types[-1], size)
        # a number alone among the operands is worth a loop too: no array of equal numbers is made
        constants = any(isinstance(leaf, tuple) for leaf in leaves)
        new = _applied(tree) if size > 1 or constants else apply(node.operator, *operands)
        if new is not None:
            trees[new] = tree
        return new

    return rebuild(outputs, fused, inputs)


def _applied(tree: Tree) -> Variable | None:
    """Apply a tree as one operator; None if it has no operands, only numbers."""
    operands: dict[Variable, None] = {}
    numbers: dict[tuple[float, str], None] = {}

    def collect(tree: Tree) -> None:
        for leaf in tree.leaves:
            if isinstance(leaf, Tree):
                collect(leaf)
            else:
                (numbers if isinstance(leaf, tuple) else operands).setdefault(leaf)  # type: ignore

    collect(tree)
    if not operands:
        return None
    place = {leaf: i for i, leaf in enumerate((*operands, *numbers))}
    steps: list[Step] = []

    def lay_out(tree: Tree) -> int:
        places = [lay_out(x) if isinstance(x, Tree) else place[x] for x in tree.leaves]
        steps.append((tree.operator, tuple(places), tree.dtype))
        return len(place) + len(steps) - 1

    lay_out(tree)
    dtypes = tuple(str(v.dtype) for v in operands)
    return apply(Fused(dtypes, tuple(numbers), tuple(steps)), *operands)
