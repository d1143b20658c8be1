"""Graphs of the tests: edges as the matrix that ``pagerank`` takes."""

import numpy as np
from scipy import sparse


def matrix(edges, nodes=0):
    """Return (source, target) or (source, target, weight) as a matrix, row = source."""
    source, target, *weights = np.array(edges, float).reshape(len(edges), -1).T
    weights = weights[0] if weights else np.ones(len(edges))
    ends = source.astype(int), target.astype(int)
    nodes = max(nodes, *(int(part.max()) + 1 for part in ends))
    return sparse.coo_array((weights, ends), (nodes, nodes))
