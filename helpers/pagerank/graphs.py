"""Graphs as PageRank reads them: a matrix of incoming links, from whatever the caller holds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from helpers.machine import free_memory

if TYPE_CHECKING:
    from scipy.sparse import coo_array, csr_array


SMALLEST, LARGEST = 1e-15, 1e15  # weights whose sums and inverses single precision holds


@dataclass(frozen=True)
class Links:
    """A weighted directed graph with N nodes and E distinct edges, stored by target."""

    # (N, N), float64 with int32 indices where they fit; (i, j) is the weight of the edge j → i,
    # parallel edges added up.
    incoming: csr_array
    names: tuple[Hashable, ...] | None = None  # in row order; None where the caller numbered them

    @property
    def nodes(self) -> int:
        """N."""
        return self.incoming.shape[0]

    @property
    def edges(self) -> int:
        """E."""
        return self.incoming.nnz

    @cached_property
    def numbers(self) -> dict[Hashable, int]:
        """The row of each name; empty where the caller numbered the nodes."""
        return {name: row for row, name in enumerate(self.names or ())}

    @cached_property
    def out_weight(self) -> np.ndarray:
        """Sum of the weights that leave each node, shape (N,); 0 for a dangling node."""
        return np.bincount(
            self.incoming.indices, weights=self.incoming.data, minlength=self.nodes
        ).astype(np.float64)

    @cached_property
    def inverse_out(self) -> np.ndarray:
        """1 / out_weight, and 0 where nothing leaves the node, shape (N,)."""
        out = self.out_weight
        return np.divide(1.0, out, out=np.zeros_like(out), where=out > 0)

    @cached_property
    def unweighted(self) -> bool:
        """Whether every stored weight is 1."""
        return bool((self.incoming.data == 1).all())


def is_networkx(graph) -> bool:
    """Tell whether a graph is one of NetworkX's (or behaves so)."""
    return hasattr(graph, "is_directed") and hasattr(graph, "adj")


def links(graph, weight: str | None = "weight") -> Links:
    """Read a NetworkX graph, a SciPy sparse matrix or an edge list into :class:`Links`.

    A SciPy matrix holds the weight of i → j at (i, j), as NetworkX and scikit-network have it.
    An edge list is a sequence of (source, target) or (source, target, weight), or an array of
    shape (E, 2) or (E, 3): nodes numbered from 0, or named by strings. An array that might as well
    be a dense matrix is refused. An undirected NetworkX graph counts each edge both ways.
    ``weight`` names NetworkX's edge attribute (missing: 1; None: all edges count 1).

    Raises ValueError for a graph without nodes, a matrix that is not square, weights that are not
    real, negative or not finite, and node numbers that are negative, not whole, or so large that
    the memory is too small for all nodes up to them.
    """
    if isinstance(graph, Links):
        return graph
    names = None
    if is_networkx(graph):
        import networkx as nx

        names = tuple(graph)
        if not names:
            raise ValueError("pagerank expects a graph with at least one node; got an empty one")
        matrix = nx.to_scipy_sparse_array(graph, weight=weight, dtype=np.float64)
    elif hasattr(graph, "tocsr"):
        if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
            raise ValueError(f"pagerank expects a square matrix; got shape {graph.shape}")
        matrix = graph
    else:
        matrix, names = _from_edges(graph)
    if matrix.shape[0] == 0:
        raise ValueError("pagerank expects a graph with at least one node; got an empty one")
    return Links(_by_target(matrix), names)


