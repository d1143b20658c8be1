"""What an allreduce costs: formulas by hand, crossovers, fits; on hosts, by their placement."""

from collections import Counter

import pytest

from helpers.collectives import ALGORITHMS, cost, halving, placement
from helpers.collectives.cost import Cost, Link, Machine, crossover, fit
from helpers.collectives.schedule import model
from tests.exercises.cases_collectives import leaving

LINK = Link("test", alpha=10.0, beta=1.0, gamma=0.5)
MEMORY = Link("memory", 1e-6, 1e-9)
SLOW = Link("slow", 1e-3, 1e-6)
BLOCK, DEALT = (0, 0, 1, 1, 2, 2, 3, 3), (0, 1, 2, 3, 0, 1, 2, 3)


@pytest.mark.parametrize(
    ("algorithm", "ranks", "fixed", "per_byte"),
    [
        ("chain", 4, 6 * 10, 6 + 3 * 0.5),
        ("tree", 4, 4 * 10, 4 + 2 * 0.5),
        ("tree", 5, 6 * 10, 6 + 3 * 0.5),
        ("recursive_doubling", 4, 2 * 10, 2 + 2 * 0.5),
        ("recursive_doubling", 5, 4 * 10, 4 + 3 * 0.5),
        ("ring", 4, 6 * 10, 6 / 4 + 3 / 4 * 0.5),
        ("ring", 1, 0, 0),
    ],
)
def test_formulas(algorithm, ranks, fixed, per_byte):
    assert cost.allreduce(algorithm, ranks, LINK) == pytest.approx((fixed, per_byte))


def test_pieces_hide_behind_one_another_in_the_chain_only():
    K = 1e6
    chain = [cost.allreduce("chain", 8, LINK, p).at(K) for p in (1, 10, 100)]
    assert chain[0] > chain[1] > chain[2]
    assert chain[2] == pytest.approx(2 * K * 1.06 + 106 * 0.5 * K / 100 + 2 * 106 * 10, rel=1e-9)
    ring = [cost.allreduce("ring", 8, LINK, p).at(K) for p in (1, 10)]
    assert ring[1] - ring[0] == pytest.approx(14 * 9 * 10)


def test_crossover_is_where_both_cost_the_same():
    tree, ring = (cost.allreduce(name, 16, LINK) for name in ("tree", "ring"))
    K = crossover(tree, ring)
    assert tree.at(K) == pytest.approx(ring.at(K))
    assert tree.at(K / 2) < ring.at(K / 2)
    assert tree.at(K * 2) > ring.at(K * 2)


def test_crossover_at_the_ends():
    assert crossover(Cost(1, 1), Cost(2, 2)) is None
    assert crossover(Cost(1, 1), Cost(1, 1)) is None
    assert crossover(Cost(2, 2), Cost(1, 1)) == 0.0


def test_two_levels_of_one_are_the_flat_ring():
    one_node = Machine(1, 8, LINK, Link("unused", 1e9, 1e9))
    assert one_node.two_level() == pytest.approx(one_node.flat_ring())
    assert one_node.tree() == cost.allreduce("tree", 8, LINK)
    flat = Machine(8, 1, Link("unused", 1e9, 1e9), LINK)
    assert flat.two_level() == pytest.approx(flat.flat_ring())
    assert Machine(1, 1, LINK, LINK).flat_ring() == Cost(0, 0)


def test_two_levels_by_hand():
    inside, between = Link("inside", 1.0, 0.1), Link("between", 20.0, 2.0)
    machine = Machine(nodes=4, per_node=8, inside=inside, between=between)
    # 2·7 steps inside; 2·3 between, in which 8 ranks with K/8 each share one port
    assert machine.two_level() == pytest.approx((14 * 1 + 6 * 20, 14 / 8 * 0.1 + 6 / 4 * 2.0))
    many = Machine(nodes=4, per_node=8, inside=inside, between=between, ports=8)
    assert many.two_level().per_byte == pytest.approx(14 / 8 * 0.1 + 6 / 4 * 2.0 / 8)
    assert machine.flat_ring() == pytest.approx((62 * 20, 62 / 32 * 2.0))
    assert machine.ranks == 32


def test_halving_sends_the_rings_bytes_in_the_trees_steps():
    ring, tree = (cost.allreduce(name, 8, LINK) for name in ("ring", "tree"))
    assert cost.halving_doubling(8, LINK) == (tree.fixed, ring.per_byte)
    assert max(halving.schedule(8).sent(8)) == cost.sent("ring", 8) * 8
    assert halving.schedule(8).steps * LINK.alpha == tree.fixed
    assert cost.halving_doubling(1, LINK) == (0, 0)
    with pytest.raises(ValueError, match="power of two ranks; got 6"):
        cost.halving_doubling(6, LINK)


