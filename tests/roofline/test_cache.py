"""The simulated cache: by hand, by properties, and beside valgrind's cachegrind."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.roofline import cachegrind
from helpers.roofline.cache import ORDERS, Cache, count_misses, matmul_trace


@pytest.mark.parametrize(
    ("cache", "addresses", "hits"),
    [
        # 4 lines of 16 bytes, one way: lines 0 and 4 share a set and throw one another out
        (Cache(64, 16, 1), (0, 16, 64, 0, 16), (0, 0, 0, 0, 1)),
        # one set of two ways: 0, 1, then 0 again, so that 2 throws out 1
        (Cache(32, 16, 2), (0, 16, 0, 32, 0, 16), (0, 0, 1, 0, 1, 0)),
        (Cache(128, 64, 1), (0, 63, 64, 4), (0, 1, 0, 1)),  # a line holds its neighbours
    ],
)
def test_hits_by_hand(cache, addresses, hits):
    assert tuple(map(cache.access, addresses)) == hits
    assert (cache.hits, cache.misses) == (sum(hits), len(hits) - sum(hits))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2000), max_size=300), st.sampled_from([1, 2, 4]))
def test_more_ways_of_the_same_sets_never_miss_more(addresses, ways):
    # LRU is a stack algorithm (Mattson 1970): with the sets fixed, a larger cache holds what a
    # smaller one does.
    small, large = Cache(16 * 8 * ways, 16, ways), Cache(16 * 8 * ways * 2, 16, 2 * ways)
    for address in addresses:
        if small.access(address):
            assert large.access(address)
        else:
            large.access(address)
    assert small.hits + small.misses == len(addresses)
    assert small.misses >= len({a // 16 for a in addresses})


def test_trace_of_two_by_two_by_hand():
    # ikj, n=2, 4 bytes: a from 0, b from 16, c from 32.
    first = list(matmul_trace("ikj", 2))[:8]
    assert first == [
        *(("c", 0, 0, 32), ("a", 0, 0, 0), ("b", 0, 0, 16), ("c", 0, 0, 32)),
        *(("c", 0, 1, 36), ("a", 0, 0, 0), ("b", 0, 1, 20), ("c", 0, 1, 36)),
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_a_cache_that_holds_all_misses_each_line_once(order):
    counts = count_misses(order, 16, Cache(32768, 64, 8))
    assert counts == {"a": 16, "b": 16, "c": 16, "accesses": 4 * 16**3}


def test_the_swap_wins_by_an_order_of_magnitude():
    counts = {o: count_misses(o, 32, Cache(1024, 64, 4)) for o in ORDERS}
    total = {o: sum(c[m] for m in "abc") for o, c in counts.items()}
    assert total["ikj"] < total["ijk"] / 3 < total["jki"] / 3


@pytest.mark.skipif(
    not cachegrind.available(), reason="`apt install valgrind gcc` brings what is missing"
)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(1024, 64, 2), (2048, 32, 4)])
def test_agrees_with_cachegrind(order, shape):
    n = 20
    counts = count_misses(order, n, Cache(*shape))
    theirs = cachegrind.count_misses(order, n, *shape)
    ours = sum(counts[m] for m in "abc")
    # Apart: a handful of accesses of the function itself (its arguments on the stack).
    assert 0 <= theirs["accesses"] - counts["accesses"] <= 40
    assert abs(theirs["misses"] - ours) <= 10 + 0.01 * ours


@pytest.mark.parametrize(
    "bad",
    [{"size": 1000}, {"line": 48}, {"ways": 0}, {"size": 64, "line": 64, "ways": 3}],
)
def test_impossible_caches(bad):
    with pytest.raises(ValueError, match="Cache expects"):
        Cache(**bad)


@pytest.mark.parametrize(
    ("size", "line", "ways", "sets"),
    [
        (32768, 64, 8, 64),
        (49152, 64, 12, 64),  # Intel's since 2019
        (49152, 64, 8, 64),  # what cannot be: a virtual machine's
        (131072, 128, 0, 128),  # Apple's
        (65536, 0, 4, 256),
        (1000, 60, 3, 64),  # as if nothing had been said
    ],
)
def test_a_reported_cache_is_modelled(size, line, ways, sets):
    cache = Cache.like({"level": 1, "size": size, "line": line, "ways": ways})
    assert len(cache.held) == sets
    assert cache.size == (size if size != 1000 else 32768)


def test_unknown_order():
    with pytest.raises(ValueError, match="'iik'"):
        next(matmul_trace("iik", 2))
