"""Occupancy against NVIDIA's own figures; the GPU record's way from the bench to the notebook."""

import pytest

from helpers import cuda, records
from helpers.cuda.measured import CUDNN, PEAK, newest, table
from helpers.cuda.occupancy import occupancy
from helpers.records import Row


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


def test_a_record_comes_back_as_times_peers_and_bandwidth(tmp_path):
    shape = {"size": 4096, "filter": 5}
    rows = [
        Row(PEAK, 50_000.0, "GFLOP/s", parameters={"size": 8192}),
        Row("device copy, read and write", 4000.0, "GB/s", parameters={"size": 4096}),
        Row("convolve_rows", 35.0, "µs", CUDNN, 140.0, shape),
        Row("convolve_rows, arithmetic", 1.0, "GFLOP/s", parameters=shape),
    ]
    assert newest(tmp_path) is None
    records.write(records.record({"cuda": rows}, "test"), tmp_path)
    found = newest(tmp_path)
    assert found.times == {("rows", 4096, 5): 35.0}
    assert found.peers == {(CUDNN, 4096, 5): 140.0}
    assert found.bandwidth == {4096: 4e12}
    assert found.peak == 5e13
    assert "| 5 × 5 | 35.0 | 140.0 |" in table(found)