def _by_target(matrix) -> csr_array:
    """Transpose a sparse matrix into the checked CSR array that :class:`Links` holds."""
    from scipy import sparse

    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"edge weights must be real numbers; got a matrix of {matrix.dtype}")
    # The CSC form of A is, array for array, the CSR form of A transposed.
    columns = sparse.csr_array(matrix).tocsc()
    if not columns.has_canonical_format:
        columns.sum_duplicates()
    data = columns.data.astype(np.float64, copy=False)
    if data.size:
        low, high = data.min(), data.max()
        if not (low >= 0 and np.isfinite(high)):  # a NaN fails the first comparison
            bad = data[~(np.isfinite(data) & (data >= 0))][0]
            raise ValueError(
                f"edge weights must be finite and at least 0; got {bad} (parallel edges add up)"
            )
    if data.size and low == 0:  # a stored zero is no edge
        columns.data = data
        columns.eliminate_zeros()
        data = columns.data
    index = np.int32 if columns.nnz < 2**31 and columns.shape[0] < 2**31 else np.int64
    made = sparse.csr_array(columns.shape[::-1], dtype=np.float64)
    made.indptr = columns.indptr.astype(index, copy=False)
    made.indices = columns.indices.astype(index, copy=False)
    made.data = data
    if data.size and not (data.min() > SMALLEST and data.max() < LARGEST):
        _scale(made)
    return made


def _scale(incoming: csr_array) -> None:
    """Divide the weights that leave a node by a power of two, so that the largest is below 1.

    That changes no rank and, but for what vanishes beside the largest, no bit; sums and inverses
    are then finite for any finite weights, in single precision too.
    """
    exponent = np.frexp(incoming.data)[1]
    largest = np.full(incoming.shape[0], np.iinfo(exponent.dtype).min)
    np.maximum.at(largest, incoming.indices, exponent)
    incoming.data = np.ldexp(incoming.data, -largest[incoming.indices])
    incoming.eliminate_zeros()


def _from_edges(edges: Iterable) -> tuple[coo_array, tuple[str, ...] | None]:
    """Return the matrix of an edge list, row = source, and the nodes' names if they have any."""
    from scipy import sparse

    rows = _rows(edges)
    names = None
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iuf":
        ends, weights = rows[:, :2], rows[:, 2:].astype(np.float64).reshape(-1)
    else:
        ends = [(row[0], row[1]) for row in rows]
        weights = np.array([_weight(row[2]) for row in rows if len(row) == 3])
        if all(isinstance(end, str) for pair in ends for end in pair):
            ends, names = _numbered(ends)
    table = _node_numbers(ends)
    n = int(table.max()) + 1
    if 16 * n > free_memory():
        raise ValueError(
            f"the node number {n - 1} makes a graph of {n} nodes, more than the memory holds: "
            "number the nodes from 0 without gaps, or name them by strings"
        )
    weights = weights if weights.size else np.ones(len(table))
    return sparse.coo_array((weights, (table[:, 0], table[:, 1])), shape=(n, n)), names


def _rows(edges: Iterable) -> np.ndarray | list:
    """Return an edge list as a list or an array of two dimensions, checked for its width."""
    if hasattr(edges, "__array__"):  # a torch tensor or a table of pandas as well
        edges = np.asarray(edges)
        shape = edges.shape
        twins = len(shape) == 2 and (shape[0] == shape[1] or (shape == (2, 3) and _whole(edges)))
        if twins:  # (2, 3): three edges as two rows, or two with their weights
            raise ValueError(
                f"pagerank cannot tell edges from a dense matrix in an array of shape {shape}: "
                "pass a matrix A as scipy.sparse.csr_array(A), and edges as A.tolist()"
            )
    elif isinstance(edges, str | bytes | Mapping) or not isinstance(edges, Iterable):
        raise _no_graph(f"{edges!r}, a {type(edges).__name__}")
    rows = edges if isinstance(edges, np.ndarray) and edges.ndim == 2 else list(edges)
    if len(rows) == 0:
        raise ValueError("pagerank expects a graph with at least one node; got an empty edge list")
    widths = set(rows.shape[1:]) if isinstance(rows, np.ndarray) else {_width(r) for r in rows}
    if len(widths) != 1 or not widths <= {2, 3}:
        raise ValueError(
            "an edge list holds (source, target) or (source, target, weight); got rows of "
            f"{sorted(widths)} entries"
        )
    return rows


