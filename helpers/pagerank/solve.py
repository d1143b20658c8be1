"""PageRank of any graph: one function, every method, the same answer.

Source: Page, Brin, Motwani & Winograd (1999), "The PageRank citation ranking". The rank x solves

    x[i] = (1 − d) v[i] + d · ( Σ_{j → i} w[j, i] / out[j] · x[j]  +  v[i] · Σ_{j dangling} x[j] )

with d the damping, v the personalization (1/N unless given) and Σ x = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from helpers.machine.compilers import has_compiler
from helpers.pagerank.graphs import Links, links
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
    damping: float = 0.85,
    tolerance: float = 1e-10,
    max_iterations: int = 200,
    personalization=None,
    weight: str | None = "weight",
    dtype: str = "float64",
    device: str = "cpu",
) -> PageRankResult:
    """Rank the nodes of a graph by the random surfer's visits.

    >>> pagerank([(0, 1), (1, 2), (2, 1)]).scores.round(3).tolist()
    [0.05, 0.487, 0.464]

    ``graph``: a NetworkX graph, a SciPy sparse matrix (row = source) or an edge list; see
    :func:`helpers.pagerank.graphs.links`, whose result is also taken. ``method``: "csr" (SciPy,
    power iteration), "ordered" (C, Gauss-Seidel along the strongly connected components), "auto"
    (ordered if there is a C compiler, else csr), or a version of notebook 06 in torch: "torch"
    (CSR), "scatter", "dgl", "sparse", "dense", "dense_folded", "dense_scaled", "bits".
    ``tolerance``: the L1 change at which to stop. ``personalization``: where the surfer restarts,
    a dict from node to weight (absent: 0) or an array (N,); it also receives the rank of dangling
    nodes, as in NetworkX. ``dtype``: "float64" or "float32". ``device``: torch's methods only.

    Raises ValueError for an empty graph, negative or NaN weights, unknown node names and
    parameters out of range; ConvergenceError when ``max_iterations`` do not reach ``tolerance``.
    """
    _check(method, damping, tolerance, max_iterations, dtype, device)
    graph = links(graph, weight)
    teleport = _teleport(graph, personalization)
    if method == "auto":
        method = "ordered" if has_compiler() else "csr"
    arguments = (graph, teleport, damping, tolerance, max_iterations, np.dtype(dtype))
    if method == "ordered":
        x, residuals = _ordered(*arguments)
    elif method == "csr":
        x, residuals = _power_scipy(*arguments)
    else:
        x, residuals = _power_torch(*arguments, method, device)
    x = np.asarray(x, dtype=np.float64)
    x = x / x.sum()
    scores = x if graph.names is None else dict(zip(graph.names, x.tolist(), strict=True))
    result = PageRankResult(scores, len(residuals), tuple(residuals), method)
    if not residuals[-1] <= tolerance:
        hint = "" if dtype == "float64" else "; float32 resolves about 1e-7: try float64"
        raise ConvergenceError(
            f"after {len(residuals)} iterations the L1 change is {residuals[-1]:.2g}, above the "
            f"tolerance {tolerance:.2g}: raise max_iterations or the tolerance{hint}",
            result,
        )
    return result


def _power_scipy(graph: Links, teleport, damping, tolerance, limit, dtype):
    """Version 4 in SciPy: x ← d M x + what is missing from 1, spread over ``teleport``."""
    from scipy import sparse

    rows = graph.incoming
    values = np.take((damping * graph.inverse_out).astype(dtype), rows.indices)
    if not graph.unweighted:
        values *= rows.data.astype(dtype)
    matrix = sparse.csr_array(rows.shape, dtype=dtype)
    matrix.indptr, matrix.indices, matrix.data = rows.indptr, rows.indices, values
    teleport = teleport.astype(dtype)
    x, residuals = teleport.copy(), []
    while len(residuals) < limit and not (residuals and residuals[-1] <= tolerance):
        y = matrix @ x
        # Teleport and dangling rank in one: both go where `teleport` says, and the sum must be 1.
        y += (1 - y.sum(dtype=np.float64)).astype(dtype) * teleport
        x -= y
        residuals.append(float(np.abs(x, out=x).sum(dtype=np.float64)))
        x = y
    return x, residuals


def _power_torch(graph: Links, teleport, damping, tolerance, limit, dtype, method, device):
    """The same loop over one of the versions in torch."""
    import torch

    version = VERSIONS["csr" if method == "torch" else method](graph, dtype.name, device)
    teleport = torch.from_numpy(teleport).to(version.device, version.dtype)
    x, residuals = teleport.clone(), []
    while len(residuals) < limit and not (residuals and residuals[-1] <= tolerance):
        y = version.product(x).mul_(damping)
        y += (1 - y.sum()) * teleport
        residuals.append((y - x).abs().sum(dtype=torch.float64).item())
        x = y
    return x.cpu().numpy(), residuals


def _ordered(graph: Links, teleport, damping, tolerance, limit, dtype):
    """Gauss-Seidel in C, along the links: (I − d M) x = v, then scaled to sum 1.

    Rank flows from component to component of a directed graph and never back, so solving the
    components in that order needs few sweeps: one, and one to confirm, where there is no cycle.
    The solution's scale takes care of dangling nodes: their rank returns along v as well.
    """
    from helpers.pagerank.compiled import make_sweep, order_components

    rows = graph.incoming
    if rows.indices.dtype != np.int32:
        raise ValueError(f"method 'ordered' takes up to 2**31 edges; got {graph.edges}: use 'csr'")
    order, blocks = order_components(rows.indptr, rows.indices, SMALL_COMPONENT)
    factor = (damping * graph.inverse_out).astype(dtype)
    weights = None if graph.unweighted else rows.data.astype(dtype)
    base = teleport.astype(dtype)
    sweep = make_sweep(
        rows.indptr, rows.indices, weights, factor, base, blocks, order, damping, SMALL_COMPONENT
    )
    x = base / dtype.type(1 - damping)
    scaled, residuals = x * factor, []
    while len(residuals) < limit and not (residuals and residuals[-1] <= tolerance):
        residuals.append(sweep(x, scaled, tolerance))
    return x, residuals


def _teleport(graph: Links, personalization) -> np.ndarray:
    """The restart distribution, shape (N,), float64, sum 1."""
    n = graph.nodes
    if personalization is None:
        return np.full(n, 1.0 / n)
    if isinstance(personalization, Mapping):
        number = range(n) if graph.names is None else {v: i for i, v in enumerate(graph.names)}
        restart = np.zeros(n)
        for name, value in personalization.items():
            if name not in number:
                raise ValueError(f"personalization names {name!r}, which is no node of the graph")
            restart[number[name]] = value
    else:
        restart = np.asarray(personalization, dtype=np.float64)
        if restart.shape != (n,):
            raise ValueError(f"personalization expects shape ({n},); got {restart.shape}")
    if not (np.isfinite(restart) & (restart >= 0)).all() or restart.sum() == 0:
        bad = restart[~(np.isfinite(restart) & (restart >= 0))]
        got = f"got {bad[0]}" if bad.size else "all are 0"
        raise ValueError(f"personalization expects finite weights >= 0, not all 0; {got}")
    return restart / restart.sum()


def _check(method, damping, tolerance, max_iterations, dtype, device):
    if method not in METHODS:
        raise ValueError(f"pagerank expects a method of {', '.join(METHODS)}; got {method!r}")
    if not 0 <= damping < 1:
        raise ValueError(f"pagerank expects 0 <= damping < 1; got {damping}")
    if not tolerance > 0:
        raise ValueError(f"pagerank expects tolerance > 0; got {tolerance}")
    if max_iterations < 1:
        raise ValueError(f"pagerank expects max_iterations >= 1; got {max_iterations}")
    if np.dtype(dtype).name not in ("float32", "float64"):
        raise ValueError(f"pagerank expects dtype float32 or float64; got {dtype!r}")
    if str(device).partition(":")[0] not in DEVICES[method]:
        raise ValueError(f"method {method!r} runs on the CPU; for {device!r} use method='torch'")
