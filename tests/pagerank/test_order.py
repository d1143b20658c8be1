import networkx as nx
import numpy as np
import pytest

from helpers.pagerank.graphs import links
from helpers.pagerank.order import along_links, linking


@pytest.mark.parametrize("mean", [0.5, 1.5, 4])
def test_groups_are_components_and_no_link_leads_back(mean):
    rng = np.random.default_rng(1)
    for nodes in (1, 2, 40, 200):
        drawn = nx.from_numpy_array(
            rng.random((nodes, nodes)) < mean / nodes, create_using=nx.DiGraph
        )
        groups = along_links(links(drawn))
        assert sorted(i for group in groups for i in group) == list(range(nodes))
        assert all(group == sorted(group) for group in groups)
        found = {frozenset(group) for group in groups}
        assert found == {frozenset(part) for part in nx.strongly_connected_components(drawn)}
        place = {i: number for number, group in enumerate(groups) for i in group}
        assert all(place[source] <= place[target] for source, target in drawn.edges)


def test_a_long_chain_against_its_numbers():
    chain = [(i + 1, i) for i in range(500)]
    assert along_links(links(chain)) == [[i] for i in range(500, -1, -1)]


def test_who_links_to_whom():
    drawn = nx.gnp_random_graph(30, 0.1, seed=2, directed=True)
    into = linking(links(drawn))
    assert [sorted(nodes) for nodes in into] == [sorted(drawn.predecessors(i)) for i in range(30)]
