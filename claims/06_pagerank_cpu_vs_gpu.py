"""What notebook 06 concludes: how versions compare, and how columns are scaled."""

from __future__ import annotations

import functools

from helpers.claims import in_turn, with_defaults

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


_ratio = with_defaults(seeds=SEEDS, unit="s", scale="ratio")

CLAIMS = [
    _ratio(
        "06-same-bytes",
        "A PageRank iteration with a COO matrix takes more than twice as long as one by"
        " messages, though the bytes of both are of one order of magnitude.",
        functools.partial(versions_apart, ours="sparse", rival="scatter"),
        {"6·10⁴ edges": {"probability": 1e-3}, "6·10⁵ edges": {"probability": 1e-2}},
        "holds",
        1.0,
        "COO",
        "messages",
        smallest={"nodes": 64},
    ),
    _ratio(
        "06-csr",
        "A PageRank iteration with compressed rows is faster than one by messages.",
        functools.partial(versions_apart, ours="scatter", rival="csr"),
        {"6·10⁴ edges": {"probability": 1e-3}, "6·10⁵ edges": {"probability": 1e-2}},
        "holds",
        0.25,
        "messages",
        "CSR",
        smallest={"nodes": 64},
    ),
    _ratio(
        "06-messages-dense",
        "A PageRank iteration by messages is faster than one with a dense product.",
        functools.partial(versions_apart, ours="dense", rival="scatter"),
        {
            "10³ nodes": {"probability": 1e-3, "nodes": 1000},
            "8·10³ nodes": {"probability": 1e-3, "nodes": 8000},
        },
        "holds",
        1.0,
        "dense",
        "messages",
        seeds=range(3),
        smallest={"nodes": 64},
    ),
    _ratio(
        "06-scale-columns",
        "Scaling a matrix's columns by a product with a diagonal matrix costs over ten "
        "times the elementwise product.",
        fold,
        {"N = 500": {"nodes": 500}, "N = 1500": {"nodes": 1500}},
        "holds",
        9.0,
        "product",
        "elementwise",
        smallest={"nodes": 20},
    ),
]
