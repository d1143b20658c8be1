"""The PyTorch distributed tests that the record says pass; `make conformance` runs all of them."""

import re

import pytest

from bench import conformance
from helpers import records
from helpers.paths import BENCH_RECORDS

RANKS = 3
NO_GPU = "test_all_to_all_cuda"  # without one it fails on every backend


pytestmark = pytest.mark.part(of="cluster")


@pytest.fixture(scope="module")
def outcomes():
    """What comes of the tests that passed by the newest record, but for those that wait long.

    They run together: to import the suite takes longest.
    """
    rows = records.newest(
        BENCH_RECORDS,
        "conformance",
        lambda _, rows: rows if rows[0].parameters["ranks"] == RANKS else None,
    )
    passed = [row.name for row in rows if row.name.startswith("test_") and row.value == 1]
    chosen = [name for name in passed if not re.search("timeout|wait_all|profiler", name)]
    return conformance.run_suite("mpi4py", [*chosen, NO_GPU], RANKS)


@pytest.mark.mpi
@pytest.mark.timeout(600)
def test_pytorchs_own_tests_pass(outcomes):
    failed = {name: found for name, found in outcomes.items() if found[0] != "passed"}
    assert set(failed) == {NO_GPU}, failed  # which says that a failure is seen
    assert len(outcomes) > 100


def test_the_record_holds_both_outcomes_and_why():
    why = (
        "Traceback\n  File x\nValueError: two of three\n\nTo run this test from the base directory"
    )
    results = {
        "mpi4py": {"test_x": ("failed", why), "test_y": ("skipped", "no GPU")},
        "gloo": {"test_x": ("passed", ""), "test_y": ("skipped", "no GPU")},
    }
    passed, failed, skipped, x, y = conformance.rows(results, ranks=3)
    assert (passed.value, passed.peer_value) == (0, 1)
    assert (failed.value, failed.peer_value, skipped.value) == (1, 0, 1)
    assert (x.name, x.value, x.peer_value) == ("test_x", 0, 1)
    assert x.parameters["our reason"] == "ValueError: two of three"
    assert y.parameters["our reason"] == "no GPU"
