"""Time of PageRank, ours and four libraries', and time to read each version's bytes.

Calls that are compared take turns, and each row quotes the best of its runs: the least disturbed.
Whole calls and conversions are in processor time (each computes on one thread), iterations in wall
time, all threads.
The peers are run until the L1 change of one more step on their answer is at most 1e-10, or as near
as they come; ``residual`` says where they arrived. Converting edges to each library's own graph is
timed apart.
"""

from __future__ import annotations

import time

import numpy as np

from bench.launch import best, in_turns
from helpers.records import Row

SUITE = "pagerank"
TOLERANCE = 1e-10
DAMPING = 0.85
BUDGET = 15.0  # seconds for one group of calls that take turns


def rows() -> list[Row]:
    from helpers.pagerank.graphs import random_links

    made = []
    made += whole_calls("random", random_links().incoming.T.tocsr(), repeats=15)
    made += whole_calls("debian", debian(), repeats=15)
    floor = read_bandwidth()
    for edges in (10**5, 10**7):
        graph = random_links(10_000, edges / 1e8)
        made += [*versions(graph, floor), *coo_products(graph)]
    return made


def debian():
    from helpers.datasets.dependencies import load_dependencies

    return load_dependencies().adjacency()


def turns(calls: dict, repeats: int) -> dict[str, float]:
    """Return the best seconds of the processor of each of several calls."""
    return best(in_turns(calls, repeats, clock=time.process_time, budget=BUDGET))


def whole_calls(name: str, adjacency, repeats: int) -> list[Row]:
    """Time ours and the peers' from each one's own graph to scores, and the conversions."""
    import igraph
    import networkx as nx
    from fast_pagerank import pagerank_power
    from scipy import sparse
    from sknetwork.ranking import PageRank
    from threadpoolctl import threadpool_limits

    from helpers.pagerank import pagerank
    from helpers.pagerank.graphs import links

    coo = adjacency.tocoo()
    source, target = coo.coords
    n, shape = adjacency.shape[0], adjacency.shape
    old = sparse.csr_matrix(adjacency)  # two peers take SciPy's older class
    convert = {
        "ours": lambda: sparse.csr_array((coo.data, (source, target)), shape=shape),
        "scikit-network": lambda: sparse.csr_matrix((coo.data, (source, target)), shape=shape),
        "igraph": lambda: igraph.Graph(n=n, edges=np.column_stack(coo.coords), directed=True),
        "networkx": lambda: nx.from_scipy_sparse_array(adjacency, create_using=nx.DiGraph),
    }
    dense_graph, digraph = convert["igraph"](), convert["networkx"]()
    fitted = PageRank(DAMPING, "piteration", n_iter=1000, tol=TOLERANCE)
    runs = {
        "ours": lambda: pagerank(adjacency, "auto", DAMPING, TOLERANCE).scores,
        "scikit-network": lambda: fitted.fit_predict(old),
        "igraph": lambda: dense_graph.pagerank(damping=DAMPING),  # PRPACK stops at 1e-10 itself
        "fast-pagerank": lambda: pagerank_power(old, DAMPING, max_iter=1000, tol=l2),
        "networkx": lambda: list(
            nx.pagerank(digraph, DAMPING, tol=TOLERANCE / n, max_iter=1000).values()
        ),
    }
    l2 = TOLERANCE  # its tolerance is on the L2 norm: lowered until the L1 change is small enough
    while residual(adjacency, runs["fast-pagerank"]()) > TOLERANCE and l2 > 1e-16:
        l2 /= 2
    answers = {peer: np.asarray(run()) for peer, run in runs.items()}
    slow = {"networkx": runs.pop("networkx")}
    # The processor's own time, not the wall's: all five are held to one thread, and on a
    # shared machine this leaves out the others.
    with threadpool_limits(1):
        taken = turns(runs, repeats) | turns(slow, 1)
    prepared = links(adjacency)
    alone = turns(
        {m: lambda m=m: pagerank(prepared, m, DAMPING, TOLERANCE) for m in ("ordered", "csr")}, 9
    )
    converted = turns(convert, 1)
    result = pagerank(adjacency, "auto", DAMPING, TOLERANCE)
    parameters = {"graph": name, "nodes": n, "edges": int(adjacency.nnz), "tolerance": TOLERANCE}
    made = []
    for peer in ("scikit-network", "igraph", "fast-pagerank", "networkx"):
        found = {
            "method": result.method,
            "iterations": result.iterations,
            "residual": residual(adjacency, answers["ours"]),
            "peer_residual": residual(adjacency, answers[peer]),
            "l1_distance": float(np.abs(answers["ours"] - answers[peer]).sum()),
        }
        ours, theirs = taken["ours"] * 1e3, taken[peer] * 1e3
        made.append(Row(f"whole call, {name}", ours, "ms", peer, theirs, parameters | found))
    for method, seconds in alone.items():
        given = parameters | {"method": method}
        made.append(Row(f"graph already converted, {name}", seconds * 1e3, "ms", parameters=given))
    for peer in ("scikit-network", "igraph", "networkx"):
        ours, theirs = converted["ours"] * 1e3, converted[peer] * 1e3
        made.append(Row(f"conversion of edges, {name}", ours, "ms", peer, theirs, parameters))
    return made


