"""PageRank on several MPI ranks equals the single-process result; its bytes are as predicted."""

import numpy as np
import pytest

from helpers.pagerank import pagerank
from helpers.pagerank.distributed import bounds, predicted_bytes, rank_block, split
from helpers.pagerank.graphs import links, random_links
from tests.mpi.runner import run_ranks
from tests.pagerank import matrix

EXCHANGES = ["allgather", "boundary"]
RANKS = [1, 3]


def job(every):
    """Return this rank's answers by graph, exchange and number of ranks: a start is expensive."""
    from mpi4py import MPI

    world, answers = MPI.COMM_WORLD, {}
    for ranks in RANKS:
        comm = world.Split(0 if world.rank < ranks else MPI.UNDEFINED)
        if comm == MPI.COMM_NULL:
            continue
        for name, graph in every.items():
            for exchange in EXCHANGES:
                block = split(graph, ranks)[comm.rank]
                answers[name, exchange, ranks] = rank_block(block, comm, exchange)
        try:
            rank_block(split(every["random"], ranks)[comm.rank], comm, max_iterations=2)
        except RuntimeError as error:
            answers["limited", ranks] = str(error)
        comm.Free()
    return answers


def graphs():
    yield "random", random_links(211, 0.02, seed=1)
    # Two halves that hardly know one another, dangling nodes, a self-loop, weights.
    edges = [(i, (7 * i + 1) % 40, 1.0 + i % 3) for i in range(40)]
    edges += [(40 + i, 40 + (3 * i) % 35, 2.0) for i in range(30)] + [(0, 60, 1.0), (5, 5, 1.0)]
    yield "halves", links(matrix(edges))
    yield "fewer nodes than ranks", links(matrix([(0, 1), (1, 0)]))


@pytest.fixture(scope="module")
def found():
    return run_ranks(max(RANKS), job, dict(graphs()), timeout=60)


@pytest.mark.mpi
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("ranks", RANKS)
def test_equals_one_process(found, ranks, exchange):
    for name, graph in graphs():
        answers = [each[name, exchange, ranks] for each in found[:ranks]]
        scores = np.concatenate([answer["scores"] for answer in answers])
        one = pagerank(graph, "csr")
        np.testing.assert_allclose(scores, one.scores, atol=1e-12, err_msg=name)
        assert {answer["iterations"] for answer in answers} == {one.iterations}
        predicted = predicted_bytes(split(graph, ranks), exchange)
        assert [a["received"] for a in answers] == [one.iterations * b for b in predicted], name


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", RANKS)
def test_no_convergence_ends_every_rank(found, ranks):
    assert all("after 2 iterations" in each["limited", ranks] for each in found[:ranks])


def test_boundary_by_hand():
    # Ranks own {0, 1} and {2, 3}. 0 → 2 and 1 → 2 cross, 0 → 3 uses node 0 again, 3 → 1 comes back.
    blocks = split(links(matrix([(0, 2), (1, 2), (0, 3), (3, 1), (2, 3)])), 2)
    assert [need.tolist() for need in blocks[1].needs] == [[0, 1], [2]]
    assert [need.tolist() for need in blocks[0].needs] == [[], [3]]
    assert blocks[0].gives[1].tolist() == [0, 1]
    assert predicted_bytes(blocks, "boundary") == [8, 16]
    assert predicted_bytes(blocks, "allgather") == [16, 16]


@pytest.mark.parametrize(("nodes", "ranks"), [(10, 3), (3, 5), (7, 7), (100, 1)])
def test_bounds_cover_all_rows_evenly(nodes, ranks):
    sizes = np.diff(bounds(nodes, ranks))
    assert sizes.sum() == nodes
    assert sizes.max() - sizes.min() <= 1


def test_bad_input():
    with pytest.raises(ValueError, match="'gossip'"):
        predicted_bytes(split(links(matrix([(0, 1)])), 1), "gossip")
    with pytest.raises(ValueError, match="got 0"):
        bounds(5, 0)
