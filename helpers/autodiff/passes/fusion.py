"""Fusion: elementwise operators that feed one another become one loop in C.

Each operator by itself reads its operands from memory and writes its result there. In one loop the
values between stay in registers: a chain of k operators moves two arrays, not 2k.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from helpers.autodiff.constants import Full
from helpers.autodiff.elementwise import Elementwise
from helpers.autodiff.graph import Application, Variable, apply
from helpers.autodiff.passes.fused_loop import C_TYPES, Fused, Step
from helpers.autodiff.rewriting import Inputs, maker_of, readers, rebuild
from helpers.autodiff.sizes import symbols

LIMIT = 64  # operators in a loop: beyond, registers run out long before


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
