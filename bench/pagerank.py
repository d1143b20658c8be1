"""PageRank: whole calls beside four libraries, every version beside its own byte count, growth.

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

from helpers.records import Row

SUITE = "pagerank"
TOLERANCE = 1e-10
DAMPING = 0.85
BUDGET = 15.0  # seconds for one group of calls that take turns
EDGES = (10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7, 3 * 10**7, 5 * 10**7)


def rows() -> list[Row]:
    from helpers.pagerank.graphs import random_links

    made = []
    made += whole_calls("random", random_links().incoming.T.tocsr(), repeats=15)
    made += whole_calls("debian", debian(), repeats=15)
    floor = read_bandwidth()
    for edges in (10**5, 10**7):
        made += versions(random_links(10_000, edges / 1e8), floor)
    made += growth(EDGES)
    return made


def debian():
    from helpers.datasets.dependencies import load_dependencies

    return load_dependencies().adjacency()


def in_turns(calls: dict, repeats: int, clock=time.perf_counter) -> dict[str, float]:
    """Run the calls one after the other, ``repeats`` times round; best seconds of each.

    Once ``BUDGET`` is spent no further round is begun; there are two at the least.
    """
    best, begun = dict.fromkeys(calls, np.inf), time.perf_counter()
    for turn in range(repeats + 1):  # the first round warms up, and counts where it is the best
        if turn > 1 and time.perf_counter() - begun > BUDGET:
            break
        for name, call in calls.items():
            begin = clock()
            call()
            best[name] = min(best[name], clock() - begin)
    return best


def whole_calls(name: str, adjacency, repeats: int) -> list[Row]:
    """Time ours and the peers' from each one's own graph to scores, and the conversions."""
    import igraph
    import networkx as nx
    from fast_pagerank import pagerank_power
    from scipy import sparse
    from sknetwork.ranking import PageRank

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
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        best = in_turns(runs, repeats, time.process_time) | in_turns(slow, 1, time.process_time)
    prepared = links(adjacency)
    alone = in_turns(
        {m: lambda m=m: pagerank(prepared, m, DAMPING, TOLERANCE) for m in ("ordered", "csr")},
        9,
        time.process_time,
    )
    converted = in_turns(convert, 1, time.process_time)
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
        ours, theirs = best["ours"] * 1e3, best[peer] * 1e3
        made.append(Row(f"whole call, {name}", ours, "ms", peer, theirs, parameters | found))
    for method, seconds in alone.items():
        spent = {"method": method}
        made.append(
            Row(
                f"graph already converted, {name}",
                seconds * 1e3,
                "ms",
                "",
                None,
                parameters | spent,
            )
        )
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
    """Time one iteration of each version beside its bytes ÷ ``floor`` (bytes per second).

    Version 4 in double precision too, and the two ways to fold the diagonal into a dense matrix.
    """
    from helpers.pagerank import versions as pagerank_versions

    made, folds = [], {}
    for key, dtype in pagerank_versions.rows(device):
        if key == "dense_folded" and device == "cpu" and graph.edges > 10**6:
            continue  # its matrix product takes 10 s and more; once is enough
        begin = time.perf_counter()
        held = pagerank_versions.VERSIONS[key](graph, dtype, device)
        synchronize(device)
        prepared = time.perf_counter() - begin
        best = iteration(held, device, least=20)
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
        made.append(Row(name, best * 1e3, "ms", "bytes ÷ read bandwidth", bound, parameters))
        if key in ("dense_folded", "dense_scaled"):
            folds[key] = prepared
        del held
    if len(folds) == 2:  # both make the same dense matrix first
        shape = {"nodes": graph.nodes, "edges": graph.edges, "device": device, "dtype": "float32"}
        product, scaled = folds["dense_folded"], folds["dense_scaled"]
        made.append(
            Row("matrix with Out folded in, by a product", product, "s", "by scaling columns",
                scaled, shape)
        )  # fmt: skip
    return made


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
    best, begun = np.inf, time.perf_counter()
    for turn in range(rounds):
        if turn and time.perf_counter() - begun > budget:
            break
        begin = time.perf_counter()
        iterate(held, few)
        synchronize(device)
        best = min(best, (time.perf_counter() - begin) / few)
    return best


def read_bandwidth(device: str = "cpu", size: int = 400_000_000) -> float:
    """Bytes per second at which a large array is read and summed, all threads, best of 60."""
    import torch

    x = torch.ones(size // 4, dtype=torch.float32, device=device)
    x.sum()
    best = np.inf
    for _ in range(60):
        synchronize(device)
        begin = time.perf_counter()
        x.sum()
        synchronize(device)
        best = min(best, time.perf_counter() - begin)
    return size / best


def synchronize(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def growth(edges, device: str = "cpu") -> list[Row]:
    """Time and memory of version 4 as the graph grows, 10 edges a node; dense's memory beside.

    Memory is what its tensors hold. Stops, and says so, where the machine's memory ends: drawing
    and sorting a graph of E edges takes about 60 bytes an edge.
    """
    from helpers.machine import memory_bytes
    from helpers.pagerank.graphs import random_links
    from helpers.pagerank.versions import VERSIONS

    made = []
    for count in edges:
        if 60 * count > 0.6 * (memory_bytes() or np.inf):
            print(f"growth: {count} edges and more left out, this machine's memory is too small")
            break
        n = count // 10
        graph = random_links(n, count / n / n)
        begin = time.perf_counter()
        held = VERSIONS["csr"](graph, "float32", device)
        synchronize(device)
        prepared = time.perf_counter() - begin
        best = iteration(held, device)
        parameters = {"nodes": n, "edges": graph.edges, "device": device, "dtype": "float32"}
        spent = parameters | {"preparation_s": prepared, "bytes": held.bytes_moved}
        made.append(Row("growth, one iteration of version 4", best * 1e3, "ms", "", None, spent))
        matrix = held.matrix
        parts = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        memory = sum(part.numel() * part.element_size() for part in parts) + 2 * 4 * n
        made.append(
            Row("growth, bytes of version 4", memory, "B", "dense", 4.0 * n * n, parameters)
        )
        del held, graph, matrix, parts
    return made


def gpu_rows() -> list[Row]:
    """Every version on the GPU, and the wrong timing that forgets to synchronise."""
    from helpers.pagerank.graphs import random_links
    from helpers.pagerank.versions import VERSIONS, iterate

    floor = read_bandwidth("cuda", 2_000_000_000)
    graph = random_links()
    made = []
    for edges in (10**5, 10**7):
        made += versions(random_links(10_000, edges / 1e8), floor, "cuda")
    made += growth(EDGES, "cuda")
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
