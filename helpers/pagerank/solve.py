"""PageRank of any graph: one function, every method, the same answer.

Source: Page, Brin, Motwani & Winograd (1999), "The PageRank citation ranking". The rank x solves

    x[i] = (1 − d) v[i] + d · ( Σ_{j → i} w[j, i] / out[j] · x[j]  +  v[i] · Σ_{j dangling} x[j] )

with d the damping, v the personalization (1/N unless given) and Σ x = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from helpers.pagerank.graphs import Links, links
from helpers.pagerank.parameters import Stopping, check_device, distribution, real_type, stopping
from helpers.pagerank.versions import VERSIONS

SMALL_COMPONENT = 1000  # nodes: up to here a cycle is solved on the spot, within one sweep
DEVICES = {  # method → the kinds of device on which it runs
    "auto": ("cpu",),
    "ordered": ("cpu",),
    "csr": ("cpu",),  # SciPy's
    "torch": VERSIONS["csr"].devices,
    **{name: version.devices for name, version in VERSIONS.items() if name != "csr"},
}
METHODS = tuple(DEVICES)


class ConvergenceError(RuntimeError):
    """The tolerance was not reached; ``result`` holds what there was when the iterations ended."""

    def __init__(self, message: str, result: PageRankResult):
        super().__init__(message)
        self.result = result


@dataclass(frozen=True)
class PageRankResult:
    """Ranks that sum to 1, and how they were reached.

    ``scores``: an array (N,), or a dict by node name where nodes have names. ``iterations``: how
    many. ``residuals``: the L1 change of each. ``method``: the one that ran.
    """

    scores: np.ndarray | dict
    iterations: int
    residuals: tuple[float, ...]
    method: str

    def top(self, count: int = 10) -> list[tuple]:
        """The ``count`` highest-ranked nodes as (name or number, rank), highest first."""
        named = isinstance(self.scores, dict)
        pairs = self.scores.items() if named else enumerate(self.scores.tolist())
        return sorted(pairs, key=lambda pair: -pair[1])[:count]


def pagerank(
    graph,
    method: str = "auto",
    damping: float | None = None,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    personalization=None,
    weight: str | None = "weight",
    dtype: str = "float64",
    device: str = "cpu",
    *,
    dangling=None,
    nstart=None,
    alpha: float | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> PageRankResult:
    """Rank the nodes of a graph by the random surfer's visits.

    >>> pagerank([(0, 1), (1, 2), (2, 1)]).scores.round(3).tolist()
    [0.05, 0.486, 0.464]

    ``graph``: a NetworkX graph, a SciPy sparse matrix (row = source) or an edge list; see
    :func:`helpers.pagerank.graphs.links`, whose result is also taken. ``method``: "csr" (SciPy,
    power iteration), "ordered" (C, Gauss-Seidel along the strongly connected components), "auto"
    (ordered if there is a C compiler that works, else csr), or a version of notebook 06 in torch:
    "torch" (CSR), "scatter", "dgl", "sparse", "dense", "dense_folded", "dense_scaled".
    ``damping``: d (0.85). ``tolerance``: the L1 change, summed over all nodes, at which to stop
    (1e-10). ``max_iterations``: at most so many (200). ``personalization``: where the surfer
    restarts, a dict from node to weight (absent: 0) or an array (N,). ``dangling``: where the rank
    of dangling nodes goes, in the same form (None: where the surfer restarts); not with "ordered".
    ``nstart``: the ranks to start from, in the same form. ``dtype``: "float64" or "float32".
    ``device``: torch's methods only. For a NetworkX graph, ``alpha``, ``tol`` and ``max_iter`` may
    stand for damping, tolerance and max_iterations as in NetworkX, whose ``tol`` counts for each
    node: with N nodes it is a tolerance of N · tol.

    Raises ValueError for an empty graph, negative or NaN weights, unknown node names and
    parameters out of range; ConvergenceError when ``max_iterations`` do not reach ``tolerance``.
    """
    if method not in METHODS:
        raise ValueError(f"pagerank expects a method of {', '.join(METHODS)}; got {method!r}")
    ours = {"damping": damping, "tolerance": tolerance, "max_iterations": max_iterations}
    stop = stopping(graph, ours, {"alpha": alpha, "tol": tol, "max_iter": max_iter})
    real = real_type(dtype)
    check_device(method, device, DEVICES[method])
    graph = links(graph, weight)
    teleport = distribution(graph, personalization, "personalization")
    spread = None if dangling is None else distribution(graph, dangling, "dangling")
    start = teleport if nstart is None else distribution(graph, nstart, "nstart")
    if method == "auto":
        method = "ordered" if spread is None and _compiles() else "csr"
    if method == "ordered" and spread is not None:
        raise ValueError("method 'ordered' takes no dangling=: use 'csr', 'auto' or 'torch'")
    if method == "ordered":
        x, residuals = _ordered(graph, teleport, start, stop, real)
    elif method == "csr":
        x, residuals = _power_scipy(graph, teleport, spread, start, stop, real)
    else:
        x, residuals = _power_torch(graph, teleport, spread, start, stop, real, method, device)
    x = np.asarray(x, dtype=np.float64)
    x = x / x.sum()
    scores = x if graph.names is None else dict(zip(graph.names, x.tolist(), strict=True))
    result = PageRankResult(scores, len(residuals), tuple(residuals), method)
    if not residuals[-1] <= stop.tolerance:
        hint = "" if real == np.float64 else "; float32 resolves about 1e-7: try float64"
        raise ConvergenceError(
            f"after {len(residuals)} iterations the L1 change is {residuals[-1]:.2g}, above the "
            f"tolerance {stop.tolerance:.2g}: raise max_iterations or the tolerance{hint}",
            result,
        )
    return result


def _compiles() -> bool:
    """Whether a C compiler is here, and takes the course's C."""
    from helpers.pagerank.compiled import works

    return works()


