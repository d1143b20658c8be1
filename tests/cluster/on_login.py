"""What is tested on the login host of a lab: each function runs in a process of its own there.

``python -m tests.cluster.on_login FUNCTION [ARGUMENTS]`` ends with an error if something fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from helpers.cluster import (
    Cluster,
    RankDiedError,
    RanksInterrupted,
    RankTimeoutError,
    Slurm,
    Ssh,
    StartError,
)
from helpers.cluster.kernel.starting import Progress
from tests.cluster.test_cluster import on_ranks

SIX = [(rank, 6, 15, f"host{1 + rank // 2}") for rank in range(6)]
CONTROLLER = ["10.77.0.1", "127.0.0.1"]  # where it listens: no other network
WORLD = "return rank, size, comm.allreduce(rank), MPI.Get_processor_name()"
QUEUED = "waits in Slurm's queue 'normal', place 2 of 2 ("
OFTEN = "import time\nfor _ in range(600): time.sleep(0.1)"


def asked(*command: str) -> str:
    """Return what a program writes."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def later(seconds: float, function, *args) -> None:
    """Call a function in a while."""
    timer = threading.Timer(seconds, function, args)
    timer.daemon = True
    timer.start()


def same(found, expected) -> None:
    """Assert it, and show what was found: no pytest does."""
    assert found == expected, found


def works(cluster) -> None:
    """Check that all ranks are one world."""
    same(on_ranks(cluster, "return comm.allreduce(1)"), [cluster.n] * cluster.n)


def dies(cluster, rank: int, host: str) -> None:
    """Kill a rank, whose host is named; the next call has ranks again."""
    body = f"import os\nif rank == {rank}: os.kill(os.getpid(), 9)\ncomm.Barrier()"
    with pytest.raises(RankDiedError, match=f"^Rank {rank} died, on {host}, killed by signal 9"):
        on_ranks(cluster, body)
    works(cluster)


def is_stuck(cluster, rank: int, source: int, said: str) -> None:
    """Let a rank wait for ever: both hosts are named; the next call has ranks again."""
    body = f"return comm.recv(source={source}) if rank == {rank} else 0"
    with pytest.raises(RankTimeoutError, match=said):
        on_ranks(cluster, body, timeout=2)
    works(cluster)


def left() -> list[str]:
    """Return the folders of clusters and the jobs that are still there."""
    jobs = asked("squeue", "--noheader", "--format=%j %T").splitlines()
    return [job for job in jobs if job.startswith("ranks-")] + [
        str(p) for p in Path().glob("ranks-*")
    ]


@contextlib.contextmanager
def slurm(**options):
    """Six ranks on three nodes."""
    with Cluster(6, start=Slurm(options=("--ntasks-per-node=2",), **options)) as cluster:
        yield cluster


def job_of(cluster) -> str:
    """Return the number of a cluster's job."""
    (number,) = asked("squeue", "--noheader", "--format=%i", f"--name={folder_of(cluster)}").split()
    return number


def folder_of(cluster) -> str:
    """Return the name of a cluster's folder, which is its job's too."""
    return cluster._processes.folder.name


def listening(cluster) -> list[str]:
    """Return the addresses at which the cluster's controller listens."""
    import psutil

    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it just ended
            if "ipyparallel.controller" not in process.cmdline():
                continue  # MPICH's mpiexec listens everywhere, for its own helpers
            found |= {c.laddr.ip for c in process.net_connections("tcp") if c.status == "LISTEN"}
    return sorted(found)


# -- Slurm ---------------------------------------------------------------------------------------


def one_world() -> None:
    """Start, ask each rank who it is, stop."""
    with slurm(partition="short", time_limit=5) as cluster:
        same(on_ranks(cluster, WORLD), SIX)
        same(cluster.hosts, [host for *_, host in SIX])
        same(listening(cluster), CONTROLLER)
        job = asked("squeue", "--noheader", "--format=%P %l %T", f"--jobs={job_of(cluster)}")
        same(job, "short 5:00 RUNNING")
        same(os.stat(folder_of(cluster)).st_mode & 0o777, 0o700)


def by_pmix() -> None:
    """Ranks of Open MPI see one world, twice."""
    with slurm() as cluster:
        same(cluster._processes._launch.split()[0], "srun")
        same(cluster._processes._mpi, "pmix")
        assert "Open MPI" in repr(cluster)
        same(on_ranks(cluster, WORLD), SIX)
        cluster.restart()
        same(on_ranks(cluster, WORLD), SIX)


def restarts() -> None:
    """Lose the ranks in all ways that keep the job."""
    with slurm() as cluster:
        job, before = job_of(cluster), cluster.pids
        cluster.restart()
        assert not set(before) & set(cluster.pids)
        is_stuck(cluster, 3, 5, r"3 \(host2\)  recv   rank 5 \(host3\)")
        dies(cluster, 4, "host3")
        later(2, os.kill, os.getpid(), signal.SIGINT)
        with pytest.raises(RanksInterrupted):
            on_ranks(cluster, OFTEN)
        works(cluster)
        same(job, job_of(cluster))


