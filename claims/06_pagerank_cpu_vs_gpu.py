"""What notebook 06 concludes: versions and their bytes, iterations, leaks, growth, boundaries."""

from __future__ import annotations

import functools

from helpers.claims import Claim, Share, in_turn, with_defaults

SEEDS = range(5)


@functools.lru_cache(maxsize=4)
def _random(nodes: int, probability: float, seed: int):
    from helpers.pagerank.graphs import random_links

    return random_links(nodes, probability, seed)


def _product(method: str, graph, times: int = 1):
    """A version, and a call of its product, ``times`` in a row."""
    from helpers.pagerank.versions import VERSIONS

    version = VERSIONS[method](graph)
    x = version.out * 0 + 1 / graph.nodes
    return version, lambda: [version.product(x) for _ in range(times)]


# ------------------------------------------------------------------------------- versions and bytes


def versions_apart(seed: int, ours: str, rival: str, probability: float, nodes: int = 8000):
    """Seconds of the products of two versions, ten in a row."""
    graph = _random(nodes, probability, seed)
    return in_turn(_product(ours, graph, 10)[1], _product(rival, graph, 10)[1])


def fold(seed: int, nodes: int) -> tuple[float, float]:
    """Seconds to scale a matrix's columns by a product with a diagonal matrix, and elementwise."""
    import torch

    torch.manual_seed(seed)
    matrix, diagonal = torch.rand(nodes, nodes), torch.rand(nodes)
    return in_turn(
        lambda: torch.mm(matrix, torch.diag(diagonal)), lambda: matrix * diagonal, rounds=3
    )


def iterations_needed(seed: int, probability: float, nodes: int = 10_000) -> tuple[float, float]:
    """Power iterations until the change is below 1e-10, and the source's number."""
    from helpers.pagerank import pagerank

    return pagerank(_random(nodes, probability, seed), "csr").iterations, 200


CYCLES = {  # packages that need each other and, together, nothing else: a link to cut in each
    "Java": ("libgrpc-java", "libopencensus-java"),
    "node": ("node-es5-ext", "node-es6-iterator", "node-es6-symbol", "node-d"),
}


@functools.cache
def _debian(cut: tuple[str, ...] = ()):
    """Debian's links without those out of the first package of each cycle named."""
    from helpers.datasets.dependencies import load_dependencies

    debian = load_dependencies()
    matrix = debian.adjacency().tolil()
    for name in cut:
        matrix[debian.number(CYCLES[name][0]), :] = 0
    return matrix.tocsr()


def iterations_from(seed: int, cut: tuple[str, ...], tolerance: float = 1e-10):
    """Power iterations from a random start, without those cycles and with all of Debian."""
    import numpy as np

    from helpers.pagerank.graphs import links

    counts = []
    for names in (cut, ()):
        graph = links(_debian(names))
        matrix = graph.incoming.multiply(graph.inverse_out[None, :]).tocsr()
        x = np.random.default_rng(seed).random(graph.nodes)
        x /= x.sum()
        change, steps = 1.0, 0
        while change > tolerance:
            y = 0.85 * (matrix @ x)
            y += (1 - y.sum()) / graph.nodes
            change, x, steps = np.abs(y - x).sum(), y, steps + 1
        counts.append(steps)
    return counts[0], counts[1]


def ordered_against_power(seed: int, tolerance: float) -> tuple[float, float]:
    """Seconds of a whole call on Debian: power iteration, and sweeps in the links' order."""
    from helpers.pagerank import pagerank
    from helpers.pagerank.graphs import links

    graph = links(_debian())
    return in_turn(
        lambda: pagerank(graph, "csr", tolerance=tolerance),
        lambda: pagerank(graph, "ordered", tolerance=tolerance),
        rounds=3,
    )


def _sweeps(graph, order, tolerance: float, keep_sum: bool = False) -> int:
    """Gauss-Seidel's sweeps until the ranks change by less than the tolerance of their sum."""
    from helpers.pagerank.order import linking

    into, out = linking(graph), graph.out_weight.tolist()
    x, sweeps, change = [1 / graph.nodes] * graph.nodes, 0, 1.0
    while change > tolerance * sum(x):
        change, sweeps = 0.0, sweeps + 1
        for i in order:
            new = 0.15 / graph.nodes + 0.85 * sum([x[j] / out[j] for j in into[i]])
            change, x[i] = change + abs(new - x[i]), new
        if keep_sum:
            total = sum(x)
            x = [rank / total for rank in x]
    return sweeps


def swept_against_power(seed: int, keep_sum: bool, tolerance: float, nodes: int = 10_000):
    """Gauss-Seidel's sweeps and power iterations on the source's graph, of which none dangles."""
    from helpers.pagerank import pagerank

    graph = _random(nodes, 10 / nodes, seed)
    power = pagerank(graph, "csr", tolerance=tolerance).iterations
    return _sweeps(graph, range(nodes), tolerance, keep_sum), power


