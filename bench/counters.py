"""What the recorder counts on a CPU beside what a GPU's own counters count (Nsight Compute)."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Collection

import numpy as np

from helpers.cuda import Module
from helpers.cuda.ladder import RUNGS, Convolution
from helpers.records import Row

SUITE = "counters"
GPU = True
SIDE, LARGE = 512, 8192  # rows and columns of the images: one to record, one beyond any L2
REQUESTS, SECTORS = "l1tex__t_requests_pipe_lsu_mem_", "l1tex__t_sectors_pipe_lsu_mem_"
PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_"
COUNTERS = {
    "requests to read": f"{REQUESTS}global_op_ld.sum",
    "sectors read": f"{SECTORS}global_op_ld.sum",
    "requests to write": f"{REQUESTS}global_op_st.sum",
    "sectors written": f"{SECTORS}global_op_st.sum",
    "passes to read shared memory": f"{PASSES}ld.sum",
    "passes to write shared memory": f"{PASSES}st.sum",
}
MEMORY = ("dram__bytes_read.sum", "dram__bytes_write.sum")


def launches(device: str, n: int = SIDE) -> dict:
    """Return by name what to launch and with which arguments: the course's kernels."""
    rng = np.random.default_rng(0)
    image = rng.random((n, n), np.float32)
    found = {}
    for size in (3, 5):
        convolution = Convolution(rng.random((size, size), np.float32), device=device, timeout=120)
        for rung in RUNGS:
            made = convolution.launch(rung, image, np.empty_like(image))
            found[f"convolve_{rung}, {size} × {size}"] = made
    access = {pad: Module("access.cu", {"PAD": pad}, device, timeout=120) for pad in (0, 1)}
    for name in ("copy_along_rows", "copy_along_columns"):
        grid = (n // 32, n // 8)
        found[name] = access[1][name][grid, (32, 8)], (image, np.empty_like(image), n, n)
    for pad, module in access.items():
        launch = module["transpose"][(n // 32, n // 32), (32, 8)]
        found[f"transpose, PAD {pad}"] = launch, (image, np.empty_like(image), n, n)
    if n == LARGE:
        return found
    a, b = rng.random((2, 128, 128), np.float32)
    product = Module("product.cu", device=device, timeout=120)
    for name, grid in (("square_product<16>", (8, 8)), ("square_product<32>", (4, 4)),
                       ("coarse_product<2>", (4, 8)), ("coarse_product<4>", (2, 8)),
                       ("register_product<2>", (4, 4)),
                       ("register_product<4>", (2, 2))):  # fmt: skip
        block = (32, 32) if "32" in name else (16, 16)
        found[name] = product[name][grid, block], (a, b, np.zeros_like(a), 128, 128, 128)
    x = rng.random(256 * 256, np.float32)
    sums = Module("sums.cu", device=device)
    for name in sums:
        found[name] = sums[name][256, 256], (x, np.zeros(256, np.float32))
    for pad in (0, 1):
        scan = Module("scan.cu", {"PAD": pad}, device)
        for name, threads in (("scan_steps", 256), ("scan_tree", 128)):
            found[f"{name}, PAD {pad}"] = scan[name][256, threads], (x, np.empty_like(x))
    histogram = Module("histogram.cu", device=device)
    letters = rng.integers(0, 256, 1 << 18).astype(np.uint8)
    for name in histogram:
        found[name] = histogram[name][64, 256], (letters, np.zeros(256, np.uint32), len(letters))
    return found


def recorded(launch, arguments) -> dict[str, int]:
    """Return what the recorder counts, named as the counters."""
    record = launch.record(*arguments, blocks=[])
    found = {}
    for kind, to, participle in (("read", "read", "read"), ("write", "write", "written")):
        here = record.select(kind=kind, space="global")
        found[f"requests to {to}"] = sum(access.requests for access in here)
        found[f"sectors {participle}"] = sum(access.sectors for access in here)
        there = record.select(kind=kind, space="shared")
        found[f"passes to {to} shared memory"] = sum(access.wavefronts for access in there)
    return found


def lacks() -> str:
    """Say what is missing here, if anything is."""
    return "" if shutil.which("ncu") else "no ncu (Nsight Compute, of CUDA's toolkit) on the PATH"


def rows() -> list[Row]:
    """Each count beside the recorder's, and what a large launch moves beside what it must."""
    made = []
    counted = profile(COUNTERS.values(), "bench.counters", str(SIDE))
    for (name, call), counters in zip(launches("cpu").items(), counted, strict=True):
        ours = recorded(*call)
        for what, counter in COUNTERS.items():
            if counters[counter] or ours[what]:
                given = {"launch": name, "side": SIDE}
                count, unit = counters[counter], what.split()[0]
                made.append(Row(what, count, unit, "recorder", ours[what], given))
    counted = profile(MEMORY, "bench.counters", str(LARGE))
    for name, counters in zip(launches("gpu", LARGE), counted, strict=True):
        moved, parameters = sum(counters.values()), {"launch": name, "side": LARGE}
        least = 2 * 4 * LARGE**2  # every number read once and written once
        made.append(Row("memory's traffic", moved, "B", "least", least, parameters))
    return made


def profile(metrics: Collection[str], *module: str) -> list[dict[str, float]]:
    """Return these counters of each launch that ``python -m MODULE ...`` makes, in order."""
    ncu = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics)]
    command = [*ncu, sys.executable, "-m", *module]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in run.stdout.splitlines() if line.startswith('"')]
    if run.returncode or not lines:
        raise RuntimeError(
            f"ncu failed ({run.returncode}): {run.stdout[-800:]} {run.stderr[-800:]}"
        )
    found = [row for row in csv.DictReader(io.StringIO("\n".join(lines))) if row["ID"]]
    value = lambda text: float((text or "0").replace(",", ""))  # noqa: E731
    return [{key: value(row.get(key, "")) for key in metrics} for row in found]


if __name__ == "__main__":
    for launch, arguments in launches("gpu", int(sys.argv[1])).values():
        launch(*arguments)
