"""Compilers, mpiexec and the cache folder: which is taken, and what is said without one."""

import os
import stat
import sys
import tempfile

import pytest

from helpers.machine import cache
from helpers.machine.cache import cache_folder
from helpers.machine.compilers import CompilerError, compiler_version, find_compiler, has_compiler
from helpers.machine.mpi import NoMpiexecError, find_mpiexec, mpi_library


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Make programs in a folder that is all of PATH; each prints the same text."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)

    def make(*names, says=""):
        for name in names:
            (tmp_path / name).write_text(f'#!/bin/sh\necho "{says}"\n')
            (tmp_path / name).chmod(0o755)
        return [str(tmp_path / name) for name in names]

    return make


@pytest.mark.parametrize(
    ("language", "variable", "names"),
    [("C", "CC", ("cc", "gcc", "clang")), ("C++", "CXX", ("c++", "g++", "clang++"))],
)
def test_the_variable_counts_first_then_one_order(language, variable, names, programs, monkeypatch):
    with pytest.raises(CompilerError, match=rf"no {language.replace('+', '.')} compiler on PATH"):
        find_compiler(language)
    assert not has_compiler(language)
    for name in reversed(names):
        (path,) = programs(name)
        assert find_compiler(language) == path
    (mine,) = programs("my-compiler")
    monkeypatch.setenv(variable, "my-compiler")
    assert find_compiler(language) == mine
    monkeypatch.setenv(variable, "absent")
    assert find_compiler(language) == path


def test_a_version_is_one_line(programs):
    (path,) = programs("cc", says="cc 1.2\nand more")
    assert compiler_version(path) == "cc 1.2"
    (silent,) = programs("gcc")
    assert compiler_version(silent) == silent


def test_mpiexec_beside_python_counts_before_path(programs, tmp_path, monkeypatch):
    elsewhere = tmp_path / "env"
    elsewhere.mkdir()
    python = str(elsewhere / "python")
    with pytest.raises(NoMpiexecError, match=r"no mpiexec beside .*env/python and none on PATH"):
        find_mpiexec(python)
    (on_path,) = programs("mpiexec", says="mpiexec (OpenRTE) 4.1.4")
    assert find_mpiexec(python) == on_path
    monkeypatch.setattr(sys, "executable", python)
    assert mpi_library() == "Open MPI 4.1.4"
    (elsewhere / "mpiexec").touch()
    assert find_mpiexec() == str(elsewhere / "mpiexec")


@pytest.mark.parametrize(
    ("says", "name"),
    [
        ("HYDRA build details:\n    Version:     5.0.2\n", "MPICH 5.0.2"),
        ("mpiexec (Open MPI) 5.0.8\n", "Open MPI 5.0.8"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.11 Build", "Intel MPI 2021.11"),
        ("", "unknown"),
    ],
)
def test_which_mpi(says, name, programs, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/absent/python")
    assert mpi_library() == ""
    programs("mpiexec", says=says)
    assert mpi_library() == name


def test_where_the_home_cannot_be_written_the_cache_is_private(tmp_path, monkeypatch):
    (tmp_path / "home").touch()  # no folder can be made below a file, even by root
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cache._temporary.cache_clear()
    folder = cache_folder("c")
    assert folder == tmp_path / f"parallel-deep-learning-{os.getuid()}" / "c"
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    folder.parent.chmod(0o777)  # others could leave code there
    cache._temporary.cache_clear()
    other = cache_folder("c")
    assert other.parent != folder.parent
    assert stat.S_IMODE(other.parent.stat().st_mode) == 0o700
    assert cache_folder("c") == other
    cache._temporary.cache_clear()
