"""*Fast math*: passes that compute what is equal in mathematics, and not in floating point.

    x + 1 − 2 + x          becomes   2x − 1
    x + a + y + b          becomes   (x + y) + broadcast(a + b),   x, y large and a, b scalars
    (A B) v                becomes   A (B v)

A sum or a chain of products has no order in mathematics, and a cheapest one in memory or time. In
floating point another order moves the last digits, and more than these where numbers are far apart
or not finite: x − x becomes 0 where x is infinite or NaN, x + 1e20 − 1e20 becomes x where it was 0.
Compilers do this under a flag like ``-ffast-math`` only; here you ask for it by this module's name.

The best order of a chain of k products is found in O(k³) by dynamic programming (Cormen et al.,
"Introduction to Algorithms", section 15.2).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

import numpy as np

from helpers.autodiff.broadcasting import Broadcast, broadcast
from helpers.autodiff.constants import Full, full
from helpers.autodiff.elementwise import add, multiply, negative, subtract
from helpers.autodiff.graph import Application, Variable, apply, topological
from helpers.autodiff.operator import Operator
from helpers.autodiff.products import MatMul
from helpers.autodiff.rewriting import Inputs, maker_of, readers, rebuild
from helpers.autodiff.sizes import symbols

SIGNS = {add: (1, 1), subtract: (1, -1), negative: (-1,)}
LONGEST = 500  # factors in a chain: the order of more takes longer than it saves

Terms = dict[Variable | None, float]  # variable → how often; None stands for the number 1


def collect_terms(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
    """Rewrite each sum as Σ coefficient · term, the terms of smaller shape first (*fast math*)."""
    inner = _inner(outputs, inputs, _is_sum)
    sums: dict[Variable, Terms] = {}  # of each rebuilt sum its terms

    def collected(node: Application, operands: Inputs) -> Variable | None:
        if not _is_sum(node):
            return None
        terms: Terms = {}
        parts = zip(SIGNS[node.operator], operands, node.inputs, strict=True)  # type: ignore[index]
        for sign, operand, old in parts:
            known = sums.pop(operand, None) if old in inner else None
            if known and not terms and sign == 1:
                terms = known  # goes on, and is not copied: a sum of n terms takes O(n)
                continue
            for term, coefficient in (known or _terms(operand, inputs)).items():
                terms[term] = terms.get(term, 0) + sign * coefficient
        if node.output in inner:
            new = apply(node.operator, *operands)  # only its key: the whole sum replaces it
        else:
            new = _sum(terms, node.output, inputs)
        sums[new] = terms
        return new

    return rebuild(outputs, collected, inputs)


def order_products(outputs: Sequence[Variable], inputs: Container[Variable] = ()) -> list[Variable]:
    """Multiply each chain of matrices in the order of fewest multiplications (*fast math*).

    A chain with symbols in its sizes stays as it is.
    """
    inner = _inner(outputs, inputs, _is_product)
    chains: dict[Variable, list[Variable]] = {}  # of each rebuilt product its factors

    def ordered(node: Application, operands: Inputs) -> Variable | None:
        if not _is_product(node):
            return None
        factors: list[Variable] = []
        for operand, old in zip(operands, node.inputs, strict=True):
            known = chains.get(operand) if old in inner else None
            factors += known if known and len(factors + known) < LONGEST else [operand]
        dims = (factors[0].shape[0], *(f.shape[1] for f in factors))
        new = apply(node.operator, *operands)
        if node.output not in inner and not symbols(dims):
            splits = best_splits(dims)  # type: ignore[arg-type]
            new = _product(factors, splits, 0, len(factors) - 1)
        chains[new] = factors
        return new

    return rebuild(outputs, ordered, inputs)


def _inner(
    outputs: Sequence[Variable],
    inputs: Container[Variable],
    joins: Callable[[Application], bool],
) -> set[Variable]:
    """Find what only one operator reads, of the same kind: others read the rest as it is."""
    count = readers(outputs, inputs)
    order = [node for node in topological(outputs, inputs) if joins(node)]
    return {v for node in order for v in node.inputs if count[v] == 1}


def _is_sum(node: Application) -> bool:
    return node.operator in SIGNS and node.output.dtype.kind == "f"


def _is_product(node: Application) -> bool:
    return isinstance(node.operator, MatMul) and node.output.ndim == 2


def _terms(v: Variable, inputs: Container[Variable]) -> Terms:
    """Read a variable as number · term."""
    maker = maker_of(v, inputs)
    if (number := _number(maker)) is not None:
        return {None: number}
    if maker == multiply:
        for a, b in (v.maker.inputs, v.maker.inputs[::-1]):  # type: ignore[union-attr]
            if (number := _number(maker_of(a, inputs))) is not None:
                return {b: number}
    return {v: 1}


def _number(operator: Operator | None) -> float | None:
    if isinstance(operator, Full) and not symbols(operator.number):
        return operator.number  # type: ignore[return-value]
    return None


def _sum(terms: Terms, like: Variable, inputs: Container[Variable]) -> Variable:
    """Build Σ coefficient · term, within each shape before it is broadcast."""
    groups: dict[tuple, Variable] = {}
    for term, coefficient in terms.items():
        if term is None or coefficient == 0:
            continue
        grown = isinstance(maker_of(term, inputs), Broadcast)
        small = term.maker.inputs[0] if grown else term  # type: ignore[union-attr]
        if coefficient not in (1, -1):
            small = apply(multiply, full(coefficient, small.shape, small.dtype), small)
        if small.shape in groups:
            join = subtract if coefficient == -1 else add
            groups[small.shape] = apply(join, groups[small.shape], small)
        else:
            groups[small.shape] = apply(negative, small) if coefficient == -1 else small
    parts = [broadcast(part, like.shape) for part in groups.values()]
    number = terms.get(None, 0)
    if number or not parts:
        parts.append(full(number, like.shape, like.dtype))
    total = parts[0]
    for part in parts[1:]:
        total = apply(add, total, part)
    return total


def best_splits(dims: Sequence[int]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return (first, last factor) → (fewest multiplications, last factor of the left half).

    Factor i is ``dims[i]`` × ``dims[i + 1]``.
    """
    size, cost = np.asarray(dims, float), np.zeros((len(dims) - 1, len(dims) - 1))
    best = {(i, i): (0, i) for i in range(len(dims) - 1)}
    for length in range(1, len(dims) - 1):
        for i in range(len(dims) - 1 - length):
            j = i + length
            options = cost[i, i:j] + cost[i + 1 : j + 1, j]
            options += size[i] * size[j + 1] * size[i + 1 : j + 1]
            k = int(options.argmin())
            cost[i, j] = options[k]
            best[i, j] = (int(options[k]), i + k)
    return best


def _product(
    factors: Sequence[Variable], best: Mapping[tuple[int, int], tuple[int, int]], i: int, j: int
) -> Variable:
    if i == j:
        return factors[i]
    k = best[i, j][1]
    return apply(MatMul(), _product(factors, best, i, k), _product(factors, best, k + 1, j))
