import numpy as np
import pytest

from tests.data_parallel import compressed
from tests.mpi.runner import run_ranks

pytestmark = pytest.mark.mpi


def test_three_ranks_send_what_the_formulas_say_and_stay_equal():
    found = run_ranks(3, compressed.weights_and_bytes, 5, timeout=120)
    scale = np.abs(found[0]["mpi"][0]).max()
    for rank in found:
        for name, (weights, *_) in rank.items():
            assert np.array_equal(weights, found[0][name][0]), f"{name}: replicas differ"
    for name, (weights, *counted) in found[0].items():
        apart = np.abs(weights - found[0]["mpi"][0]).max() / scale
        exact = name in ("mpi", "dense, allgather", "dense, ring")
        assert apart < (1e-5 if exact else 0.1), name
        if counted:
            traced, says = counted
            assert traced == says, name
            assert exact or apart > 0


def test_nothing_is_lost_with_feedback():
    for kept, whole in run_ranks(3, compressed.feedback_sums):
        assert kept == pytest.approx(whole, rel=1e-5)


def test_bad_arguments_are_told_what_was_passed():
    (told,) = run_ranks(1, compressed.refused)
    for message, part in zip(told, ("'pigeons'", "feedback=True", "got 0", "'zip'"), strict=True):
        assert part in message


def test_torchs_hooks_run_on_our_backend():
    found = run_ranks(2, compressed.hooked, 4, timeout=120)
    for name, weights in found[0].items():
        assert np.array_equal(weights, found[1][name]), name
        apart = np.abs(weights - found[0]["none"]).max()
        assert apart < 0.05, name
        assert name == "none" or apart > 0