def test_between_nodes_halving_saves_steps_alone():
    ways = Machine(8, 4, MEMORY, SLOW).ways()
    ring, fewer = ways["two levels, ring"], ways["two levels, halving"]
    assert fewer.per_byte == ring.per_byte
    assert ring.fixed - fewer.fixed == pytest.approx((14 - 6) * SLOW.alpha)


def test_fit_finds_what_made_the_samples():
    samples = [(size, 3e-6 + size * 2e-10) for size in (1, 100, 10_000, 1_000_000)]
    link = fit(samples, "exact", gamma=1e-11)
    assert (link.alpha, link.beta, link.gamma) == pytest.approx((3e-6, 2e-10, 1e-11), rel=1e-6)


def test_fit_minds_short_messages_as_much_as_long_ones():
    samples = [(size, 3e-6 + size * 2e-10) for size in (1, 10, 100, 10_000_000)]
    samples[-1] = (10_000_000, 2.2e-3)  # 10 % off: nothing to do with α
    assert fit(samples).alpha == pytest.approx(3e-6, rel=0.01)


def test_fit_never_goes_below_zero():
    assert fit([(1_000, 1e-6), (2_000, 3e-6), (4_000, 9e-6)]).alpha == 0.0


@pytest.mark.parametrize("samples", [[], [(8, 1.0)], [(8, 1.0), (8, 2.0)], [(8, 1.0), (9, 0.0)]])
def test_fit_needs_two_sizes(samples):
    with pytest.raises(ValueError, match="two sizes"):
        fit(samples)


def test_bad_input():
    with pytest.raises(ValueError, match=r"got 'star'"):
        cost.allreduce("star", 4, LINK)
    with pytest.raises(ValueError, match="ranks=0"):
        cost.allreduce("ring", 0, LINK)
    with pytest.raises(ValueError, match=r"alpha=-1"):
        Link("bad", -1, 0)
    with pytest.raises(ValueError, match="nodes=0"):
        Machine(0, 1, LINK, LINK)


@pytest.mark.parametrize("algorithm", ["chain", "tree", "recursive_doubling", "ring"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_with_a_host_for_each_rank_it_is_the_model_without_hosts(algorithm, ranks):
    apart = tuple(range(ranks))
    (found,) = placement.seconds(algorithm, [80_000], apart, MEMORY, SLOW)
    assert found == pytest.approx(cost.allreduce(algorithm, ranks, SLOW).at(80_000))


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_on_one_host_no_byte_takes_the_link(algorithm):
    (found,) = placement.seconds(algorithm, [80_000], (0,) * 4, MEMORY, SLOW)
    (same,) = placement.seconds(algorithm, [80_000], (0,) * 4, MEMORY, Link("none", 0.0, 0.0))
    assert found == same


def test_the_rings_of_two_seatings_by_hand():
    size = 80_000
    (block,) = placement.seconds("ring", [size], BLOCK, MEMORY, SLOW)
    (dealt,) = placement.seconds("ring", [size], DEALT, MEMORY, SLOW)
    assert block == pytest.approx(14 * (1e-3 + size / 8 * 1e-6))
    assert dealt == pytest.approx(14 * (1e-3 + 2 * size / 8 * 1e-6))


def test_two_levels_on_hosts_by_hand():
    size = 80_000
    (found,) = placement.seconds("two_level", [size], BLOCK, MEMORY, SLOW)
    between = 6 * (1e-3 + size / 4 * 1e-6)
    inside = 2 * (1e-6 + size / 2 * 1e-9)
    assert found == pytest.approx(between + inside, rel=0.02)


@pytest.mark.parametrize(("name", "part"), [("ring", 0), ("two_level", 1)])
def test_as_many_bytes_leave_a_host_as_the_exercise_expects(name, part):
    size, out = 8 * 300, Counter()
    plan = model(name, 8, hosts=BLOCK)
    for one in plan.transfers:
        out[BLOCK[one.source]] += (BLOCK[one.source] != BLOCK[one.dest]) * size // plan.chunks
    assert set(out.values()) == {leaving(4, 2, size)[part]}


def test_an_algorithm_that_does_not_exist_is_said():
    with pytest.raises(ValueError, match=r"expected one of 'chain', .*; got 'scatter'"):
        placement.seconds("scatter", [1], BLOCK, MEMORY, SLOW)
