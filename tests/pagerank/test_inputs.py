"""What pagerank is given: matrices, settings, and what is neither."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from helpers.pagerank import pagerank
from tests.pagerank import matrix

CYCLE = matrix([(0, 1), (1, 2), (2, 1)])


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ([(0, 1)], "got a list"),
        (np.eye(3), "got a ndarray"),
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
        ({"damping": -0.1}, "damping=-0.1"),
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
