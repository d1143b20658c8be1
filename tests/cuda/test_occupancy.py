"""Occupancy against NVIDIA's own figures."""

import pytest

from helpers import cuda
from helpers.cuda.occupancy import occupancy


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "arch", "warps", "limit"),
    [
        (1024, 32, 0, "sm_80", 64, "threads"),
        (1024, 64, 0, "sm_80", 32, "registers"),
        (32, 16, 0, "sm_80", 32, "blocks"),
        (256, 32, 48 * 1024, "sm_80", 24, "shared memory"),
        (256, 40, 0, "sm_90", 48, "registers"),
        (1024, 32, 0, "sm_75", 32, "threads"),
        (768, 32, 0, "sm_86", 48, "threads"),
    ],
)
def test_occupancy(threads, registers, shared, arch, warps, limit):
    found = occupancy(threads, registers, shared, arch)
    assert (found.warps, found.limit) == (warps, limit)


def test_occupancy_refuses_what_is_impossible():
    with pytest.raises(cuda.CudaError, match="got 'sm_1'"):
        occupancy(32, 32, 0, "sm_1")
    with pytest.raises(cuda.LaunchError, match="2048"):
        occupancy(2048, 32, 0)
    with pytest.raises(cuda.LaunchError, match="registers is too small"):
        occupancy(1024, 255, 0)
