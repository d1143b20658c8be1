"""helpers.pagerank.pagerank: known answers, properties, odd graphs, bad input."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from helpers import native
from helpers.pagerank import ConvergenceError, pagerank
from tests.pagerank import matrix

CYCLE = matrix([(0, 1), (1, 2), (2, 1)])

METHOD_SET = ["csr", "ordered"]
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def read(graph):
    return nx.to_scipy_sparse_array(graph, dtype=float)


def reference(graph, **arguments):
    return list(nx.pagerank(graph, tol=1e-14, max_iter=2000, **arguments).values())


@pytest.mark.parametrize("method", METHOD_SET)
def test_three_nodes_by_hand(method):
    # 0 → 1 ⇄ 2. x0 = 0.05, x1 = 0.05 + 0.85 (x0 + x2), x2 = 0.05 + 0.85 x1.
    x1 = (0.05 + 0.85 * (0.05 + 0.05)) / (1 - 0.85**2)
    scores = pagerank(CYCLE, method=method).scores
    np.testing.assert_allclose(scores, [0.05, x1, 0.05 + 0.85 * x1], atol=1e-9)


@st.composite
def weighted_graphs(draw):
    n = draw(st.integers(1, 30))
    ends = st.integers(0, n - 1)
    weights = st.sampled_from([1.0, 1.0, 0.5, 3.0, 0.0])
    edges = draw(st.lists(st.tuples(ends, ends, weights), max_size=120))
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(n))
    graph.add_weighted_edges_from(edges)
    return graph


@QUICK
@given(weighted_graphs(), st.sampled_from([0.0, 0.5, 0.85, 0.95]), st.sampled_from(METHOD_SET))
@example(nx.MultiDiGraph({"only": []}), 0.85, "csr")
@example(nx.MultiDiGraph({"only": []}), 0.85, "ordered")
@example(nx.karate_club_graph(), 0.85, "csr")
@example(nx.karate_club_graph(), 0.85, "ordered")
def test_any_graph_agrees_with_networkx(graph, damping, method):
    result = pagerank(read(graph), method, damping, max_iterations=2000)
    np.testing.assert_allclose(result.scores, reference(graph, alpha=damping), atol=1e-8)
    assert result.scores.sum() == pytest.approx(1, abs=1e-12)
    assert result.iterations == len(result.residuals)
    assert result.residuals[-1] <= 1e-10


@QUICK
@given(weighted_graphs(), st.randoms(use_true_random=False))
def test_renumbering_the_nodes_renumbers_the_scores(graph, random):
    table = read(graph).tocsr()
    order = list(range(table.shape[0]))
    random.shuffle(order)
    before = pagerank(table).scores
    after = pagerank(table[order][:, order]).scores
    np.testing.assert_allclose(after, before[order], atol=1e-9)


@QUICK
@given(weighted_graphs(), st.data())
def test_personalization_agrees_with_networkx(graph, data):
    chosen = data.draw(st.lists(st.sampled_from(sorted(graph)), min_size=1, unique=True))
    restart = {node: data.draw(st.sampled_from([0.5, 1.0, 4.0])) for node in chosen}
    given = [restart.get(node, 0) for node in graph]
    for method in METHOD_SET:
        scores = pagerank(read(graph), method, personalization=given, max_iterations=2000).scores
        np.testing.assert_allclose(scores, reference(graph, personalization=restart), atol=1e-8)


def test_large_graph_through_both_parts_of_the_ordering():
    # A giant component (swept in order of number), small cycles and a tail of single nodes.
    graph = nx.gnp_random_graph(3000, 0.001, seed=3, directed=True)
    graph.add_edges_from((3000 + i, 3000 + i - i % 3 + (i + 1) % 3) for i in range(300))
    graph.add_edges_from((i, i + 1) for i in range(3299, 3400))
    scores = pagerank(read(graph), "ordered").scores
    np.testing.assert_allclose(scores, reference(graph), atol=1e-8)


def test_an_acyclic_graph_needs_one_sweep_and_one_to_confirm():
    links = [(i, i + 1) for i in range(500)]
    chain = matrix(links)
    assert pagerank(chain, "ordered").iterations == 2
    assert pagerank(matrix([*links, (250, 250), (500, 500)]), "ordered").iterations == 2
    assert pagerank(chain, "csr", max_iterations=500).iterations > 100


def test_no_rank_is_lost_on_the_way():
    # By hand, with the rank of dangling nodes sent back at each step. A loop that loses it ends at
    # the same scores once these are scaled to 1, but its changes are those of a smaller vector.
    edges, n = [(0, 1), (0, 2), (1, 2), (3, 0)], 5  # 2 and 4 are dangling
    G = np.zeros((n, n))
    for source, target in edges:
        G[target, source] = 1
    out = G.sum(axis=0)
    x, changes = np.full(n, 1 / n), []
    for _ in range(6):
        share = np.divide(x, out, out=np.zeros(n), where=out > 0)
        y = 0.85 * (G @ share + x[out == 0].sum() / n) + 0.15 / n
        changes.append(np.abs(y - x).sum())
        x = y
    result = pagerank(sparse.csr_array(G.T), "csr")
    np.testing.assert_allclose(result.residuals[:6], changes, rtol=1e-9)


def test_every_kind_of_sparse_matrix_is_the_same_graph():
    made = matrix([(0, 1, 2.0), (1, 2, 1.0), (2, 0, 1.0), (0, 2, 0.5), (0, 2, 0.5)])
    result = pagerank(made)
    np.testing.assert_allclose(pagerank(sparse.csc_matrix(made)).scores, result.scores)
    assert [number for number, _ in result.top(2)] == [2, 0]


def test_the_graph_that_was_passed_is_left_alone():
    given = sparse.csr_array((np.array([1.0, 0.0, 2.0]), ([0, 1, 1], [1, 0, 0])), shape=(2, 2))
    before = given.toarray().copy(), given.nnz
    pagerank(given)
    assert (given.toarray() == before[0]).all()
    assert given.nnz == before[1]


@pytest.mark.parametrize("method", METHOD_SET)
def test_no_convergence_is_an_error_that_keeps_the_result(method):
    graph = nx.gnp_random_graph(1500, 0.01, seed=1, directed=True)  # a cycle too large to be solved
    with pytest.raises(ConvergenceError, match="after 2 iterations") as caught:
        pagerank(read(graph), method, max_iterations=2)
    assert caught.value.result.iterations == 2
    assert caught.value.result.scores.sum() == pytest.approx(1)


def test_without_a_compiler_or_with_one_that_does_not_work_auto_is_csr(monkeypatch):
    with monkeypatch.context() as without:
        without.setattr("shutil.which", lambda name: None)
        assert pagerank(CYCLE).method == "csr"

    def broken():
        raise native.CompilerError("no SDK")

    monkeypatch.setattr("helpers.pagerank.solve._library", broken)
    assert pagerank(CYCLE).method == "csr"
    with pytest.raises(native.CompilerError, match="no SDK"):
        pagerank(CYCLE, "ordered")


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ([(0, 1)], "got a list"),
        (nx.DiGraph([(0, 1)]), "DiGraph: convert it"),
        (sparse.csr_array((0, 0)), r"shape \(0, 0\)"),
        (sparse.csr_array((2, 3)), r"\(2, 3\)"),
        (sparse.csr_array(np.eye(2).astype(complex)), "complex128"),
        (matrix([(0, 1, -2.0)]), "-2"),
        (matrix([(0, 1, float("nan"))]), "nan"),
        (matrix([(0, 1, 1.5e308), (0, 1, 1.5e308), (1, 0, 1.0)]), r"inf.*parallel"),
    ],
)
def test_odd_graphs_are_one_sentence(graph, said):
    with pytest.raises(ValueError, match=said) as caught:
        pagerank(graph)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"damping": float("nan")}, "damping=nan"),
        ({"damping": 1.0}, "damping=1.0"),
        ({"tolerance": 0}, "tolerance=0"),
        ({"max_iterations": 0}, "max_iterations=0"),
        ({"method": "magic"}, "method.*'magic'"),
        ({"personalization": np.ones(2)}, r"shape \(3,\); got \(2,\)"),
        ({"personalization": [0, -1, 2]}, "at least 0"),
        ({"personalization": [0, float("nan"), 1]}, "finite"),
        ({"personalization": [0, 0, 0]}, "not all"),
    ],
)
def test_odd_settings_are_one_sentence(arguments, said):
    with pytest.raises(ValueError, match=said) as caught:
        pagerank(CYCLE, **arguments)
    assert "\n" not in str(caught.value)