def residual(adjacency, scores) -> float:
    """L1 change of one more power-iteration step on ``scores``."""
    x = np.asarray(scores)
    out = np.asarray(adjacency.sum(axis=1)).reshape(-1)
    y = DAMPING * (adjacency.T @ np.divide(x, out, out=np.zeros_like(x), where=out > 0))
    y += (x.sum() - y.sum()) / len(x)
    return float(np.abs(y - x).sum())


def versions(graph, floor: float, device: str = "cpu") -> list[Row]:
    """Time one iteration of each version beside its bytes ÷ ``floor`` (bytes per second)."""
    from helpers.pagerank import versions as pagerank_versions

    made = []
    for key, dtype in pagerank_versions.rows(device):
        if key == "dense_folded" and device == "cpu" and graph.edges > 10**6:
            continue  # its matrix product takes 10 s and more; once is enough
        begin = time.perf_counter()
        held = pagerank_versions.VERSIONS[key](graph, dtype, device)
        synchronize(device)
        prepared = time.perf_counter() - begin
        took = iteration(held, device, least=20)
        parameters = {
            "version": held.number,
            "method": key,
            "nodes": graph.nodes,
            "edges": graph.edges,
            "device": device,
            "dtype": dtype,
            "bytes": held.bytes_moved,
            "preparation_s": prepared,
            "read_GB_per_s": floor / 1e9,
        }
        name = f"iteration, version {held.number}"
        bound = held.bytes_moved / floor * 1e3
        made.append(Row(name, took * 1e3, "ms", "reading its bytes once", bound, parameters))
        del held
    return made


def coo_products(graph) -> list[Row]:
    """Time a product with the links in coordinates: PyTorch's beside two others, on one thread."""
    import numba
    import torch
    from threadpoolctl import threadpool_limits

    from helpers.pagerank.versions import VERSIONS

    matrix = graph.incoming.tocoo().astype(np.float32)
    (rows, columns), values = matrix.coords, matrix.data
    x = np.full(graph.nodes, 1 / graph.nodes, np.float32)

    @numba.njit
    def loop(values, rows, columns, x):
        y = np.zeros_like(x)
        for at in range(len(values)):
            y[rows[at]] += values[at] * x[columns[at]]
        return y

    held, vector = VERSIONS["sparse"](graph, "float32", "cpu"), torch.from_numpy(x)
    calls = {
        "PyTorch": lambda: torch.mv(held.matrix, vector).numpy(),
        "SciPy": lambda: matrix @ x,
        "a loop by Numba": lambda: loop(values, rows, columns, x),
    }
    for call in calls.values():
        np.testing.assert_allclose(call(), calls["SciPy"](), rtol=1e-3)
    with threadpool_limits(1):
        took = best(in_turns(calls, 60, budget=BUDGET))
    ours = took.pop("PyTorch")
    parameters = {"nodes": graph.nodes, "edges": graph.edges}
    return [
        Row("product with COO, PyTorch", ours * 1e3, "ms", peer, time * 1e3, parameters)
        for peer, time in took.items()
    ]


def iteration(held, device: str, least: int = 3, rounds: int = 60, budget: float = 4.0) -> float:
    """Best seconds of one iteration of a version, in up to ``rounds`` rounds in ``budget`` seconds.

    A round is ``least`` iterations, or fewer where five rounds of them would take too long. Many
    rounds, because several threads are as fast as the one that waits for a core the longest.
    """
    from helpers.pagerank.versions import iterate

    begin = time.perf_counter()
    iterate(held, 2)
    synchronize(device)
    one = (time.perf_counter() - begin) / 2
    few = max(1, min(least, int(budget / 5 / one)))

    def several() -> None:
        iterate(held, few)
        synchronize(device)

    return best(in_turns({"": several}, rounds, budget=budget))[""] / few


def read_bandwidth(device: str = "cpu", size: int = 400_000_000) -> float:
    """Bytes per second at which a large array is read and summed, all threads, best of 60."""
    import torch

    x = torch.ones(size // 4, dtype=torch.float32, device=device)

    def read() -> None:
        x.sum()
        synchronize(device)

    return size / best(in_turns({"": read}, 60))[""]


def synchronize(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def gpu_rows() -> list[Row]:
    """Every version on the GPU, and the wrong timing that forgets to synchronise."""
    from helpers.pagerank.graphs import random_links
    from helpers.pagerank.versions import VERSIONS, iterate

    floor = read_bandwidth("cuda", 2_000_000_000)
    graph = random_links()
    made = []
    for edges in (10**5, 10**7):
        made += versions(random_links(10_000, edges / 1e8), floor, "cuda")
    held = VERSIONS["dense"](graph, "float32", "cuda")
    iterate(held, 5)
    synchronize("cuda")
    begin = time.perf_counter()
    iterate(held, 200)
    wrong = time.perf_counter() - begin
    synchronize("cuda")
    right = time.perf_counter() - begin
    parameters = {"version": "2", "iterations": 200, "nodes": graph.nodes, "edges": graph.edges}
    made.append(
        Row("clock read before synchronising", wrong * 1e3, "ms", "after", right * 1e3, parameters)
    )
    return made
