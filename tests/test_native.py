"""helpers.native: compile, keep, refuse."""

import ctypes

import pytest

from helpers import native
from helpers.machine.compilers import has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no C compiler")


def test_compile_and_call(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = native.load_c("int twice(int x) { return 2 * x; }")
    assert library.twice(21) == 42
    made = list((tmp_path / "parallel-deep-learning" / "c").iterdir())
    assert len(made) == 1
    stamp = made[0].stat().st_mtime_ns
    native.load_c("int twice(int x) { return 2 * x; }")
    assert made[0].stat().st_mtime_ns == stamp  # kept, not compiled again


def test_flags_are_part_of_the_name(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = "int value(void) { return VALUE; }"
    libraries = [native.load_c(text, (f"-DVALUE={v}",)) for v in (1, 2)]
    assert [library.value() for library in libraries] == [1, 2]


def test_the_compiler_is_quoted(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(native.CompilerError, match="nonsense"):
        native.load_c("nonsense")
    assert not list(tmp_path.rglob("*.so"))


def test_types():
    half = native.load_c("double half(double x) { return x / 2; }").half
    half.restype, half.argtypes = ctypes.c_double, (ctypes.c_double,)
    assert half(5.0) == 2.5
