"""A graph as one visits it node by node: who links to whom, and an order along the links."""

from __future__ import annotations

import numpy as np

from helpers.pagerank.graphs import Links


def linking(graph: Links) -> list[list[int]]:
    """Return for each node the list of those that link to it.

    >>> from helpers.pagerank.graphs import links
    >>> linking(links([(0, 1), (2, 1), (1, 2)]))
    [[], [0, 2], [1]]
    """
    rows = graph.incoming
    return [row.tolist() for row in np.split(rows.indices, rows.indptr[1:-1])]


def along_links(graph: Links) -> list[list[int]]:
    """Return the nodes in groups, each group after all others from which a link leads to it.

    A group holds the nodes that one can go to from each other (a strongly connected component): a
    node on no cycle is a group of its own.

    >>> from helpers.pagerank.graphs import links
    >>> along_links(links([(0, 2), (2, 1), (1, 2), (2, 3)]))
    [[0], [1, 2], [3]]
    """
    from scipy.sparse.csgraph import connected_components

    rows = graph.incoming
    count, group = connected_components(rows, connection="strong")
    source, target = group[rows.indices], np.repeat(group, np.diff(rows.indptr))
    between = source != target
    source, target = source[between], target[between]
    level = np.zeros(count, dtype=np.int64)  # links on the longest way to a group
    while (low := level[target] <= level[source]).any():  # ends: between groups no way leads back
        np.maximum.at(level, target[low], level[source[low]] + 1)
    order = np.lexsort((group, level[group]))  # by level, then group, then number
    starts = np.flatnonzero(np.diff(group[order])) + 1
    return [part.tolist() for part in np.split(order, starts)]
