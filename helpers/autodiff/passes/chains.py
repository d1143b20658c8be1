"""The order of a chain of matrix products, chosen by shape.

A (n × 1000) · B (1000 × 1000) · v (1000 × 1) costs 2·10⁶(n + ...) multiplications from the left and
far fewer from the right. The best order of a chain of k products is found in O(k³) by dynamic
programming (Cormen et al., "Introduction to Algorithms", section 15.2).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from helpers.autodiff.graph import Application, Variable, apply
from helpers.autodiff.matmul import MatMul
from helpers.autodiff.rewriting import Inputs, readers, rebuild
from helpers.autodiff.sizes import resolve, symbols


def order_products(
    outputs: Sequence[Variable],
    inputs: Container[Variable] = (),
    sizes: Mapping[str, int] | None = None,
) -> list[Variable]:
    """Multiply each chain of matrices in the order of fewest multiplications.

    Parameters
    ----------
    outputs : sequence of Variable
        What the graph is for.
    inputs : container of Variable
        What is fed.
    sizes : mapping, optional
        Symbol → a typical number. A chain with other symbols stays as it is.

    Returns
    -------
    list of Variable
        In place of ``outputs``.
    """
    count = readers(outputs, inputs)
    chains: dict[Variable, list[Variable]] = {}  # of each rebuilt product its factors

    def ordered(node: Application, operands: Inputs) -> Variable | None:
        if not isinstance(node.operator, MatMul) or node.output.ndim != 2:
            return None
        factors = []
        for operand, old in zip(operands, node.inputs, strict=True):
            # a product that others read too is there anyway: it is one factor
            factors += chains.get(operand, [operand]) if count[old] == 1 else [operand]
        dims = (factors[0].shape[0], *(f.shape[1] for f in factors))
        if len(factors) < 3 or symbols(dims) - (sizes or {}).keys():
            new = apply(node.operator, *operands)
        else:
            new = _product(factors, best_splits(resolve(dims, sizes or {})), 0, len(factors) - 1)
        chains[new] = factors
        return new

    return rebuild(outputs, ordered, inputs)


def best_splits(dims: Sequence[int]) -> dict[tuple[int, int], tuple[int, int]]:
    """Find where to split each part of a chain.

    Parameters
    ----------
    dims : sequence of int
        Factor i is ``dims[i]`` × ``dims[i + 1]``.

    Returns
    -------
    dict
        (first, last factor) → (fewest multiplications, last factor of the left half).
    """
    best = {(i, i): (0, i) for i in range(len(dims) - 1)}
    for length in range(2, len(dims)):
        for i in range(len(dims) - length):
            j = i + length - 1
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + dims[i] * dims[k + 1] * dims[j + 1], k)
                for k in range(i, j)
            )
    return best


def _product(
    factors: Sequence[Variable], best: Mapping[tuple[int, int], tuple[int, int]], i: int, j: int
) -> Variable:
    if i == j:
        return factors[i]
    k = best[i, j][1]
    return apply(MatMul(), _product(factors, best, i, k), _product(factors, best, k + 1, j))
