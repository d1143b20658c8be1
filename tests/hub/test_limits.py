"""The hub's control groups, on folders that look like those of either version."""

import importlib.util
import os
import shutil
import subprocess

import pytest

from helpers.paths import ROOT

SPEC = importlib.util.spec_from_file_location("limits", ROOT / "deploy/jupyterhub/limits.py")
limits = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(limits)


@pytest.fixture
def second(tmp_path):
    """A tree of version 2, in which this process is a service of systemd."""
    membership = tmp_path / "membership"
    membership.write_text("0::/system.slice/hub.service\n")
    base = tmp_path / "system.slice" / "hub.service"
    base.mkdir(parents=True)
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids")
    (base / "cgroup.procs").write_text("17\n")
    return tmp_path, membership, base


def test_version_2_has_one_group_for_all_and_moves_the_hub_out_of_the_way(second):
    mount, membership, base = second
    (base / "hub").mkdir()
    assert limits.folders(mount, membership) == {"": base}
    group = limits.Group("ada", {"": base})
    group.limit(1 << 30, 1.5)
    assert (base / "hub" / "cgroup.procs").read_text() == "17"
    assert (base / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (base / "student-ada" / "memory.max").read_text() == str(1 << 30)
    assert (base / "student-ada" / "cpu.max").read_text() == "150000 100000"
    group.limit(None, None)
    assert (base / "student-ada" / "memory.max").read_text() == "max"
    assert (base / "student-ada" / "cpu.max").read_text() == "max 100000"


def test_a_hub_that_starts_again_within_its_own_group_finds_the_same_place(second):
    mount, membership, base = second
    (base / "hub").mkdir()
    membership.write_text("0::/system.slice/hub.service/hub\n")
    assert limits.folders(mount, membership) == {"": base}


def test_version_1_has_a_group_for_each_controller(tmp_path):
    membership = tmp_path / "membership"
    membership.write_text("4:memory:/box\n2:cpu,cpuacct:/\n0::/\n")
    (tmp_path / "memory" / "box").mkdir(parents=True)
    (tmp_path / "cpu").mkdir()
    where = limits.folders(tmp_path, membership)
    assert where == {"cpu": tmp_path / "cpu", "memory": tmp_path / "memory" / "box"}
    limits.Group("ada", where).limit(1 << 30, 2)
    ours = tmp_path / "memory" / "box" / "student-ada"
    assert (ours / "memory.limit_in_bytes").read_text() == str(1 << 30)
    assert (tmp_path / "cpu/student-ada/cpu.cfs_quota_us").read_text() == "200000"


def test_without_control_groups_there_is_no_place(tmp_path):
    membership = tmp_path / "membership"
    membership.write_text("0::/\n")
    assert limits.folders(tmp_path, membership) == {}


def test_what_is_left_in_a_group_is_killed(tmp_path):
    process = subprocess.Popen(["sleep", "60"])
    group = limits.Group("ada", {"": tmp_path})
    folder = tmp_path / "student-ada"
    folder.mkdir()
    (folder / "cgroup.procs").write_text(f"{process.pid}\n")
    assert group.members() == [process.pid]
    assert group.end(seconds=0.1) == [process.pid]  # the file stays as it is: no kernel keeps it
    assert process.wait(10) == -9
    (folder / "cgroup.procs").unlink()
    assert group.end() == []
    assert not folder.exists()
    assert os.listdir(tmp_path) == []


def test_the_unit_for_systemd_is_one(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze on this machine: Debian's package systemd has it")
    unit = tmp_path / "course-hub.service"
    text = (ROOT / "deploy" / "jupyterhub" / "course-hub.service").read_text(encoding="utf-8")
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert "course-hub" not in done.stderr, done.stderr
    unit.write_text(text.replace("KillMode=mixed", "KilMode=mixd"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert "KilMode" in done.stderr
