"""Fusion: elementwise operators that feed one another become one loop in C.

Each operator by itself reads its operands from memory and writes its result there. In one loop the
values between stay in registers: a chain of k operators moves two arrays, not 2k. An operand that
was broadcast is not laid out in memory: along its repeated axes the loop steps by 0.
"""

from __future__ import annotations

import ctypes
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from helpers.autodiff.constants import Full
from helpers.autodiff.elementwise import Elementwise
from helpers.autodiff.graph import Application, Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.rewriting import Inputs, maker_of, readers, rebuild
from helpers.autodiff.sizes import symbols

LIMIT = 64  # operators in a loop: beyond, registers run out long before
C_TYPES = {"float64": "double", "float32": "float", "int64": "long long", "bool": "unsigned char"}

# Nobody asks errno or the processor's flags; a product and a sum round twice, as NumPy's do.
FLAGS = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv")

# glibc has exp and its like for several numbers at once; GCC calls them where their declarations
# say so, as without this they do under -ffast-math only. The last digit may differ.
HEADER = """\
#include <math.h>
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#define MANY(name) \\
    __attribute__((simd("notinbranch"))) double name(double); \\
    __attribute__((simd("notinbranch"))) float name##f(float);
MANY(exp) MANY(log) MANY(sin) MANY(cos)
#if __GLIBC_PREREQ(2, 35)
MANY(tanh)
#endif
#endif
#include <tgmath.h>
"""

IN_C = {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN", "True": "1", "False": "0"}

Step = tuple[Elementwise, tuple[int, ...], str]  # operator, operands by position, dtype of result


@dataclass(frozen=True)
class Fused(Operator):
    """Elementwise operators as one; steps read operands, numbers and earlier steps."""

    operands: tuple[str, ...]  # their dtypes
    numbers: tuple[tuple[str, str], ...]  # constants, as repr writes them, and their dtypes
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
        if all(x.flags.c_contiguous for x in xs):
            sizes, steps = [out.size], [1] * len(xs)
        else:
            sizes, steps = nest(out, xs)
        inner = tuple(s if s in (0, 1) else 2 for s in steps[len(sizes) - 1 :: len(sizes)])
        if inner not in self._loops:
            self._loops[inner] = _loop(self.nested_source(inner))
        self._loops[inner](
            ctypes.c_long(len(sizes)),
            (ctypes.c_long * len(sizes))(*sizes),
            (ctypes.c_long * len(steps))(*steps),
            *(ctypes.c_void_p(a.ctypes.data) for a in (out, *xs)),
        )

    @cached_property
    def _loops(self) -> dict[tuple[int, ...], Any]:
        return {}  # by the operands' steps in the innermost loop

    def source(self) -> str:
        """Return the loop in C, ``fused(n, out, operands...)``, over arrays without gaps."""
        body = self._body([f"x{k}[i]" for k in range(len(self.operands))], 8)
        return (
            f"void fused(long n, {self._parameters()}) {{\n"
            f"    for (long i = 0; i < n; i++) {{\n{body}    }}\n}}\n"
        )

    def nested_source(self, inner: Sequence[int]) -> str:
        """Return the loop in C inside loops over rows: ``fused(rank, sizes, steps, out, *xs)``.

        ``inner`` is each operand's step in the innermost loop: 0, 1, or 2 for any other. There are
        ``rank`` steps for each operand, in elements; the result has no gaps.
        """
        places = range(len(self.operands))
        index = ["0" if step == 0 else "i" if step == 1 else f"i * s{k}" for k, step in
                 enumerate(inner)]  # fmt: skip
        lines = [
            f"void fused(long rank, const long *sizes, const long *steps, {self._parameters()}) {{",
            "    const long n = sizes[rank - 1];",
            *(f"    const long s{k} = steps[{k} * rank + rank - 1];" for k in places),
            "    long rows = 1;",
            "    for (long d = 0; d < rank - 1; d++) rows *= sizes[d];",
            "    for (long row = 0; row < rows; row++, out += n) {",
            *(f"        const {C_TYPES[t]} *y{k} = x{k};" for k, t in enumerate(self.operands)),
            "        for (long d = rank - 2, rest = row; d >= 0; rest /= sizes[d--]) {",
            "            const long at = rest % sizes[d];",
            *(f"            y{k} += at * steps[{k} * rank + d];" for k in places),
            "        }",
            "#pragma GCC ivdep",  # an operand may be the result's memory, but never shifted
            "        for (long i = 0; i < n; i++) {",
        ]
        body = self._body([f"y{k}[{at}]" for k, at in zip(places, index, strict=True)], 12)
        return HEADER + "\n".join(lines) + f"\n{body}        }}\n    }}\n}}\n"

    def _parameters(self) -> str:
        operands = (f"const {C_TYPES[dtype]} *x{i}" for i, dtype in enumerate(self.operands))
        return ", ".join([f"{C_TYPES[self.steps[-1][2]]} *out", *operands])

    def _body(self, reads: Sequence[str], indent: int) -> str:
        """Return what is done for one element."""
        values = [(C_TYPES[d], read) for d, read in zip(self.operands, reads, strict=True)]
        for number, dtype in self.numbers:
            values.append((C_TYPES[dtype], IN_C.get(number, number)))
        for operator, places, dtype in self.steps:
            expression = operator.c.format(*(f"v{p}" for p in places), T=C_TYPES[dtype])
            values.append(("int" if dtype == "bool" else C_TYPES[dtype], expression))
        lines = [f"const {type} v{i} = {value};" for i, (type, value) in enumerate(values)]
        last = f"out[i] = v{len(lines) - 1};"
        return "".join(f"{' ' * indent}{line}\n" for line in [*lines, last])

    def __str__(self) -> str:
        return f"fused({', '.join(str(operator) for operator, _, _ in self.steps)})"


@lru_cache(maxsize=1024)
def _loop(source: str) -> Any:
    from helpers.native import load_c  # only who fuses needs a compiler

    return load_c(source, FLAGS).fused


def nest(out: np.ndarray, xs: Sequence[np.ndarray]) -> tuple[list[int], list[int]]:
    """Find the fewest nested loops over arrays of one shape: how often, and each operand's steps.

    >>> out, row = np.empty((2, 3, 4)), np.broadcast_to(np.empty(4), (2, 3, 4))
    >>> nest(out, [out, row])
    ([6, 4], [4, 1, 0, 1])
    """
    axes: list[list[int]] = []  # a size, then a stride for each array
    for axis, size in enumerate(out.shape):
        if size == 1:
            continue
        strides = [a.strides[axis] // a.itemsize for a in (out, *xs)]
        if axes and all(o == s * size for o, s in zip(axes[-1][1:], strides, strict=True)):
            axes[-1] = [axes[-1][0] * size, *strides]  # goes on where the outer one stops
        else:
            axes.append([size, *strides])
    axes = axes or [[out.size] + [1] * (len(xs) + 1)]
    return [a[0] for a in axes], [a[2 + k] for k in range(len(xs)) for a in axes]


@dataclass(frozen=True, eq=False)
class Tree:
    """Operators that are to be one loop."""

    operator: Elementwise  # the last
    leaves: tuple[Leaf, ...]
    dtype: str
    size: int  # how many operators there are


Leaf = Tree | Variable | tuple[str, str]


def fuse(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
    """Join elementwise operators whose result only one other of them reads."""
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
                leaves.append((repr(maker.number), str(maker.dtype)))
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
    numbers: dict[tuple[str, str], None] = {}

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
