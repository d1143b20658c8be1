"""helpers.native: compile, keep, refuse."""

import subprocess
import sys

import pytest

from helpers import native
from helpers.machine.compilers import find_compiler
from helpers.roofline import ceilings


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_compile_and_call(cache):
    library = native.load_c("int twice(int x) { return 2 * x; }")
    assert library.twice(21) == 42
    made = list((cache / "parallel-deep-learning" / "c").iterdir())
    assert len(made) == 1
    stamp = made[0].stat().st_mtime_ns
    native.load_c("int twice(int x) { return 2 * x; }")
    assert made[0].stat().st_mtime_ns == stamp  # kept, not compiled again


@pytest.mark.usefixtures("cache")
def test_flags_are_part_of_the_name():
    text = "int value(void) { return VALUE; }"
    libraries = [native.load_c(text, (f"-DVALUE={v}",)) for v in (1, 2)]
    assert [library.value() for library in libraries] == [1, 2]


def test_the_compiler_is_quoted(cache):
    with pytest.raises(native.CompilerError, match="nonsense"):
        native.load_c("nonsense")
    assert not list(cache.rglob("*.so"))


@pytest.fixture
def apples_clang(tmp_path, monkeypatch):
    """A C compiler that refuses -fopenmp in the words of Apple's clang, and an empty cache."""
    real = find_compiler()
    fake = tmp_path / "cc"
    fake.write_text(
        '#!/bin/sh\nfor word in "$@"; do if [ "$word" = -fopenmp ]; then\n'
        "echo \"clang: error: unsupported option '-fopenmp'\" >&2; exit 1; fi; done\n"
        f'exec {real} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("CC", str(fake))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return str(fake)


def test_openmp_where_the_compiler_has_it(apples_clang, monkeypatch):
    assert native.openmp() == ()
    monkeypatch.delenv("CC")
    library = native.load_c(native.PROBE, native.openmp())
    assert library.threads() >= 1


def test_without_openmp_everything_that_compiles_runs(apples_clang):
    # in a fresh interpreter, which has compiled nothing yet
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_OPENMP], capture_output=True, text=True, timeout=150
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["ordered", "True", "[1]", "[1]"]


WITHOUT_OPENMP = """
import numpy as np
from helpers import native
from helpers.pagerank import pagerank
from scipy.sparse import csr_array
from helpers.roofline import ceilings, kernels, probes
from helpers.roofline.system import instruction_sets

print(pagerank(csr_array([[0, 1], [1, 0]])).method)
x, y = (np.arange(8, dtype=np.float32) for _ in range(2))
kernels._elementwise().axpy(8, 2.0, x.ctypes.data, y.ctypes.data)
print(bool((y == 3 * x).all()))
probes.bandwidth("triad", 4096, sample=0.001, repeats=1)
probes.flops(instruction_sets()[0], "float32", sample=0.001, repeats=1)
print(ceilings.thread_counts(8))
makers = (kernels.dot, kernels.axpy, kernels.fused, kernels.passes)
print(sorted({make(8)[4] for make in makers}))
"""


def test_ceilings_are_kept_for_each_compiler(apples_clang, monkeypatch):
    measured = []

    def measure(*_):
        measured.append(ceilings.thread_counts(8))
        return vars(ceilings.Ceilings("m", "d", 8, 1.0, *([] for _ in range(5)), None, None, 1.0))

    monkeypatch.setattr(ceilings, "measure", measure)
    for _ in range(2):
        ceilings.ceilings()
        assert measured == [[1]]
    monkeypatch.delenv("CC")
    ceilings.ceilings()
    assert len(measured) == 1 + bool(native.openmp())
