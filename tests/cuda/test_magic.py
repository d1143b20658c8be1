"""``%%cuda`` in a real IPython shell."""

import numpy as np
import pytest
from IPython.core.error import UsageError

from helpers import cuda

shells = pytest.importorskip("IPython.core.interactiveshell")

CELL = "__global__ void twice(float *x) {\n    x[threadIdx.x] *= FACTOR;\n}\n"


@pytest.fixture
def shell():
    shell = shells.InteractiveShell()
    shell.run_line_magic("load_ext", "helpers.cuda")
    yield shell
    for value in shell.user_ns.values():
        if isinstance(value, cuda.Module):
            value.close()


def test_a_cell_makes_its_kernels_callable(shell, capsys):
    shell.run_cell_magic("cuda", "--device cpu -DFACTOR=2", CELL)
    assert "twice(float * x)" in capsys.readouterr().out
    x = np.ones(4, np.float32)
    shell.user_ns["twice"][1, 4](x)
    assert x.tolist() == [2] * 4
    with pytest.raises(cuda.BoundsError, match=r"at line 3\n    +3 \|     x\[threadIdx.x\]"):
        shell.user_ns["twice"][1, 5](x)
    shell.run_cell_magic("cuda", "--device cpu --no-check -D FACTOR=3", CELL)
    shell.user_ns["twice"][1, 5](x)  # unchecked: 4 bytes past the end go unnoticed, as on a GPU
    assert x.tolist() == [6] * 4


def test_that_nvrtc_is_missing_is_said_below_the_first_cell_alone(shell, capsys, monkeypatch):
    monkeypatch.setattr("helpers.cuda.gpu.nvrtc.missing", lambda: "NVRTC is not here.")
    for expected in (1, 0):
        shell.run_cell_magic("cuda", "--device cpu -DFACTOR", CELL)
        assert capsys.readouterr().out.count("NVRTC is not here.") == expected


def test_errors_are_at_the_lines_that_jupyterlab_numbers(shell, capsys):
    result = shell.run_cell("%%cuda --device cpu\n" + CELL.replace("FACTOR", "nothing"))
    assert isinstance(result.error_in_exec, cuda.CompileError)
    shown = capsys.readouterr().out
    assert "cell, line 3:" in shown
    assert "site-packages" not in shown


def test_a_cell_that_does_not_compile_leaves_no_kernel_of_an_earlier_run(shell):
    from helpers.exercises.cuda import axpy

    empty = "__global__ void __launch_bounds__(32) axpy(float a, float *x, float *y, int n) { %s }"
    shell.run_cell_magic("cuda", "--device cpu", empty % "")
    shell.run_cell("%%cuda --device cpu\n" + empty % "y[0] = ;")
    with pytest.raises(cuda.CompileError, match="line 2"):
        shell.user_ns["axpy"][1, 32]
    assert "its cell does not compile: cell, line 2" in str(axpy.examine(shell.user_ns["axpy"]))


def test_a_template_is_named_and_its_module_makes_the_kernel(shell, capsys):
    cell = "template <int C, typename T> __global__ void f(T *x) { x[threadIdx.x] = C; }\n"
    shell.run_cell_magic("cuda", "--device cpu mine", cell)
    assert "f<C, T>  [a template" in capsys.readouterr().out
    x = np.zeros(4, np.float32)
    shell.user_ns["mine"]["f<3, float>"][1, 4](x)
    assert x.tolist() == [3] * 4


def test_a_gpu_is_asked_for_without_checks(shell, monkeypatch):
    monkeypatch.setattr("helpers.cuda.module.missing", lambda: "none here")
    with pytest.raises(cuda.CudaError, match="no GPU to run on: none here"):
        shell.run_cell_magic("cuda", "--device gpu -DFACTOR=2", CELL)


def test_options_that_do_not_fit(shell):
    for bad in ("--fast", "--timeout soon", "--device", "--device 3", "9"):
        with pytest.raises(UsageError):
            shell.run_cell_magic("cuda", bad, CELL)
    with pytest.raises(UsageError, match="'twice' is a kernel of this cell"):
        shell.run_cell_magic("cuda", "twice --device cpu -DFACTOR=2", CELL)
    with pytest.raises(cuda.LaunchError, match="timeout must be above 0"):
        shell.run_cell_magic("cuda", "--device cpu --timeout 0 -D FACTOR", CELL)
