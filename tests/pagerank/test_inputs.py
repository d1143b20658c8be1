"""What pagerank is given: arrays that are no edge list, extreme weights, odd names, NetworkX's."""

import pickle

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse

from helpers.pagerank import pagerank

CYCLE = [(0, 1), (1, 2), (2, 1)]
SOME = ("csr", "ordered", "torch")


@pytest.mark.parametrize(
    "array",
    [
        np.array([[0.0, 1.0], [1.0, 0.0]]),
        np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]]),
        np.ones((4, 4)),
        torch.eye(3),
        np.array([[0, 1, 2], [1, 2, 0]]),  # three edges as (2, E), or two with weights
        np.matrix([[0, 1], [1, 0]]),
    ],
    ids=["2 × 2", "3 × 3", "4 × 4", "tensor", "edge_index", "matrix"],
)
def test_a_dense_array_is_not_read_as_edges(array):
    shape = str(tuple(array.shape)).replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ValueError, match=f"{shape}.*csr_array.*tolist"):
        pagerank(array)


def test_what_the_sentence_says_works():
    A = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    np.testing.assert_allclose(pagerank(sparse.csr_array(A)).scores, 1 / 3)
    assert len(pagerank(np.array([[0, 1], [1, 0]]).tolist()).scores) == 2
    assert len(pagerank(torch.tensor([*CYCLE[:2], (2, 0), (0, 2)])).scores) == 3


@pytest.mark.parametrize("method", SOME)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("scale", [5e-324, 1e-40, 2e307])
def test_weights_of_any_finite_size(scale, method, dtype):
    edges = [(0, 1, scale), (0, 2, 3 * scale), (0, 3, 4 * scale), (1, 0, 1.0), (2, 0, 1.0)]
    plain = [(a, b, w / scale if a == 0 else w) for a, b, w in edges]
    tolerance = 1e-6 if dtype == "float32" else 1e-10
    ours = pagerank(edges, method, dtype=dtype, tolerance=tolerance).scores
    expected = pagerank(plain, "csr").scores
    np.testing.assert_allclose(ours, expected, atol=2e-6 if dtype == "float32" else 1e-9)


def test_parallel_edges_that_add_up_to_too_much():
    with pytest.raises(ValueError, match=r"inf.*parallel"):
        pagerank([(0, 1, 1.5e308), (0, 1, 1.5e308), (1, 0, 1.0)])


@pytest.mark.parametrize("value", [5e-324, 1e-320, 1e308])
def test_personalization_of_any_finite_size(value):
    scores = pagerank(CYCLE, "csr", personalization={0: value, 1: value}).scores
    np.testing.assert_allclose(scores, pagerank(CYCLE, "csr", personalization=[1, 1, 0]).scores)


