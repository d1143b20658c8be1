"""Ranks that are started afresh, without mpiexec: the way of macOS, forced here."""

import os
import sys

import psutil
import pytest

from helpers.cluster import Cluster, Network, RankDiedError, Spawned, StartError
from helpers.cluster.start import forked
from tests.cluster.test_cluster import on_ranks
from tests.cluster.test_forkserver import left_by_ranks_of
from tests.cluster.ways import PART, eventually


@pytest.fixture
def known(monkeypatch):
    """A kernel that knows of no obstacle, and whose environment asks for nothing."""
    monkeypatch.setattr(forked, "_obstacle", [])
    monkeypatch.delenv(forked.VARIABLE, raising=False)
    return monkeypatch


def test_the_way_follows_the_system_the_library_and_the_environment(known):
    known.setattr(sys, "platform", "linux")
    assert forked.way_here() == "fork"
    known.setattr(sys, "platform", "darwin")
    assert forked.way_here() == "spawn"
    forked.remember_not_to_fork_here("forked ranks need MPICH, and mpi4py uses Open MPI")
    assert forked.way_here() == "mpiexec"
    known.setenv(forked.VARIABLE, "spawn")
    assert forked.way_here() == "spawn"
    known.setenv(forked.VARIABLE, "slurm")
    assert forked.way_here() == "slurm"
    known.setenv(forked.VARIABLE, "threads")
    expected = "COURSE_RANKS='threads': expected fork, spawn, mpiexec or slurm"
    with pytest.raises(StartError, match=expected):
        forked.way_here()


def test_the_environment_sends_a_notebooks_ranks_to_slurm(known, tmp_path):
    known.setenv(forked.VARIABLE, "slurm")
    known.setenv("PATH", str(tmp_path))
    known.chdir(tmp_path)
    known.setattr("helpers.cluster.start.slurm.mpi_library", lambda: "")
    with pytest.raises(StartError, match=r"no program srun here: Slurm\(\) is for"):
        Cluster(2)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StartError, match="COURSE_RANKS='slurm', and it needs a fork"):
        Cluster(2, network=Network(hosts=2))


@pytest.mark.mpi
@PART
def test_a_life_of_fresh_ranks(known):
    known.setenv(forked.VARIABLE, "spawn")
    with Cluster(2) as cluster:
        server = psutil.Process(cluster.pids[0]).parent()
        assert server.ppid() == os.getpid()
        ranks = [psutil.Process(pid) for pid in cluster.pids]
        assert all("helpers.cluster.start.forkserver.birth" in each.cmdline() for each in ranks)
        body = "import os; return comm.allreduce(rank), size, os.environ['OMP_NUM_THREADS']"
        assert on_ranks(cluster, body) == [(1, 2, "1")] * 2
        below = [server, *server.children(recursive=True)]
        ports = [c for process in below for c in process.net_connections("inet")]
        assert [c for c in ports if c.status == psutil.CONN_LISTEN] == []
        assert left_by_ranks_of(server.pid) == []
        body = "import subprocess; return subprocess.Popen(['sleep', '600']).pid"
        started = on_ranks(cluster, body)
        body = "import os\nif rank == 1: os.kill(os.getpid(), 9)\ncomm.recv(source=1)"
        with pytest.raises(RankDiedError, match=r"Rank 1 died, killed by signal 9"):
            on_ranks(cluster, body)
        assert on_ranks(cluster, "return comm.allreduce(1)") == [2, 2]
        assert psutil.Process(cluster.pids[0]).parent() == server
        assert eventually(lambda: not any(map(psutil.pid_exists, started)))
        alive = [psutil.Process(pid) for pid in cluster.pids]
        server.kill()  # nobody tells the ranks to end: they see it themselves
        _, alive = psutil.wait_procs(alive, timeout=10)
        assert alive == []
        with pytest.raises(RankDiedError, match="process that forks them has ended"):
            on_ranks(cluster, "return rank")
        assert on_ranks(cluster, "return comm.allreduce(1)") == [2, 2]
        server = psutil.Process(cluster.pids[0]).parent()
        folder = cluster._processes.folder
    assert not folder.exists()
    assert eventually(lambda: not server.is_running())


@pytest.mark.mpi
@PART
def test_what_fresh_ranks_cannot_have_is_said(known):
    with (
        pytest.warns(UserWarning, match=r"changes nothing here.*Spawned"),
        Cluster(1, start=Spawned(), preload=("json",)) as cluster,
    ):
        assert on_ranks(cluster, "return size") == [1]