def waits() -> None:
    """Wait in a queue: give up once it has been shown, then wait to the end."""
    said: list[str] = []
    shown = threading.Event()

    def show(progress: Progress, text: str) -> None:
        said.append(text)
        if QUEUED in text:
            shown.set()

    def once_shown(function, *args) -> None:
        shown.clear()
        threading.Thread(target=lambda: shown.wait(60) and function(*args), daemon=True).start()

    Progress._show = show
    block = ["sbatch", "--parsable", "--exclusive", "--nodes=3", "--output=/dev/null"]
    first = asked(*block, "--wrap=sleep 1000")
    second = asked(*block, "--wrap=true")
    while "RUNNING" not in asked("squeue", "--noheader", "--format=%T", f"--jobs={first}"):
        time.sleep(0.1)
    once_shown(os.kill, os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        Cluster(6, start=Slurm())
    same(left(), [])
    assert any(QUEUED in line for line in said), said
    said.clear()
    once_shown(asked, "scancel", first)
    with Cluster(6, start=Slurm(), start_timeout=30) as cluster:
        works(cluster)
    assert any(QUEUED in line for line in said), said
    # what waited before it came first
    assert "JobState=COMPLETED" in asked("scontrol", "show", "job", second)


def ends() -> None:
    """Have somebody else end the job, while the ranks work and while they do not."""
    said = r"(?s)^The ranks were lost: Slurm's job .*was cancelled.*the next cell asks Slurm"
    with slurm() as cluster:
        later(2, asked, "scancel", job_of(cluster))
        with pytest.raises(RankDiedError, match=said):
            on_ranks(cluster, OFTEN, timeout=60)
        same(asked("squeue", "--noheader"), "")  # no other job before somebody wants one
        works(cluster)
        asked("scancel", job_of(cluster))
        with pytest.raises(RankDiedError, match=said):
            on_ranks(cluster, WORLD)
        works(cluster)


def loses_a_node() -> None:
    """Say that a node may be lost now: it is named, and not asked for again."""
    with Cluster(8, start=Slurm()) as cluster:  # on two of the three
        same(cluster.hosts, ["host1"] * 4 + ["host2"] * 4)
        print("now", flush=True)
        said = "^Rank [4-7] died, on host2, .*the controller hears no more of it"
        with pytest.raises(RankDiedError, match=said):
            on_ranks(cluster, OFTEN + "\ncomm.Barrier()", timeout=60)
        world = on_ranks(cluster, WORLD)
        same([rank for rank, *_ in world], list(range(8)))
        same({host for *_, host in world}, {"host1", "host3"})


def is_killed(kind: str) -> None:
    """Wait with a cluster until somebody kills this process."""
    with Cluster(4, start=Ssh(("host1", "host2")) if kind == "ssh" else Slurm()) as cluster:
        on_ranks(cluster, WORLD)
        print("now", flush=True)
        time.sleep(600)


def refusals() -> None:
    """Ask for what Slurm does not give: it is said in its words."""
    said = "^Slurm does not take the job: .*invalid partition specified: none"
    with pytest.raises(StartError, match=f"(?s){said}"):
        Cluster(2, start=Slurm(partition="none"))
    # it takes these, and never begins them
    with pytest.raises(StartError, match="it would wait for ever: PartitionConfig"):
        Cluster(13, start=Slurm())
    with pytest.raises(StartError, match="it would wait for ever: PartitionTimeLimit"):
        Cluster(2, start=Slurm(partition="short", time_limit="20"))


def notebook(name: str) -> None:
    """Execute a reader's notebook, whose ranks the environment sends to Slurm."""
    from tools import run

    done = run.execute(run.location(name, "reader"), "reader")
    assert not done.problems, done.problems
    said = [str(output.get("text", "")) for cell in done.notebook.cells
            for output in cell.get("outputs", [])]  # fmt: skip
    if name.startswith("08"):  # its hosts: from a record
        assert "COURSE_RANKS='slurm', and it needs a fork" in "".join(said)
    jobs = asked("squeue", "--noheader", "--states=all", "--format=%j %C %P %a %l").splitlines()
    assert any(re.fullmatch(r"ranks-\w+ 4 spread me 40:00", job) for job in jobs), jobs


# -- ssh -----------------------------------------------------------------------------------------


def by_ssh() -> None:
    """Five ranks on two hosts, in blocks: a world, a deadlock, a death, a restart."""
    with Cluster(5, start=Ssh(("host1", "host2"))) as cluster:
        hosts = ["host1"] * 3 + ["host2"] * 2
        same(on_ranks(cluster, WORLD), [(rank, 5, 10, hosts[rank]) for rank in range(5)])
        same(listening(cluster), CONTROLLER)
        is_stuck(cluster, 4, 1, r"4 \(host2\)  recv   rank 1 \(host1\)")
        dies(cluster, 3, "host2")


def ssh_refusals() -> None:
    """Name a host that is not there, and one without the folders."""
    with pytest.raises(StartError, match=r"(?s)^ssh does not reach host9 .*Could not resolve"):
        Cluster(2, start=Ssh(("host1", "host9")))
    os.chdir("/dev/shm")  # each host has its own
    with pytest.raises(StartError, match=r"^host1 does not see "):
        Cluster(2, start=Ssh(("host1",)))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    assert left() == [] or sys.argv[1] == "loses_a_node"  # whose job Slurm still completes
