"""Without NVRTC, what notebooks ask of registers is recorded, and equals what NVRTC reports."""

import ast
import re

import pytest

from helpers.cuda import Module
from helpers.cuda.gpu import nvrtc, recorded
from helpers.cuda.module import KERNELS
from helpers.paths import ROOT


@pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "NVRTC is here")
@pytest.mark.parametrize(("file", "defines"), recorded.REPORTED)
def test_what_is_recorded_is_what_nvrtc_reports(file, defines):
    with Module(file, dict(defines), device="cpu") as module:
        wanted = {
            name: nvrtc.Resources(*numbers, 0, recorded.ARCH)
            for name, numbers in recorded.REPORTED[file, defines].items()
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
    assert set(ast.literal_eval(asked)) <= set(recorded.REPORTED["product.cu", frozenset()])
