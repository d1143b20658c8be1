"""PageRank of any graph: one function, two methods, the same answer.

Source: Page, Brin, Motwani & Winograd (1999), "The PageRank citation ranking". The rank x solves

    x[i] = (1 − d) v[i] + d · ( Σ_{j → i} w[j, i] / out[j] · x[j]  +  v[i] · Σ_{j dangling} x[j] )

with d the damping, v the personalization (1/N unless given) and Σ x = 1.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import POINTER, c_double, c_int32, c_int64
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from helpers import native
from helpers.machine.compilers import find_compiler
from helpers.pagerank.graphs import Links, links

SMALL_COMPONENT = 1000  # nodes: up to here a cycle is solved on the spot, within one sweep
METHODS = ("auto", "ordered", "csr")


class ConvergenceError(RuntimeError):
    """The tolerance was not reached; ``result`` holds what there was when the iterations ended."""

    def __init__(self, message: str, result: PageRankResult):
        super().__init__(message)
        self.result = result


@dataclass(frozen=True)
class PageRankResult:
    """Ranks that sum to 1, and how they were reached.

    ``scores``: an array (N,). ``iterations``: how many. ``residuals``: the L1 change of each.
    ``method``: the one that ran.
    """

    scores: np.ndarray
    iterations: int
    residuals: tuple[float, ...]
    method: str

    def top(self, count: int = 10) -> list[tuple[int, float]]:
        """The ``count`` highest-ranked nodes as (number, rank), highest first."""
        pairs = enumerate(self.scores.tolist())
        return sorted(pairs, key=lambda pair: -pair[1])[:count]


def pagerank(
    graph,
    method: str = "auto",
    damping: float = 0.85,
    tolerance: float = 1e-10,
    max_iterations: int = 200,
    personalization: np.ndarray | None = None,
) -> PageRankResult:
    """Rank the nodes of a graph by the random surfer's visits.

    >>> from scipy.sparse import csr_array
    >>> pagerank(csr_array([[0, 1, 0], [0, 0, 1], [0, 1, 0]])).scores.round(3).tolist()
    [0.05, 0.486, 0.464]

    Parameters
    ----------
    graph
        A SciPy sparse matrix (N, N), row = source, or :func:`helpers.pagerank.graphs.links` of one.
    method
        "csr" (SciPy, power iteration), "ordered" (C, Gauss-Seidel along the strongly connected
        components), or "auto": ordered if there is a C compiler that works, else csr.
        On Debian's packages ordered takes a tenth of csr's time (0.3 to 10 million edges), on
        random graphs as long (0.8 to 1.05 times). It is slower where a component of a tenth to a
        third of all nodes keeps what flows into it (1.3 to 1.9 times).
    tolerance
        The L1 change, summed over all nodes, at which to stop.
    personalization : (N,) numpy.ndarray, optional
        Where the surfer restarts, as weights; None: anywhere.

    Raises
    ------
    ValueError
        For an empty graph, negative or NaN weights and parameters out of range.
    ConvergenceError
        When ``max_iterations`` do not reach ``tolerance``.
    """
    if method not in METHODS:
        raise ValueError(f"pagerank expects a method of {', '.join(METHODS)}; got {method!r}")
    if not (0 <= damping < 1 and tolerance > 0 and max_iterations >= 1):
        raise ValueError(
            "pagerank expects 0 <= damping < 1, tolerance > 0 and max_iterations >= 1; got "
            f"damping={damping}, tolerance={tolerance}, max_iterations={max_iterations}"
        )
    graph = links(graph)
    teleport = _distribution(graph, personalization)
    if method == "auto":
        method = "ordered" if _works() else "csr"
    steps = (_ordered if method == "ordered" else _power)(graph, teleport, damping, tolerance)
    residuals: list[float] = []
    while len(residuals) < max_iterations and not (residuals and residuals[-1] <= tolerance):
        x, residual = next(steps)
        residuals.append(residual)
    result = PageRankResult(x / x.sum(), len(residuals), tuple(residuals), method)
    if not residuals[-1] <= tolerance:
        raise ConvergenceError(
            f"after {len(residuals)} iterations the L1 change is {residuals[-1]:.2g}, above the "
            f"tolerance {tolerance:.2g}: raise max_iterations or the tolerance",
            result,
        )
    return result


def _distribution(graph: Links, given: np.ndarray | None) -> np.ndarray:
    """Return weights of the nodes scaled to the sum 1, shape (N,); 1/N each for None."""
    weights = np.ones(graph.nodes) if given is None else np.array(given, dtype=np.float64)
    if weights.shape != (graph.nodes,):
        raise ValueError(f"personalization expects shape ({graph.nodes},); got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("personalization expects finite weights of at least 0, not all of them 0")
    return weights / weights.sum()


def _power(
    graph: Links, teleport: np.ndarray, damping: float, tolerance: float
) -> Iterator[tuple[np.ndarray, float]]:
    """Version 4 in SciPy: x ← d M x + what is missing from 1, spread over ``teleport``."""
    from scipy import sparse

    rows = graph.incoming
    values = np.take(damping * graph.inverse_out, rows.indices)
    if not graph.unweighted:
        values *= rows.data
    matrix = sparse.csr_array((values, rows.indices, rows.indptr), rows.shape)
    x = teleport.copy()
    while True:
        y = matrix @ x
        # Teleport and dangling rank in one: both go where `teleport` says, and the sum must be 1.
        y += (1 - y.sum()) * teleport
        x -= y
        yield y, float(np.abs(x, out=x).sum())
        x = y


def _ordered(
    graph: Links, teleport: np.ndarray, damping: float, tolerance: float
) -> Iterator[tuple[np.ndarray, float]]:
    """Gauss-Seidel in C, along the links: (I − d M) x = v, to be scaled to sum 1.

    Rank flows from component to component of a directed graph and never back, so solving the
    components in that order needs few sweeps: one, and one to confirm, where there is no cycle.
    The solution's scale takes care of dangling nodes: their rank returns along v as well.
    """
    rows = graph.incoming
    if rows.indices.dtype != np.int32:
        raise ValueError(f"method 'ordered' takes up to 2**31 edges; got {graph.edges}: use 'csr'")
    order, blocks = _order_components(rows.indptr, rows.indices)
    whole = [np.ascontiguousarray(a, np.int32) for a in (blocks, order, rows.indptr, rows.indices)]
    factor, x = damping * graph.inverse_out, teleport / (1 - damping)
    scaled, weights = x * factor, None if graph.unweighted else rows.data
    arrays = [_at(a, c_int32) for a in whole]
    arrays += [_at(a, c_double) for a in (weights, factor, teleport, x, scaled)]
    while True:
        yield x, _library().sweep(len(blocks) - 1, *arrays, damping, tolerance, SMALL_COMPONENT)


# --- in C: kernels.c, reached through ctypes -------------------------------------------------
@cache
def _library() -> ctypes.CDLL:
    made = native.load_c(Path(__file__).with_name("kernels.c").read_text())
    i32, reals = POINTER(c_int32), POINTER(c_double)
    made.sweep.argtypes = (c_int64, *[i32] * 4, *[reals] * 5, c_double, c_double, c_int32)
    made.sweep.restype = c_double
    made.order_components.argtypes = (c_int32, *[POINTER(c_int32)] * 5)
    made.order_components.restype = c_int64
    return made


def _works() -> bool:
    """Whether there is a C compiler that compiles the course's C, and the result can be loaded."""
    try:
        find_compiler()
        _library()
    except (native.CompilerError, OSError):
        return False
    return True


def _at(array, kind):
    return None if array is None else array.ctypes.data_as(POINTER(kind))


def _order_components(indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the nodes of a graph component by component, each after those that link to it.

    Returns (order, start): component b is ``order[start[b]:start[b + 1]]``. Large components are
    listed by number, which reads the matrix from beginning to end.
    """
    n = len(indptr) - 1
    order, start = np.empty(n, dtype=np.int32), np.empty(n + 1, dtype=np.int32)
    arrays = (indptr, indices, order, start, np.empty(5 * n, dtype=np.int32))
    count = _library().order_components(n, *(_at(a, c_int32) for a in arrays))
    start = start[: count + 1]
    for block in np.flatnonzero(np.diff(start) > SMALL_COMPONENT):
        order[start[block] : start[block + 1]].sort()
    return order, start
