"""The API: launches write in place, and whatever does not fit is refused with what was expected."""

import gc
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module, gpu
from helpers.cuda.gpu import nvrtc
from helpers.machine.cache import cache_folder
from tests.cluster.ways import PART

SCALE = """
__constant__ float factor[4];
__device__ float times(float x, float f) { return x * f; }
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = times(x[i], factor[0]);
}
"""


@pytest.fixture(scope="module")
def scale():
    with Module(SCALE, device="cpu", name="scale.cu") as module:
        module.constant("factor", np.array([3, 0, 0, 0], np.float32))
        yield module


@pytest.mark.parametrize("check", [False, True])
def test_arrays_are_written_in_place_and_constants_arrive(scale, check):
    x = np.arange(1000, dtype=np.float32)
    scale["scale"][4, 256](x, 1000, check=check)
    assert np.array_equal(x, 3 * np.arange(1000, dtype=np.float32))


def test_a_listing_has_the_numbers_by_which_a_record_names_lines(scale):
    record = scale["scale"][1, 32].record(np.ones(10, np.float32), 10)
    listed = dict(row.split(maxsplit=1) for row in scale["scale"].listing.splitlines())
    assert [listed[str(a.line)] for a in record.select(array="x", kind="write")] == [
        "if (i < n) x[i] = times(x[i], factor[0]);"
    ]
    assert list(listed.values()) == [row.strip() for row in scale["scale"].source.splitlines()]


def test_a_torch_tensor_is_written_in_place(scale):
    torch = pytest.importorskip("torch")
    x = torch.arange(10, dtype=torch.float32)
    scale["scale"][1, 32](x, 10)
    assert x.tolist() == [3.0 * i for i in range(10)]


def test_one_array_passed_twice_and_overlapping_views_are_one_memory(scale):
    source_ = "__global__ void f(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x] + 1; }"
    with Module(source_, device="cpu") as module:
        x = np.zeros(8, np.float32)
        module["f"][1, 8](x, x)
        assert x.tolist() == [1] * 8
        module["f"][1, 4](x[:4], x[4:])
        assert x.tolist() == [1, 1, 1, 1, 2, 2, 2, 2]
        module["f"][1, 1](x[1:4], x[:2])
        assert x[0] == 2


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 1025), "1025 threads; CUDA allows at most 1024"),
        ((1, (1, 1, 65)), "z = 65 exceeds CUDA's limit of 64"),
        ((0, 32), "grid 0 has a size below 1"),
        ((1, 0), "block 0 has a size below 1"),
        (((1, 65536), 32), "y = 65536 exceeds"),
        (((1, 1, 1, 1), 32), "one to three numbers"),
        ((1.5, 32), "whole numbers"),
        ((1, 32, -4), "shared memory must be bytes"),
        (5, r"kernel\[grid, block\]"),
    ],
)
def test_launch_shapes_that_no_device_takes(scale, shape, message):
    with pytest.raises(cuda.LaunchError, match=message):
        scale["scale"][shape]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(4, np.float32),), "takes 2 arguments; got 1"),
        ((np.zeros(4), 4), r"argument 1 \(`float \* x`\).* expected float32, got array of float64"),
        ((np.zeros((4, 4), np.float32).T, 4), "contiguous"),
        (([1.0], 4), "expected an array of float32, got list"),
        ((3.0, 4), "expected an array of float32, got float 3.0"),
        ((np.zeros(4, np.float32), 4.5), r"argument 2 \(`int n`\).* whole number, got float 4.5"),
        ((np.zeros(4, np.float32), np.zeros(1, np.int32)), "whole number, got array of int32"),
    ],
)
def test_arguments_that_do_not_fit(scale, arguments, message):
    with pytest.raises(cuda.LaunchError, match=message):
        scale["scale"][1, 32](*arguments)


def test_a_read_only_array_is_refused_where_the_kernel_writes(scale):
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    with pytest.raises(cuda.LaunchError, match="read-only"):
        scale["scale"][1, 32](x, 4)


def test_names_that_do_not_exist(scale):
    with pytest.raises(KeyError, match="no kernel 'scales'"):
        scale["scales"]
    with pytest.raises(cuda.LaunchError, match="no constant 'factors'; it has: factor"):
        scale.constant("factors", np.zeros(4, np.float32))
    with pytest.raises(cuda.LaunchError, match="expects float32; got float64"):
        scale.constant("factor", np.zeros(4))
    with pytest.raises(cuda.LaunchError, match="holds 16 bytes; got 20"):
        scale.constant("factor", np.zeros(5, np.float32))
    with pytest.raises(cuda.LaunchError, match="device must be"):
        Module(SCALE, device="cuda")
    with pytest.raises(cuda.CompileError, match=r"no file 'nowhere\.cu'.*convolution\.cu"):
        Module("nowhere.cu")
    with pytest.raises(cuda.CompileError, match="defines no kernel"):
        Module("int x;", device="cpu")


@pytest.mark.skipif(not gpu.missing(), reason="there is a GPU")
def test_asking_for_a_gpu_where_there_is_none_says_why():
    with pytest.raises(cuda.CudaError, match=r"no GPU to run on: .*device='cpu'"):
        Module(SCALE, device="gpu")


