"""Limits of control groups, from trees of files as both versions of Linux lay them out."""

import pytest

from helpers.machine import cgroup

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


def test_no_limit_is_none(tree):
    assert tree("0::/") == [None, None, None]
    assert tree("0::/", **{"cpu.max": "max 100000", "memory.max": "max"}) == [None, None, None]
    unlimited = {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}
    assert tree("1:cpu:/", **unlimited)[0] is None


def test_a_system_without_control_groups(tmp_path):
    assert [ask(tmp_path, tmp_path / "absent") for ask in LIMITS] == [None, None, None]
