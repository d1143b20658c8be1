"""Registers: recorded where NVRTC is not; occupancy against NVIDIA's own figures."""

import ast
import re

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module
from helpers.cuda.gpu import nvrtc
from helpers.cuda.module import KERNELS
from helpers.cuda.occupancy import busy, by_resident_warps, occupancy
from helpers.paths import ROOT
from helpers.records import Row


@pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is here")
@pytest.mark.parametrize(("file", "defines"), nvrtc.REPORTED)
def test_what_is_recorded_is_what_nvrtc_reports(file, defines):
    with Module(file, dict(defines), device="cpu") as module:
        wanted = {
            name: nvrtc.Resources(*numbers, 0, nvrtc.ARCH)
            for name, numbers in nvrtc.REPORTED[file, defines].items()
        }
        assert {name: module[name].resources for name in wanted} == wanted


def test_without_nvrtc_the_courses_kernels_have_resources(monkeypatch):
    monkeypatch.setattr(nvrtc, "missing", lambda: "NVRTC is not here.")
    with Module("product.cu", device="cpu") as module:
        assert module["coarse_product<4>"].resources.shared == 5120
    with Module((KERNELS / "vector_add.cu").read_text() + "\n", device="cpu") as module:
        assert module["vector_add"].resources is None  # a reader's own source, whatever its name
        assert module.note == "NVRTC is not here."


def test_the_kernels_of_the_notebooks_table_are_recorded():
    text = (ROOT / "notebooks/source/14_cuda_bytes_and_shapes.py").read_text()
    (asked,) = re.findall(r"^blocks = (\{.*?\})", text, re.MULTILINE | re.DOTALL)
    assert set(ast.literal_eval(asked)) <= set(nvrtc.REPORTED["product.cu", frozenset()])


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


def test_rows_with_few_resident_warps_are_found_by_their_names():
    names = ("a<2>", "a<2>, 8 resident warps", "b, 16 resident warps", "a<2>, 64 resident warps")
    _, eight, sixteen, most = rows = [Row(name, 1.0, "µs") for name in names]
    assert by_resident_warps(rows) == {"a<2>": {8: eight, 64: most}, "b": {16: sixteen}}


def test_occupancy_refuses_what_is_impossible():
    with pytest.raises(cuda.CudaError, match="got 'sm_1'"):
        occupancy(32, 32, 0, "sm_1")
    with pytest.raises(cuda.LaunchError, match="2048"):
        occupancy(2048, 32, 0)
    with pytest.raises(cuda.LaunchError, match="registers is too small"):
        occupancy(1024, 255, 0)


def tiled(steps, blocks=(0,)):
    """Record one block of a product of (16, steps) by (steps, 16) numbers through tiles of 16."""
    a, b, c = np.zeros((16, steps), "f4"), np.zeros((steps, 16), "f4"), np.zeros((16, 16), "f4")
    with Module("product.cu", device="cpu") as module:
        launch = module["square_product<16>"][1, (16, 16)]
        return launch.record(a, b, c, 16, steps, 16, blocks=list(blocks))


def test_one_warp_waits_for_its_loads_at_each_barrier():
    # 4 tiles of 2 loads, 2 stores and 32 reads, then a store; the second load is followed by a
    # store of its own, so that latency - 1 clocks are lost at the barrier
    record = tiled(64)
    for latency in (0, 1, 500):
        assert busy(record, 1, latency) == 145 / (145 + 4 * max(latency - 1, 0))


def test_more_warps_hide_more_until_the_scheduler_is_busy():
    record = tiled(512)  # a warp starts 36 requests for a tile, and then waits
    for warps in (1, 2, 4, 8):
        assert busy(record, warps, 500) == pytest.approx(warps * 36 / (36 + 499), rel=0.02)
    assert 0.99 < busy(record, 64, 500) <= 1


def test_busy_refuses_a_record_without_events():
    for record, warps, latency in ((tiled(16, ()), 1, 1), (tiled(16), 0, 1), (tiled(16), 1, -1)):
        with pytest.raises(cuda.LaunchError, match=f"got {len(record.events)} events, {warps} and"):
            busy(record, warps, latency)