@functools.cache
def _along_debian(against: bool, tolerance: float) -> int:
    from helpers.pagerank.graphs import links
    from helpers.pagerank.order import along_links

    graph = links(_debian())
    order = [package for group in along_links(graph) for package in group]
    return _sweeps(graph, order[::-1] if against else order, tolerance)


@functools.cache
def _shuffled_debian(seed: int, tolerance: float) -> int:
    import numpy as np

    from helpers.pagerank.graphs import links

    graph = links(_debian())
    return _sweeps(graph, np.random.default_rng(seed).permutation(graph.nodes).tolist(), tolerance)


def order_of_sweeps(seed: int, against: bool, tolerance: float) -> tuple[float, float]:
    """Sweeps over Debian along its links or against them, and in a random order."""
    return _along_debian(against, tolerance), _shuffled_debian(seed, tolerance)


def same_order(seed: int, back_to: str, nodes: int = 400) -> Share:
    """Whether the twenty highest are the same, in order, as where dangling rank is lost."""
    import numpy as np

    rng = np.random.default_rng(seed)
    G = (rng.random((nodes, nodes)) < 4 / nodes).astype(float)
    G[:, rng.random(nodes) < 0.3] = 0  # a third of the columns: no link leaves
    out = G.sum(axis=0)
    M = np.divide(G, out, out=np.zeros_like(G), where=out > 0)

    def solve(matrix):
        return np.linalg.solve(np.eye(nodes) - 0.85 * matrix, np.full(nodes, 0.15 / nodes))

    other = M.copy()
    if back_to == "everyone":
        other[:, out == 0] = 1 / nodes
    else:  # itself
        lost = np.flatnonzero(out == 0)
        other[lost, lost] = 1
    orders = [np.argsort(-solve(matrix))[:20] for matrix in (M, other)]
    return Share(int((orders[0] == orders[1]).all()), 1)


# ------------------------------------------------------------------------------------- large graphs


