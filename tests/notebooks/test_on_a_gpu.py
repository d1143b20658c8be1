"""The page of what GPUs measured: every kernel that `make gpu` times has its task there."""

import re
from dataclasses import replace

from bs4 import BeautifulSoup

from helpers import records
from helpers.cuda import Module
from tools.site import on_a_gpu
from tools.site.gpu_tasks import TASKS

GIVEN = {"side": 64, "numbers": 512, "block": 256, "bytes": 512, "values": 256, "PAD": 1}


def test_a_kernel_that_one_gpu_has_not_measured_yet_has_a_dash_there(monkeypatch):
    found = [record for record in records.load(on_a_gpu.GPU_RECORDS) if "kernels" in record.suites]
    first, second = found[:2]
    rows = [replace(first.suites["kernels"][0], name=name, parameters=GIVEN)
            for name in TASKS]  # fmt: skip
    all_but_one = [row for row in rows if row.name != "shuffled_sum"]
    made = [replace(first, suites={"kernels": rows}),
            replace(second, suites={"kernels": all_but_one})]  # fmt: skip
    monkeypatch.setattr(records, "load", lambda folder: made)
    lines = {line.split("`")[1]: line for line in on_a_gpu.page().splitlines() if "| `" in line}
    assert set(lines) == set(TASKS)
    assert [name for name, line in lines.items() if "| – | – |" in line] == ["shuffled_sum"]


def test_the_picture_has_every_task_on_every_gpu_and_each_task_its_conclusion():
    text = on_a_gpu.page()
    grid = BeautifulSoup(text, "html.parser").select_one(".ratios")
    tasks = re.findall(r"^### (.*\d.*)$", text, re.M)
    gpus = {one.gpu for one in records.load(on_a_gpu.GPU_RECORDS) if "kernels" in one.suites}
    rows = len(tasks) + len(on_a_gpu.ENDS)
    assert len(grid.select(".track")) == rows * len(gpus)
    assert text.count("times as fast as the slowest kernel.") == len(tasks)


def test_the_kernels_that_are_measured_by_file_have_tasks():
    for file in ("sums.cu", "scan.cu", "histogram.cu"):
        with Module(file, device="cpu") as module:
            assert set(module) <= set(TASKS)
