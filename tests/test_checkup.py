"""helpers.checkup: everything is tested for real, and what is missing is said and not raised."""

import shutil
import sys

import pytest

from helpers import checkup as module
from helpers import cluster
from helpers.checkup import ABSENT, FAILS, WORKS, checkup, describe, installed
from helpers.machine import usable_cores
from helpers.machine.compilers import has_compiler


@pytest.mark.mpi
def test_everything_is_tested():
    found = {finding.name: finding for finding in checkup(ranks=3)}
    needed = {"Python", "NumPy and SciPy", "PyTorch", "pictures"}
    needed |= {"C++ compiler"} if has_compiler("C++") else set()
    assert {name for name in needed if found[name].status != WORKS} == set(), list(
        map(str, found.values())
    )
    assert found["MPI ranks"].status == WORKS
    assert found["MPI ranks"].detail.startswith("3 ranks, 3 processes of their own")
    assert found["MPI ranks"].detail.endswith("to 3")
    for optional in ("several hosts", "GPU", "DGL"):
        assert found[optional].status in (WORKS, ABSENT), found[optional]
    assert all("\n" not in str(finding) for finding in found.values())


def test_a_failing_test_says_so_and_the_others_go_on(monkeypatch):
    def broken():
        raise OSError("no such library\nand more")

    for name in ("_torch", "_pictures", "_ranks", "_dgl", "_gpu", "_compiler", "_hosts"):
        monkeypatch.setattr(module, name, lambda *args: "fine")
    monkeypatch.setattr(module, "_numpy", broken)
    found = list(checkup())
    assert [finding.status for finding in found].count(FAILS) == 1
    failed = next(finding for finding in found if finding.status == FAILS)
    assert (failed.name, failed.detail) == ("NumPy and SciPy", "OSError: no such library")
    assert len(found) == 9


def test_a_machine_that_may_have_no_hosts_says_what_lets_it(monkeypatch):
    def refuse(*arguments, **keywords):
        raise cluster.StartError("this system gives users no networks: 'sudo ...' does\nmore")

    monkeypatch.setattr(cluster, "Cluster", refuse)
    found = module.hosts()
    assert found.status == ABSENT
    assert found.detail.startswith("this system gives users no networks: 'sudo ...' does; what")


@pytest.mark.mpi
def test_a_link_that_is_not_used_fails(monkeypatch):
    monkeypatch.setattr(cluster, "Network", lambda hosts, rate: None)
    found = module.hosts()
    assert found.status == FAILS
    assert "two hosts have one name" in found.detail


@pytest.mark.parametrize(
    ("test", "says"),
    [("_compiler", "install g++ or clang++"), ("_gpu", "the course runs without")],
)
def test_what_is_absent_names_what_is_skipped(test, says, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(module, "gpus", list)  # an empty answer: torch may know of one
    finding = module._run("x", getattr(module, test))
    assert finding.status == ABSENT
    assert says in finding.detail


def test_a_compiler_that_fails_is_named(tmp_path, monkeypatch):
    fake = tmp_path / "c++"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "c++ 1.0" && exit 0\necho "broken" >&2; exit 1\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CXX", raising=False)
    finding = module._run("C++ compiler", module._compiler)
    assert (finding.status, finding.detail) == (FAILS, "RuntimeError: c++: broken")


def test_a_wrong_python_fails(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 2, "final", 0))
    finding = module._run("Python", module._python)
    assert (finding.status, "3.10.2" in finding.detail) == (FAILS, True)


def test_tables():
    rows = describe().splitlines()
    assert all(row.count("|") == 3 for row in rows)
    assert f"| cores this Python may use | {usable_cores()} |" in rows
    assert "numpy **" in installed()