def per_edge(seed: int, nodes: int, small: int = 10_000) -> tuple[float, float]:
    """Seconds for each edge of a product in compressed rows, ten links a node: large and small."""
    pair, edges = [], []
    for count in (nodes, small):
        graph = _random(count, 10 / count, seed)
        edges.append(graph.edges)
        pair.append(_product("csr", graph, max(1, 200_000 // count))[1])
    ours, rival = in_turn(*pair)
    return ours / edges[0] / max(1, 200_000 // nodes), rival / edges[1] / max(1, 200_000 // small)


def received(seed: int, graph: str) -> tuple[float, float]:
    """Bytes that the ranks receive in an iteration, as boundary and as allgather; seed: ranks."""
    from helpers.pagerank.distributed import predicted_bytes, split
    from helpers.pagerank.graphs import links

    blocks = split(links(_debian()) if graph == "Debian" else _random(10_000, 1e-3, seed), seed)
    return sum(predicted_bytes(blocks, "boundary")), sum(predicted_bytes(blocks, "allgather"))


_ratio = with_defaults(seeds=SEEDS, unit="s", scale="ratio")

CLAIMS = [
    _ratio(
        "06-same-bytes",
        "Of two sparse versions that move bytes of one order, COO takes more than twice as long "
        "as messages.",
        functools.partial(versions_apart, ours="sparse", rival="scatter"),
        {"6·10⁴ edges": {"probability": 1e-3}, "6·10⁵ edges": {"probability": 1e-2}},
        "holds",
        1.0,
        "COO, 1",
        "messages, 0s",
        smallest={"nodes": 64},
    ),
    _ratio(
        "06-csr",
        "Compressed rows beat messages, the fastest of the source's four on a CPU.",
        functools.partial(versions_apart, ours="scatter", rival="csr"),
        {"6·10⁴ edges": {"probability": 1e-3}, "6·10⁵ edges": {"probability": 1e-2}},
        "holds",
        0.25,
        "messages, 0s",
        "CSR, 4",
        smallest={"nodes": 64},
    ),
    _ratio(
        "06-messages-dense",
        "Messages beat the dense product.",
        functools.partial(versions_apart, ours="dense", rival="scatter"),
        {
            "10³ nodes": {"probability": 1e-3, "nodes": 1000},
            "8·10³ nodes": {"probability": 1e-3, "nodes": 8000},
        },
        "holds",
        1.0,
        "dense, 2",
        "messages, 0s",
        seeds=range(3),
        smallest={"nodes": 64},
    ),
    _ratio(
        "06-scale-columns",
        "Scaling columns by a product with a diagonal matrix costs over ten times the elementwise "
        "product.",
        fold,
        {"N = 500": {"nodes": 500}, "N = 1500": {"nodes": 1500}},
        "holds",
        9.0,
        "product",
        "elementwise",
        smallest={"nodes": 20},
    ),
    _ratio(
        "06-iterations",
        "On random graphs K = 200 is ten times too many, or nearly.",
        iterations_needed,
        {"10⁵ edges": {"probability": 1e-3}, "5·10⁶ edges": {"probability": 0.05}},
        "holds",
        8.0,
        "iterations to 1e-10",
        "K of the source",
        larger=False,
        unit="1",
        seeds=range(3),
        smallest={"nodes": 200},
    ),
    _ratio(
        "06-slow-tail",
        "Cutting a closed cycle of Debian shortens the power iteration by a tenth.",
        iterations_from,
        {
            "Java cut": {"cut": ("Java",)},
            "node cut": {"cut": ("node",)},
            "both cut": {"cut": ("Java", "node")},
        },
        "depends on the cycles cut",
        0.1,
        "iterations, cut",
        "iterations",
        larger=False,
        axis="the cycles cut",
        unit="1",
        smallest={"tolerance": 0.1},
    ),
    _ratio(
        "06-ordered",
        "On Debian, sweeps in the order of the links are at least twice as fast as power "
        "iteration.",
        ordered_against_power,
        {"to 1e-10": {"tolerance": 1e-10}, "to 1e-4": {"tolerance": 1e-4}},
        "holds",
        1.0,
        "power iteration",
        "ordered sweeps",
        smallest={"tolerance": 0.1},
    ),
    _ratio(
        "06-sum-kept",
        "On the source's graph, sweeps with new values at once are fewer by a quarter than power "
        "iterations.",
        swept_against_power,
        {
            "sum left, to 1e-10": {"keep_sum": False, "tolerance": 1e-10},
            "sum left, to 1e-6": {"keep_sum": False, "tolerance": 1e-6},
            "sum kept, to 1e-10": {"keep_sum": True, "tolerance": 1e-10},
            "sum kept, to 1e-6": {"keep_sum": True, "tolerance": 1e-6},
        },
        "depends on whether the sum is kept",
        0.25,
        "sweeps",
        "power iterations",
        larger=False,
        axis="whether the sum is kept",
        unit="1",
        smallest={"nodes": 200},
    ),
    _ratio(
        "06-sweep-order",
        "On Debian, sweeps in an order of the links are fewer by a tenth than in a random order.",
        order_of_sweeps,
        {
            "along, to 1e-10": {"against": False, "tolerance": 1e-10},
            "against, to 1e-10": {"against": True, "tolerance": 1e-10},
            "along, to 1e-4": {"against": False, "tolerance": 1e-4},
            "against, to 1e-4": {"against": True, "tolerance": 1e-4},
        },
        "depends on the order and the tolerance",
        0.1,
        "sweeps",
        "in a random order",
        larger=False,
        axis="the order and the tolerance",
        unit="1",
        smallest={"tolerance": 0.1},
    ),
    Claim(
        id="06-order-survives",
        sentence="Where dangling rank goes changes the order of the twenty highest.",
        experiment=same_order,
        seeds=range(20),
        settings={"back to everyone": {"back_to": "everyone"}, "to itself": {"back_to": "itself"}},
        verdict="depends on where it goes",
        margin=0.0,
        axis="where it goes",
        larger=False,
        ours="same order",
        rival="half of them",
        rival_share=0.5,
        unit="1",
        smallest={"nodes": 40},
    ),
    _ratio(
        "06-bits",
        "One bit an entry beats compressed rows.",
        functools.partial(versions_apart, ours="csr", rival="bits", nodes=5000),
        {"5 % of the edges": {"probability": 0.05}, "40 % of the edges": {"probability": 0.4}},
        "depends on the density",
        0.1,
        "CSR, 4",
        "bits, 5",
        axis="the density",
        seeds=range(3),
        smallest={"nodes": 64},
    ),
    _ratio(
        "06-per-edge",
        "An edge costs more where the ranks no longer fit a cache.",
        per_edge,
        {"10⁵ nodes": {"nodes": 10**5}, "10⁶ nodes": {"nodes": 10**6}},
        "holds",
        0.25,
        "large",
        "10⁴ nodes",
        seeds=range(3),
        smallest={"nodes": 500, "small": 100},
    ),
    _ratio(
        "06-boundary",
        "The boundary is less than half of what an allgather moves.",
        received,
        {"Debian": {"graph": "Debian"}, "random": {"graph": "random"}},
        "depends on the graph",
        1.0,
        "boundary",
        "allgather",
        larger=False,
        axis="the graph",
        unit="bytes",
        seeds=(2, 3, 4, 6, 8),
    ),
]