def _goes_on(residuals: list[float], stop: Stopping) -> bool:
    return len(residuals) < stop.max_iterations and not (
        residuals and residuals[-1] <= stop.tolerance
    )


def _power_scipy(graph: Links, teleport, spread, start, stop, dtype):
    """Version 4 in SciPy: x ← d M x + what is missing from 1, spread over ``teleport``."""
    from scipy import sparse

    rows = graph.incoming
    values = np.take(stop.damping * graph.inverse_out, rows.indices)
    if not graph.unweighted:
        values *= rows.data
    matrix = sparse.csr_array(rows.shape, dtype=dtype)
    matrix.indptr, matrix.indices, matrix.data = rows.indptr, rows.indices, values.astype(dtype)
    teleport, ends = teleport.astype(dtype), graph.out_weight == 0
    x, residuals = start.astype(dtype), []
    while _goes_on(residuals, stop):
        y = matrix @ x
        missing = 1 - y.sum(dtype=np.float64)
        # Teleport and dangling rank in one: both go where `teleport` says, and the sum must be 1.
        if spread is not None:  # ... unless the dangling rank goes elsewhere
            lost = stop.damping * x[ends].sum(dtype=np.float64)
            y += (lost * spread).astype(dtype)
            missing -= lost
        y += dtype.type(missing) * teleport
        x -= y
        residuals.append(float(np.abs(x, out=x).sum(dtype=np.float64)))
        x = y
    return x, residuals


def _power_torch(graph: Links, teleport, spread, start, stop, dtype, method, device):
    """The same loop over one of the versions in torch."""
    import torch

    version = VERSIONS["csr" if method == "torch" else method](graph, dtype.name, device)

    def vector(array):
        return torch.from_numpy(array).to(version.device, version.dtype)

    teleport, ends = vector(teleport), torch.from_numpy(graph.out_weight == 0).to(version.device)
    spread = None if spread is None else vector(spread)
    x, residuals = vector(start).clone(), []
    while _goes_on(residuals, stop):
        y = version.product(x).mul_(stop.damping)
        missing = 1 - y.sum()
        if spread is not None:
            lost = stop.damping * x[ends].sum()
            y += lost * spread
            missing -= lost
        y += missing * teleport
        residuals.append((y - x).abs().sum(dtype=torch.float64).item())
        x = y
    return x.cpu().numpy(), residuals


def _ordered(graph: Links, teleport, start, stop, dtype):
    """Gauss-Seidel in C, along the links: (I − d M) x = v, then scaled to sum 1.

    Rank flows from component to component of a directed graph and never back, so solving the
    components in that order needs few sweeps: one, and one to confirm, where there is no cycle.
    The solution's scale takes care of dangling nodes: their rank returns along v as well.
    """
    from helpers.pagerank.compiled import make_sweep, order_components

    rows, damping = graph.incoming, stop.damping
    if rows.indices.dtype != np.int32:
        raise ValueError(f"method 'ordered' takes up to 2**31 edges; got {graph.edges}: use 'csr'")
    order, blocks = order_components(rows.indptr, rows.indices, SMALL_COMPONENT)
    factor = (damping * graph.inverse_out).astype(dtype)
    weights = None if graph.unweighted else rows.data.astype(dtype)
    base = teleport.astype(dtype)
    sweep = make_sweep(
        rows.indptr, rows.indices, weights, factor, base, blocks, order, damping, SMALL_COMPONENT
    )
    if start is teleport:
        x = base / dtype.type(1 - damping)
    else:  # at the scale that the solution will have: sum of x (1 − d where a node has links) = 1
        x = (start / (start @ (1 - damping * (graph.out_weight > 0)))).astype(dtype)
    scaled, residuals = x * factor, []
    while _goes_on(residuals, stop):
        residuals.append(sweep(x, scaled, stop.tolerance))
    return x, residuals
