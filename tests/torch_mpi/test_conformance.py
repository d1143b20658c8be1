"""A fixed part of PyTorch's own distributed tests; `make conformance` runs all of them."""

import pytest

from bench import conformance

TESTS = [
    "test_DistributedDataParallelCPU",
    "test_DistributedDataParallel_requires_grad",
    "test_accumulate_gradients_no_sync_allreduce_hook",
    "test_all_gather",
    "test_all_gather_coalesced_simple",
    "test_all_gather_complex",
    "test_all_gather_full_group",
    "test_all_gather_group",
    "test_all_gather_object_default_pg",
    "test_all_reduce_coalesced_sum",
    "test_all_reduce_full_group_max",
    "test_all_reduce_group_min",
    "test_all_reduce_product",
    "test_all_reduce_sum",
    "test_all_reduce_sum_async",
    "test_all_reduce_sum_complex",
    "test_all_to_all",
    "test_all_to_all_complex",
    "test_all_to_all_single_equal_split",
    "test_all_to_all_single_unequal_split",
    "test_barrier",
    "test_barrier_group",
    "test_batch_isend_irecv_gloo",
    "test_broadcast",
    "test_broadcast_group",
    "test_ddp_logging_data_cpu",
    "test_destroy_full_group",
    "test_gather",
    "test_gather_group",
    "test_gather_object",
    "test_get_backend",
    "test_get_future",
    "test_irecv",
    "test_isend",
    "test_monitored_barrier_gloo",
    "test_reduce_group_max",
    "test_reduce_sum",
    "test_scatter",
    "test_scatter_complex",
    "test_scatter_object_list",
    "test_send_recv",
    "test_send_recv_any_source",
    "test_send_recv_with_tag",
    "test_sparse_all_reduce_sum",
]


NO_GPU = "test_all_to_all_cuda"  # without one it fails on every backend


pytestmark = pytest.mark.part(of="cluster")


@pytest.fixture(scope="module")
def outcomes():
    """What came of the tests, which run together: to import the suite takes longest."""
    known = set(conformance.names_in_a_process())
    chosen = [name for name in TESTS if name in known]
    assert len(chosen) >= 40, f"this torch lacks {sorted(set(TESTS) - known)}"
    return conformance.run_suite("mpi4py", [*chosen, NO_GPU], ranks=3)


@pytest.mark.mpi
@pytest.mark.timeout(600)
def test_pytorchs_own_tests_pass(outcomes):
    assert set(outcomes) - {NO_GPU} <= set(TESTS)
    outcomes = {name: found for name, found in outcomes.items() if name != NO_GPU}
    failed = {name: why for name, (outcome, why) in outcomes.items() if outcome == "failed"}
    passed = [name for name, (outcome, _) in outcomes.items() if outcome == "passed"]
    assert failed == {}
    assert len(passed) >= 40


@pytest.mark.mpi
@pytest.mark.timeout(600)
def test_a_failure_is_seen_and_reported(outcomes):
    """The harness must say so."""
    assert outcomes[NO_GPU][0] != "passed"
    assert outcomes["test_barrier"][0] == "passed"


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
