"""PageRank on MPI ranks: each owns a block of rows and exchanges the ranks that it lacks.

Runs on the ranks. ``comm`` is an mpi4py communicator (or one that behaves like it).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from helpers.pagerank.graphs import Links

EXCHANGES = ("allgather", "boundary")


@dataclass(frozen=True)
class Block:
    """What one rank holds: rows ``first`` to ``last`` of the link matrix, and who lacks what.

    ``needs[r]``: the nodes of rank r that link into these rows, sorted. ``gives[r]``: the nodes of
    this block that rank r needs. Node numbers are those of the whole graph.
    """

    first: int
    last: int
    rows: object  # scipy.sparse.csr_array of shape (last − first, N)
    needs: tuple[np.ndarray, ...]
    gives: tuple[np.ndarray, ...]


def bounds(nodes: int, ranks: int) -> np.ndarray:
    """Where each rank's rows begin, shape (ranks + 1,): blocks differ by one row at the most."""
    if ranks < 1:
        raise ValueError(f"bounds expects at least one rank; got {ranks}")
    return np.array([r * nodes // ranks for r in range(ranks + 1)])


def split(graph: Links, ranks: int) -> list[Block]:
    """Cut a graph into one block for each rank: rows of incoming links, in order."""
    edge = bounds(graph.nodes, ranks)
    matrix = graph.incoming.copy()
    matrix.data = matrix.data * graph.inverse_out[matrix.indices]  # pre-scaled, as version 4
    parts = [matrix[a:b] for a, b in itertools.pairwise(edge)]
    needs = []
    for part in parts:
        columns = np.unique(part.indices)
        needs.append(np.split(columns, np.searchsorted(columns, edge[1:-1])))
    return [
        Block(
            int(edge[r]),
            int(edge[r + 1]),
            parts[r],
            tuple(needs[r]),
            tuple(needs[s][r] for s in range(ranks)),
        )
        for r in range(ranks)
    ]


def predicted_bytes(blocks: list[Block], exchange: str) -> list[int]:
    """Return the bytes that each rank receives in one iteration, from the graph alone.

    By "allgather" these are N − own rows, whatever the graph; by "boundary" the distinct nodes of
    others that link into its rows. The three sums of each iteration (8 bytes a rank) are not
    counted.
    """
    _check(exchange)
    n = blocks[-1].last
    if exchange == "allgather":
        return [8 * (n - (b.last - b.first)) for b in blocks]
    return [
        8 * sum(need.size for s, need in enumerate(b.needs) if s != r) for r, b in enumerate(blocks)
    ]


def rank_block(
    block: Block,
    comm,
    exchange: str = "allgather",
    damping: float = 0.85,
    tolerance: float = 1e-10,
    max_iterations: int = 200,
) -> dict:
    """Power iteration over one rank's block; every rank of ``comm`` calls it with its own.

    Returns a dict: ``scores`` of this block's rows, ``iterations``, ``residual`` (L1 change) and
    ``received``, the bytes of other ranks' entries that arrived here. Teleport is uniform.
    Raises ValueError for an unknown exchange, RuntimeError on every rank when
    ``max_iterations`` do not reach ``tolerance``.
    """
    _check(exchange)
    n = block.rows.shape[1]
    x = np.full(n, 1.0 / n)  # the whole vector; only entries that this process needs stay current
    mine = slice(block.first, block.last)
    swap = _Boundary(block, comm) if exchange == "boundary" else _Allgather(block, comm, n)
    residual, iterations = np.inf, 0
    while iterations < max_iterations and residual > tolerance:
        y = damping * (block.rows @ x)
        y += (1 - _sum(comm, y.sum())) / n  # teleport and the rank of dangling nodes
        residual = _sum(comm, np.abs(y - x[mine]).sum())
        x[mine] = y
        swap(x)
        iterations += 1
    if residual > tolerance:
        raise RuntimeError(
            f"after {iterations} iterations the L1 change is {residual:.2g}, above the tolerance "
            f"{tolerance:.2g}: raise max_iterations"
        )
    return {
        "scores": x[mine].copy(),
        "iterations": iterations,
        "residual": residual,
        "received": swap.received,
    }


class _Allgather:
    """Every rank receives every other's rows."""

    def __init__(self, block: Block, comm, n: int):
        edge = bounds(n, comm.Get_size())
        self.comm, self.counts, self.starts = comm, np.diff(edge), edge[:-1]
        self.mine, self.received = slice(block.first, block.last), 0

    def __call__(self, x):
        from mpi4py import MPI

        own = x[self.mine].copy()
        self.comm.Allgatherv(own, [x, self.counts, self.starts, MPI.DOUBLE])
        self.received += x.nbytes - own.nbytes


class _Boundary:
    """Every rank receives the entries that its rows read, and no more."""

    def __init__(self, block: Block, comm):
        rank = comm.Get_rank()
        empty = np.empty(0, dtype=np.int64)
        needs = [empty if s == rank else need for s, need in enumerate(block.needs)]
        gives = [empty if s == rank else give for s, give in enumerate(block.gives)]
        self.comm, self.received = comm, 0
        self.into, self.out_of = np.concatenate(needs), np.concatenate(gives)
        self.arriving, self.leaving = np.empty(self.into.size), np.empty(self.out_of.size)
        self.counts = [[part.size for part in side] for side in (gives, needs)]

    def __call__(self, x):
        from mpi4py import MPI

        np.take(x, self.out_of, out=self.leaving)
        self.comm.Alltoallv(
            [self.leaving, self.counts[0], MPI.DOUBLE], [self.arriving, self.counts[1], MPI.DOUBLE]
        )
        x[self.into] = self.arriving
        self.received += self.arriving.nbytes


def _sum(comm, value: float) -> float:
    """Sum one number over the ranks."""
    total = np.empty(1)
    comm.Allreduce(np.array([value]), total)
    return float(total[0])


def _check(exchange: str) -> None:
    if exchange not in EXCHANGES:
        raise ValueError(f"exchange is one of {', '.join(EXCHANGES)}; got {exchange!r}")
