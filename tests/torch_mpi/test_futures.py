"""Collectives inside the callbacks of futures: they end, and in the same order on every rank."""

import pytest

from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.torch_mpi import futures

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize(
    ("path", "n"), [pytest.param("window", 2, marks=PART), ("window", 3), ("network", 3)]
)
def test_callbacks_call_collectives_and_wait_for_them(path, n):
    for seen in run_ranks(n, futures.check_callbacks, path, timeout=90):
        assert seen == [100.0 * n] * 8


@pytest.mark.parametrize("path", ["window", "network"])
def test_what_callbacks_call_comes_before_what_was_called_since(path):
    for results in run_ranks(3, futures.check_order, path, timeout=90):
        assert results == [3.0 * (1000 + k) for k in range(30)]


def test_a_callback_waits_for_an_operation_called_after_its_own():
    assert run_ranks(2, futures.check_later, "window", timeout=60) == [1.0 + 2.0] * 2


@pytest.mark.parametrize("path", ["window", "network"])
def test_power_sgd_trains_as_over_gloo(path):
    for difference, apart in run_ranks(2, futures.check_power_sgd, path, timeout=120):
        assert difference < 1e-6
        assert apart == 0.0
