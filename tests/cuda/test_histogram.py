"""The histograms of the course count right, and their atomics are counted right."""

import numpy as np
import pytest

from helpers.cuda import Module
from helpers.cuda.contention import turns


@pytest.fixture(scope="module")
def module():
    with Module("histogram.cu", device="cpu", verify=False, check=True) as made:
        yield made


@pytest.mark.parametrize(("n", "grid", "block"), [(1000, 3, 64), (4096, 2, 256), (5, 1, 32)])
def test_both_count_every_byte_and_ask_for_the_atomics_they_promise(module, n, grid, block):
    x = np.random.default_rng(n).integers(0, 256, n).astype(np.uint8)
    want = np.bincount(x, minlength=256)
    for name, atomics in (("direct_histogram", n), ("own_histogram", 256 * grid)):
        bins = np.zeros(256, np.uint32)
        record = module[name][grid, block].record(x, bins, n)
        assert np.array_equal(bins, want)
        assert record.count(array="bins", kind="atomic") == atomics
        assert record.count(array="own", kind="atomic") == (0 if name[0] == "d" else n)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        (np.arange(64), 2),  # two warps, no lane beside another
        (np.zeros(64), 64),
        (np.arange(64) // 4, 2 * 4),
        ([0] * 3 + list(range(1, 30)) + [99] * 32, 3 + 32),
        (np.arange(256) % 64, 2 + 2 + 2 + 2),  # four times round, each a request of its own
    ],
)
def test_lanes_that_want_one_place_take_turns(module, values, want):
    x = np.array(values, np.uint8)
    record = module["direct_histogram"][1, 64].record(x, np.zeros(256, np.uint32), len(x))
    assert turns(record, array="bins") == want
    assert turns(record, array="x") == 0


@pytest.mark.parametrize("kept", [{"blocks": []}, {"blocks": [1]}, {"limit": 100}])
def test_turns_of_a_record_that_lacks_accesses_are_refused(module, kept):
    x = np.zeros(128, np.uint8)
    launch = module["direct_histogram"][2, 64]
    record = launch.record(x, np.zeros(256, np.uint32), len(x), **kept)
    with pytest.raises(ValueError, match="lacks single accesses"):
        turns(record, array="bins")