def _whole(array: np.ndarray) -> bool:
    return array.dtype.kind in "iu"


def _no_graph(got: str) -> ValueError:
    return ValueError(
        "pagerank expects a NetworkX graph, a SciPy sparse matrix or an edge list of "
        f"(source, target[, weight]); got {got}"
    )


def _width(row: object) -> int:
    if isinstance(row, str) or not hasattr(row, "__len__"):
        raise _no_graph(f"an element {row!r}")
    return len(row)


def _weight(value: object) -> float:
    if not isinstance(value, Real):
        raise ValueError(f"edge weights must be real numbers; got {value!r}")
    return float(value)


def _numbered(ends: list[tuple[str, str]]) -> tuple[list[tuple[int, int]], tuple[str, ...]]:
    """Number the names in the order in which they appear."""
    numbers = {name: i for i, name in enumerate(dict.fromkeys(e for pair in ends for e in pair))}
    return [(numbers[a], numbers[b]) for a, b in ends], tuple(numbers)


def _node_numbers(ends: np.ndarray | list[tuple]) -> np.ndarray:
    """Return source and target of each edge, int64 (E, 2)."""
    if not isinstance(ends, np.ndarray) or (ends != np.floor(ends)).any() or ends.min() < 0:
        bad = next((end for pair in ends for end in pair if not _is_number(end)), None)
        if bad is not None or any(None in pair for pair in ends if isinstance(pair, tuple)):
            raise ValueError(
                f"an edge list's nodes are whole numbers from 0, or all strings; got {bad!r}"
            )
    elif ends.max() >= 2**63:
        raise ValueError(f"an edge list's node numbers are below 2**63; got {ends.max()}")
    return np.asarray(ends).astype(np.int64)


def _is_number(end: object) -> bool:
    """Whether a node is a whole number from 0 that int64 holds (True is no number of a node)."""
    if isinstance(end, bool | np.bool_) or not isinstance(end, Real):
        return False
    return 0 <= end < 2**63 and (isinstance(end, Integral) or end == int(end))


def random_links(n: int = 10_000, p: float = 1e-3, seed: int = 0) -> Links:
    """Draw a directed Erdős-Rényi graph in which every node has at least one out-edge.

    Each of the n(n-1) possible edges is present with probability ``p``, independently (Gilbert
    1959; drawn as in Batagelj & Brandes 2005); a node left without an out-edge is given one to a
    random other node, as the source does. Memory grows with the edges, not with n².
    Raises ValueError for n < 2 or p outside [0, 1].
    """
    from scipy import sparse

    if n < 2 or not 0 <= p <= 1:
        raise ValueError(f"random_links expects n >= 2 and 0 <= p <= 1; got n={n}, p={p}")
    rng = np.random.default_rng(seed)
    # Walk over the n(n-1) possible edges from one that is present to the next: gaps are geometric.
    cells, parts, last = n * (n - 1), [], -1
    while p > 0 and last < cells:
        left = (cells - last) * p
        gaps = rng.geometric(p, size=int(left + 5 * left**0.5) + 10)
        parts.append(last + np.cumsum(gaps))
        last = int(parts[-1][-1])
    cell = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    source, target = np.divmod(cell[cell < cells], n - 1)
    target += target >= source  # skips the diagonal
    degree = np.bincount(source, minlength=n)
    lonely = np.flatnonzero(degree == 0)
    given = rng.integers(0, n - 1, size=lonely.size)
    given += given >= lonely
    starts = np.cumsum(degree) - degree
    target = np.insert(target, starts[lonely], given)
    ends = np.cumsum(np.maximum(degree, 1))
    matrix = sparse.csr_array(
        (np.ones(target.size), target, np.concatenate([[0], ends])), shape=(n, n)
    )
    return Links(_by_target(matrix))