def test_keys_of_any_whole_number():
    expected = pagerank(CYCLE, personalization={1: 1}).scores
    for key in (1.0, np.int64(1), np.float32(1)):
        np.testing.assert_array_equal(pagerank(CYCLE, personalization={key: 1}).scores, expected)


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([(b"a", b"b")], "b'a'"),
        ([(("x", 1), ("y", 2))], r"\('x', 1\)"),
        ([("a", 1)], "'a'"),
        ([(None, 1)], "None"),
        ([(0, 2**63)], "9223372036854775808"),
        (np.array([[0, 2**63]], dtype=np.uint64), "9223372036854775808"),
        ([(0, 10**12)], "1000000000001 nodes"),
        ([(0, 1, "heavy")], "'heavy'"),
        ([(0, 1, 1j)], "1j"),
        ([(True, False)], "True"),
        (sparse.csr_array(np.array([[0, 1j], [1, 0]])), "complex128"),
        (sparse.csr_array(np.eye(2).astype(complex)), "complex128"),
        ({"a": ["b"]}, "dict"),
        (7, "got 7"),
        ("abc", "'abc'"),
        (nx.DiGraph(), "at least one node"),
        ([], "empty edge list"),
        (sparse.csr_array((0, 0)), "at least one node"),
        (sparse.csr_array((2, 3)), r"\(2, 3\)"),
        ([(0, 1, -2.0)], "-2"),
        ([(0, 1, float("nan"))], "nan"),
        ([(0, 1, float("inf"))], "inf"),
        ([(0, -1)], "-1"),
        ([(0, 1.5)], "1.5"),
        ([(0, "a")], "'a'"),
        ([(0, 1, 1, 1)], r"\[4\]"),
        (["ab"], "'ab'"),
        ([3], "3"),
    ],
)
def test_odd_graphs_are_one_sentence(edges, said):
    with pytest.raises(ValueError, match=said) as caught:
        pagerank(edges)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"damping": "0.85"}, "damping.*'0.85'"),
        ({"damping": True}, "damping.*True"),
        ({"damping": float("nan")}, "damping.*nan"),
        ({"damping": 1j}, "damping.*1j"),
        ({"damping": 1.0}, "damping.*1.0"),
        ({"damping": -0.1}, "damping.*-0.1"),
        ({"tolerance": 0}, "tolerance > 0; got 0"),
        ({"tolerance": "tiny"}, "tolerance.*'tiny'"),
        ({"max_iterations": 0}, "max_iterations.*got 0"),
        ({"max_iterations": 2.5}, "max_iterations.*2.5"),
        ({"max_iterations": "many"}, "max_iterations.*'many'"),
        ({"dtype": "banana"}, "dtype.*'banana'"),
        ({"dtype": "int32"}, "dtype.*'int32'"),
        ({"device": "cuda"}, "method='torch'"),
        ({"device": "banana"}, "device.*'banana'"),
        ({"device": "banana", "method": "torch"}, "device.*'banana'"),
        ({"device": 3, "method": "csr"}, "device.*3"),
        ({"device": "cpu:banana", "method": "torch"}, "device.*'cpu:banana'"),
        ({"method": ["csr"]}, "method.*'csr'"),
        ({"method": "magic"}, "method.*'magic'"),
        ({"personalization": {0: "all"}}, "personalization.*'all'"),
        ({"personalization": "all"}, "personalization.*'all'"),
        ({"personalization": {1.5: 1}}, "personalization names 1.5"),
        ({"personalization": {"nobody": 1}}, "personalization names 'nobody'"),
        ({"personalization": {7: 1}}, "personalization names 7"),
        ({"personalization": {0: -1}}, "personalization.*got -1"),
        ({"personalization": {0: float("nan")}}, "personalization.*nan"),
        ({"personalization": {0: 0}}, "personalization.*all are 0"),
        ({"dangling": {9: 1}}, "dangling names 9"),
        ({"nstart": np.ones(2)}, r"nstart.*\(3,\); got \(2,\)"),
        ({"alpha": 0.9}, "alpha.*damping"),
        ({"tol": 1e-6}, "tol.*tolerance"),
        ({"max_iter": 50}, "max_iter.*max_iterations"),
        ({"dangling": {0: 1}, "method": "ordered"}, "dangling.*'csr'"),
    ],
)
def test_odd_settings_are_one_sentence(arguments, said):
    with pytest.raises(ValueError, match=said) as caught:
        pagerank(CYCLE, **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["auto", "csr", "torch", "scatter", "dense"])
def test_dangling_is_networkx_own(method):
    graph = nx.gnp_random_graph(40, 0.04, seed=5, directed=True)
    assert any(degree == 0 for _, degree in graph.out_degree)
    to, restart = {3: 1.0, 7: 2.0}, {1: 1.0}
    for person in (None, restart):
        ours = pagerank(graph, method, dangling=to, personalization=person).scores
        theirs = nx.pagerank(graph, dangling=to, personalization=person, tol=1e-14, max_iter=999)
        assert max(abs(ours[k] - theirs[k]) for k in theirs) < 1e-8
        without = pagerank(graph, method, personalization=person).scores
        assert max(abs(ours[k] - without[k]) for k in theirs) > 1e-3


@pytest.mark.parametrize("method", ["csr", "ordered", "torch"])
def test_a_start_near_the_end_is_shorter(method):
    graph = nx.gnp_random_graph(1500, 0.004, seed=2, directed=True)
    cold = pagerank(graph, method)
    warm = pagerank(graph, method, nstart=cold.scores)
    assert warm.iterations <= 2 < cold.iterations
    assert max(abs(warm.scores[k] - cold.scores[k]) for k in graph) < 1e-9
    scaled = {k: 1e300 * v for k, v in cold.scores.items()}
    assert pagerank(graph, method, nstart=scaled).iterations <= 2


def test_networkx_names_where_networkx_comes_in():
    graph = nx.gnp_random_graph(200, 0.02, seed=1, directed=True)
    ours = pagerank(graph, "csr", alpha=0.7, tol=1e-9, max_iter=150)
    theirs = nx.pagerank(graph, alpha=0.7, tol=1e-9, max_iter=150)
    assert max(abs(ours.scores[k] - theirs[k]) for k in theirs) < 1e-9
    # tol is for each node, tolerance for all of them together
    assert ours.iterations == pagerank(graph, "csr", 0.7, 200 * 1e-9).iterations
    assert ours.iterations < pagerank(graph, "csr", 0.7, 1e-9).iterations
    for twice in ({"alpha": 0.7, "damping": 0.7}, {"tol": 1e-9, "tolerance": 1e-9}):
        with pytest.raises(ValueError, match="not both"):
            pagerank(graph, **twice)
    with pytest.raises(ValueError, match=r"alpha.*1\.5"):
        pagerank(graph, alpha=1.5)


def test_the_scores_survive_a_pickle_of_the_result():
    result = pagerank(nx.DiGraph([("a", "b")]), alpha=0.5)
    assert pickle.loads(pickle.dumps(result)) == result
