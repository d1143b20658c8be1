"""Cores and memory: the tightest of what system, affinity and control groups say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from helpers.machine import cgroup, facts

LIMITS = [cgroup.cpu_limit, cgroup.memory_limit, cgroup.memory_left]


@pytest.fixture
def tree(tmp_path):
    """Write files below a root; return what the limits of a process in ``groups`` are."""

    def limits(groups, **files):
        for name, text in files.items():
            path = tmp_path / "fs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        (tmp_path / "groups").write_text(groups + "\n")
        return [ask(tmp_path / "fs", tmp_path / "groups") for ask in LIMITS]

    return limits


def test_version_2_at_the_root_of_a_container(tree):
    files = {"cpu.max": "150000 100000", "memory.max": "1000", "memory.current": "700"}
    assert tree("0::/", **files, **{"memory.stat": "anon 5\ninactive_file 100"}) == [1.5, 1000, 400]


def test_version_2_counts_the_tightest_group_on_the_way_up(tree):
    files = {
        "system.slice/jupyter.service/cpu.max": "300000 100000",
        "system.slice/cpu.max": "200000 100000",
        "system.slice/jupyter.service/memory.max": "4000",
        "system.slice/jupyter.service/memory.current": "1000",
        "system.slice/memory.max": "5000",
        "system.slice/memory.current": "4500",
        "other.slice/cpu.max": "1000 100000",  # not this process's
    }
    assert tree("0::/system.slice/jupyter.service", **files) == [2.0, 4000, 500]


def test_version_1_within_a_container_that_is_told_the_hosts_path(tree):
    files = {
        "cpu/cpu.cfs_quota_us": "400000",
        "cpu/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": "3000",
        "memory/memory.usage_in_bytes": "2500",
        "memory/memory.stat": "inactive_file 10\ntotal_inactive_file 1000",
    }
    groups = "4:memory:/docker/2a9c\n2:cpu,cpuacct:/docker/2a9c\n1:name=systemd:/docker/2a9c"
    assert tree(groups, **files) == [4.0, 3000, 1500]


def test_no_limit_is_none(tree, tmp_path):
    assert [ask(tmp_path, tmp_path / "absent") for ask in LIMITS] == [None, None, None]
    assert tree("0::/") == [None, None, None]
    assert tree("0::/", **{"cpu.max": "max 100000", "memory.max": "max"}) == [None, None, None]
    unlimited = {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}
    assert tree("1:cpu:/", **unlimited)[0] is None


@pytest.mark.parametrize(
    ("quota", "cores"), [(1.0, 1), (0.2, 1), (1.6, 2), (1e6, None), (None, None)]
)
def test_a_quota_limits_the_cores(quota, cores, monkeypatch):
    monkeypatch.setattr(cgroup, "cpu_limit", lambda: quota)
    everything = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    assert facts.usable_cores() == min(cores or everything, everything)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_affinity_limits_the_cores():
    code = (
        "import os, helpers.machine as m; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(m.usable_cores())"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "1"


def test_memory_is_bytes_and_limited(monkeypatch):
    assert 0 < facts.free_memory() < facts.memory_bytes()
    monkeypatch.setattr(cgroup, "memory_limit", lambda: 1000)
    monkeypatch.setattr(cgroup, "memory_left", lambda: 10)
    assert (facts.memory_bytes(), facts.free_memory()) == (1000, 10)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "processor : 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name : A\n"
            "flags : fpu avx avx2 avx512f avx512_bf16\n\nprocessor : 1\nmodel : 18\n",
            "family 25, model 17, AVX-512, bf16",
        ),
        ("cpu family : 6\nmodel : 85\nflags : avx avx2\n", "family 6, model 85, AVX2"),
        ("processor : 0\nFeatures : fp asimd bf16\n", "NEON, bf16"),
        ("", ""),
    ],
)
def test_processors_of_one_name_are_told_apart(monkeypatch, said, expected):
    monkeypatch.setattr(facts.Path, "read_text", lambda self, **_: said)
    assert facts.cpu_details() == expected


def test_a_processors_name_has_no_trade_marks_and_no_clock(monkeypatch):
    said = "model name : Intel(R) Xeon(R) CPU  E5 @ 2.30GHz\n"
    monkeypatch.setattr(facts.Path, "read_text", lambda self, **_: said)
    assert facts.cpu_model() == "Intel Xeon E5"