def test_errors_of_both_compilers_show_the_readers_line(monkeypatch):
    text = "__global__ void f(float *x) {\n x[0] = undefined_name;\n}"
    for _ in range(2):
        with pytest.raises(cuda.CompileError, match=r"mine\.cu, line 2: .*undefined") as caught:
            Module(text, device="cpu", name="mine.cu")
        assert "x[0] = undefined_name;" in str(caught.value)
        monkeypatch.setattr("helpers.cuda.gpu.nvrtc.missing", lambda: "NVRTC is not here.")
    with Module("__global__ void f(float *x) { x[0] = 1; }", device="cpu") as module:
        assert module.note == "NVRTC is not here."
        assert module["f"].resources is None


def test_a_missing_compiler_is_one_sentence(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(
        cuda.CompileError, match=r"neither g\+\+ nor clang\+\+ is on PATH"
    ) as caught:
        Module("__global__ void f() {}", device="cpu", verify=False)
    assert "\n" not in str(caught.value)


def test_a_source_compiles_once(tmp_path, monkeypatch, scale):
    runtimes = [*cache_folder("cuda").glob("runtime-*.o")]  # what takes seconds to compile
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for runtime in runtimes:
        (cache_folder("cuda") / runtime.name).symlink_to(runtime)
    text = "__global__ void f(float *x) { x[0] = 1; }"
    Module(text, device="cpu").close()
    first = {path: path.stat().st_ino for path in tmp_path.rglob("module-*")}
    Module(text, device="cpu").close()
    assert {path: path.stat().st_ino for path in tmp_path.rglob("module-*")} == first
    assert len(first) == 1
    assert not list(tmp_path.rglob("tmp*"))
    for path in first:  # a month later another module is compiled
        os.utime(path, (0, 0))
    Module(text.replace("= 1", "= 2"), device="cpu", verify=False).close()
    assert not any(path.exists() for path in first)


def test_no_process_is_left(scale):
    module = Module(SCALE, device="cpu")
    module["scale"][1, 32](np.zeros(4, np.float32), 4)
    (pid,) = module.processes
    del module
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_process_is_left_when_python_is_killed():
    program = (
        "import numpy as np, os, helpers.cuda as c\n"
        "m = c.Module('__global__ void f(float *x) { x[0] = 1; }', device='cpu')\n"
        "m['f'][1, 1](np.zeros(1, np.float32))\n"
        "print(*m.processes, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                            timeout=120)  # fmt: skip
    assert answer.stdout, answer.stderr
    process = Path(f"/proc/{int(answer.stdout)}")
    deadline = time.monotonic() + 10
    while process.exists() and time.monotonic() < deadline:
        if "zombie" in (process / "status").read_text():
            break
        time.sleep(0.05)
    assert not process.exists() or "zombie" in (process / "status").read_text()


def test_an_interrupt_stops_the_kernel(monkeypatch):
    text = "__global__ void f(volatile int *x) { while (!x[0]) {} }"
    with Module(text, device="cpu") as module:
        module["f"][1, 1](np.ones(1, np.int32))
        assert module.processes

        def interrupted(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("helpers.cuda.cpu.worker.select.select", interrupted)
            with pytest.raises(KeyboardInterrupt):
                module["f"][1, 1](np.zeros(1, np.int32))
        assert not module.processes
        module["f"][1, 1](np.ones(1, np.int32))


@PART
def test_the_portable_fiber_switch_gives_the_same(monkeypatch):
    """ucontext, used where there is no assembly for the processor."""
    monkeypatch.setenv("CUDA_ON_CPU_FLAGS", "-DCUDA_UCONTEXT")
    text = """
    __global__ void reverse(float *x) {
        __shared__ float tile[64];
        tile[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = tile[63 - threadIdx.x];
    }
    """
    with Module(text, device="cpu") as module:
        x = np.arange(64, dtype=np.float32)
        module["reverse"][1, 64](x)
        assert np.array_equal(x, np.arange(64)[::-1])


@pytest.mark.skipif(bool(nvrtc.missing()), reason="no NVRTC")
def test_cudas_own_headers_are_found_by_cuda_home(tmp_path, monkeypatch):
    text = "#include <cuda_fp16.h>\n__global__ void f(float *x) { x[0] = TWO; }"
    for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    find = importlib.util.find_spec  # as if the package with the headers were not here
    hide = lambda name: None if name == "nvidia" else find(name)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", hide)
    if not nvrtc.include_folders():
        plain = Module(text, {"TWO": 2}, device="cpu")  # runs, and says that nobody verified it
        assert "NVRTC finds no cuda_fp16.h" in plain.note
        assert "CUDA_HOME" in plain.note
        assert not plain.resources
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda_fp16.h").write_text("struct __half { unsigned short bits; };\n")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert nvrtc.include_folders()[0] == str(tmp_path / "include")
    verified = Module(text, {"TWO": "2 * 1"}, device="cpu")
    assert verified.note == ""
    assert verified.resources["f"].registers > 0
