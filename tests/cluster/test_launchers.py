"""Launchers for other hosts: settings pass through to ipyparallel, and nothing is left behind.

A small ``qsub`` of our own starts what it is given, as PBS would; Slurm itself is in test_slurm.py.
"""

import os
import shlex
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from helpers.cluster import Cluster, StartError
from helpers.machine import guard
from tests.cluster.ways import PART

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]

QSUB = """#!/bin/sh
# PBS's qsub, as far as ipyparallel uses it: run the script elsewhere, print the job's number
setsid sh "$1" > {folder}/job.log 2>&1 &
echo $! > {folder}/job.pid
echo "$!.server"
"""
QDEL = """#!/bin/sh
# as PBS does: end the job with all its processes
echo "$@" > {folder}/cancelled
pkill -TERM -s "${{1%.server}}"
"""
TEMPLATE = """#!/bin/sh
{launch} {{program_and_args}}
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty IPython folder, a work folder, and programs of our own first on PATH."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def profile(home: Path, text: str) -> str:
    folder = home / "ipython" / "profile_there"
    folder.mkdir(parents=True)
    (folder / "ipcluster_config.py").write_text(f"c = get_config()\n{text}\n")
    return "there"


def program(home: Path, name: str, text: str) -> None:
    path = home / "bin" / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def check(cluster: Cluster) -> None:
    """Run code, end a deadlock, run again, on a cluster of two ranks."""
    from tests.cluster.test_cluster import notebook_function

    assert cluster.run(notebook_function("def f(): return comm.allreduce(rank)")) == [1, 1]
    cluster.restart()
    assert cluster.run(notebook_function("def f(): return rank, size")) == [(0, 2), (1, 2)]


def assert_nothing_left(home: Path) -> None:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        left = [
            process.info["cmdline"]
            for process in psutil.process_iter(["cmdline"])
            if any(str(home) in part for part in process.info["cmdline"] or [])
        ]
        if not left:
            break
        time.sleep(0.1)
    assert left == []
    assert list((home / "work").glob("ranks-*")) == []


def test_topology_files_that_nobody_needs_are_swept(tmp_path, monkeypatch):
    ages = {"hydra_hwloc_xmlfile_old": 400, "hydra_hwloc_xmlfile_dead": 20, "x": 400}
    ages["hydra_hwloc_xmlfile_new"] = 1
    for name, age in ages.items():
        path = tmp_path / name
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    monkeypatch.setattr(guard, "_proxies_started", lambda but: [time.time() - 350])
    guard.sweep_topologies(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {*ages} - {"hydra_hwloc_xmlfile_old"}
    monkeypatch.setattr(guard, "_proxies_started", lambda but: [time.time() - 10])
    guard.sweep_topologies(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hydra_hwloc_xmlfile_new", "x"]
    monkeypatch.setattr(guard, "_proxies_started", lambda but: [])
    guard.sweep_topologies(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_who_makes_topology_files_is_found(tmp_path):
    sleep = tmp_path / "hydra_pmi_proxy"
    sleep.symlink_to(shutil.which("sleep"))
    before, proxy_began = guard._proxies_started(()), time.time()
    with subprocess.Popen([sleep, "60"]) as proxy:
        deadline = time.monotonic() + 10
        while len(guard._proxies_started(())) == len(before) and time.monotonic() < deadline:
            time.sleep(0.01)  # until it is called so
        assert abs(max(guard._proxies_started(())) - time.time()) < 15
        assert max(guard._proxies_started([proxy.pid]), default=0) < proxy_began
        proxy.kill()


@PART
def test_a_launcher_of_ipyparallel_with_a_profile(home):
    mpiexec = str(Path(sys.executable).with_name("mpiexec"))
    program(home, "my-mpiexec", f'#!/bin/sh\ntouch {home}/used\nexec {mpiexec} "$@"\n')
    name = profile(home, f"c.MPILauncher.mpi_cmd = ['{home}/bin/my-mpiexec']")
    launcher = "ipyparallel.cluster.launcher.MPIEngineSetLauncher"
    with Cluster(2, launcher=launcher, profile=name) as cluster:
        check(cluster)
    assert (home / "used").exists()
    assert_nothing_left(home)


def batch(home: Path, launch: str) -> str:
    """Return a profile for a batch system whose jobs start ranks by ``launch``."""
    program(home, "qsub", QSUB.format(folder=home))
    program(home, "qdel", QDEL.format(folder=home))
    template = TEMPLATE.format(launch=launch)
    return profile(home, f"c.PBSEngineSetLauncher.batch_template = {template!r}")


@PART
def test_a_batch_system(home):
    mpiexec = shlex.quote(str(Path(sys.executable).with_name("mpiexec")))
    name = batch(home, f"{mpiexec} -n {{n}}")
    with Cluster(2, launcher="pbs", profile=name) as cluster:
        assert (home / "job.pid").exists()
        check(cluster)
    assert (home / "cancelled").exists()
    assert_nothing_left(home)


@PART
def test_ranks_that_know_nothing_of_each_other_are_told_apart_from_a_wrong_mpiexec(home):
    program(home, "alone", '#!/bin/sh\n"$@" &\n"$@" &\nwait\n')
    with pytest.raises(StartError, match=r"world of size 1.*other launchers must start"):
        Cluster(2, launcher="pbs", profile=batch(home, "alone"))
    assert_nothing_left(home)
