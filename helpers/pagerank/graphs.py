"""Graphs as PageRank reads them: a matrix of incoming links, from a matrix of outgoing ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Links:
    """A weighted directed graph with N nodes and E distinct edges, stored by target."""

    # (N, N), float64 with int32 indices where they fit; (i, j) is the weight of the edge j → i,
    # parallel edges added up.
    incoming: csr_array

    @property
    def nodes(self) -> int:
        """N."""
        return self.incoming.shape[0]

    @property
    def edges(self) -> int:
        """E."""
        return self.incoming.nnz

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


def links(graph) -> Links:
    """Read a SciPy sparse matrix into :class:`Links`: the weight of i → j stands at (i, j).

    Raises ValueError for anything else, a matrix without nodes or not square, and weights that are
    not real, negative or not finite.
    """
    if isinstance(graph, Links):
        return graph
    if not hasattr(graph, "tocsr"):
        raise ValueError(
            f"pagerank expects a SciPy sparse matrix; got a {type(graph).__name__}: convert it by "
            "scipy.sparse.csr_array, or networkx.to_scipy_sparse_array"
        )
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1] or not graph.shape[0]:
        raise ValueError(
            f"pagerank expects a square matrix of a node at least; got shape {graph.shape}"
        )
    return Links(_by_target(graph))


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
    return made


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
