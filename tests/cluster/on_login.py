"""What tests do on the login host of a lab: each function runs in a process of its own there.

``python -m tests.cluster.on_login FUNCTION [ARGUMENTS]`` prints what it returns, as JSON, last.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from helpers.cluster import Cluster, ClusterError, Slurm, Ssh
from helpers.cluster.kernel.starting import Progress
from tests.cluster.test_cluster import on_ranks

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


def failure(call, *args, **options) -> tuple[str, str]:
    """Return kind and message of what a call raises."""
    try:
        call(*args, **options)
    except (ClusterError, KeyboardInterrupt, ValueError) as error:
        return type(error).__name__, str(error)
    return "", ""


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


def one_world() -> dict:
    """Start, ask each rank who it is, stop."""
    with slurm(partition="short", time_limit=5) as cluster:
        told = {
            "world": on_ranks(cluster, WORLD),
            "hosts": cluster.hosts,
            "listens": listening(cluster),
            "job": asked("squeue", "--noheader", "--format=%P %l %T", f"--jobs={job_of(cluster)}"),
            "key": oct(os.stat(folder_of(cluster)).st_mode & 0o777),
        }
    return told | {"left": left()}


def started() -> dict:
    """Say what starts the ranks, and which world they see, twice."""
    with slurm() as cluster:
        how = cluster._processes._launch.split()[0], cluster._processes._mpi
        first = on_ranks(cluster, WORLD)
        cluster.restart()
        return {"how": how, "world": [first, on_ranks(cluster, WORLD)], "is": repr(cluster)}


def restarts() -> dict:
    """Lose the ranks in all ways that keep the job."""
    with slurm() as cluster:
        job, before = job_of(cluster), cluster.pids
        cluster.restart()
        restarted = not set(before) & set(cluster.pids)
        stuck = failure(
            on_ranks, cluster, "return comm.recv(source=5) if rank == 3 else None", timeout=2
        )
        works = [on_ranks(cluster, "return comm.allreduce(1)")]
        body = "import os\nif rank == 4: os.kill(os.getpid(), 9)\ncomm.Barrier()"
        dead = failure(on_ranks, cluster, body)
        works.append(on_ranks(cluster, "return comm.allreduce(1)"))
        later(2, os.kill, os.getpid(), signal.SIGINT)
        interrupted = failure(on_ranks, cluster, OFTEN)
        works.append(on_ranks(cluster, "return comm.allreduce(1)"))
        same = job == job_of(cluster)
    return {
        "restarted": restarted,
        "stuck": stuck,
        "dead": dead,
        "interrupted": interrupted,
        "works": works,
        "same job": same,
        "left": left(),
    }


def waits() -> dict:
    """Wait in a queue: give up once it has been shown, then wait to the end."""
    said: list[str] = []
    shown = threading.Event()

    def show(progress: Progress, text: str) -> None:
        if text not in said:
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
    interrupted = failure(Cluster, 6, start=Slurm())
    gave_up, after = list(said), left()
    said.clear()
    once_shown(asked, "scancel", first)
    with Cluster(6, start=Slurm(), start_timeout=30) as cluster:
        world = on_ranks(cluster, "return comm.allreduce(1)")
    return {
        "interrupted": interrupted,
        "gave up": gave_up,
        "after": after,
        "said": list(said),
        "second": asked("scontrol", "show", "job", second).count("JobState=COMPLETED"),
        "world": world,
        "left": left(),
    }


def ends(*how: str) -> dict:
    """Have somebody else end the job, while the ranks work and while they do not."""
    with slurm() as cluster:
        later(2, asked, *how, job_of(cluster))
        busy = failure(on_ranks, cluster, OFTEN, timeout=60)
        queue = asked("squeue", "--noheader")  # no other job before somebody wants one
        works = [on_ranks(cluster, "return comm.allreduce(1)")]
        asked(*how, job_of(cluster))
        idle = failure(on_ranks, cluster, WORLD)
        works.append(on_ranks(cluster, "return comm.allreduce(1)"))
    return {"busy": busy, "queue": queue, "idle": idle, "works": works, "left": left()}


def loses_a_node() -> dict:
    """Say that a node may be lost now, and what was seen of it."""
    with Cluster(8, start=Slurm()) as cluster:  # on two of the three
        told = cluster.hosts
        print("now", flush=True)
        lost = failure(on_ranks, cluster, OFTEN + "\ncomm.Barrier()", timeout=60)
        world = on_ranks(cluster, WORLD)
    return {"lost": lost, "world": world, "before": told}


def is_killed(kind: str) -> None:
    """Wait with a cluster until somebody kills this process."""
    with Cluster(4, start=Ssh(("host1", "host2")) if kind == "ssh" else Slurm()) as cluster:
        on_ranks(cluster, WORLD)
        print("now", flush=True)
        time.sleep(600)


def refusals() -> dict:
    """Ask for what Slurm does not give."""
    return {
        "partition": failure(Cluster, 2, start=Slurm(partition="none")),
        "size": failure(Cluster, 13, start=Slurm()),
        "time": failure(Cluster, 2, start=Slurm(partition="short", time_limit="20")),
        "left": left(),
    }


# -- what is built on ranks ----------------------------------------------------------------------


def traces() -> dict:
    """Record a chain of messages across the nodes by the magic, as a reader does."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    with slurm() as cluster:
        shell.push({"cluster": cluster})
        shell.run_cell("%load_ext helpers.cluster").raise_error()
        cell = (
            "%%ranks --trace chain\n"
            "if rank:\n    comm.recv(source=rank - 1)\n"
            "if rank < size - 1:\n    comm.send(rank, dest=rank + 1)"
        )
        shell.run_cell(cell).raise_error()
        chain = shell.user_ns["chain"]
        clocks = cluster.clocks()
    return {
        "messages": [(m.source, m.dest, m.begin, m.end) for m in chain.messages],
        "offsets": [(abs(clock.offset), clock.uncertainty) for clock in clocks.values()],
    }


def notebook(name: str) -> dict:
    """Execute a reader's notebook, whose ranks the environment sends to Slurm."""
    from tools import run

    done = run.execute(run.location(name, "reader"), "reader")
    said = [str(output.get("text", "")) for cell in done.notebook.cells
            for output in cell.get("outputs", [])]  # fmt: skip
    jobs = asked("squeue", "--noheader", "--states=all", "--format=%j %C %P %a %l").splitlines()
    return {"problems": done.problems, "said": "".join(said), "jobs": jobs, "left": left()}


# -- ssh -----------------------------------------------------------------------------------------


def by_ssh() -> dict:
    """Five ranks on two hosts: a world, a deadlock, a death, a restart."""
    with Cluster(5, start=Ssh(("host1", "host2"))) as cluster:
        world = on_ranks(cluster, WORLD)
        listens = listening(cluster)
        stuck = failure(
            on_ranks, cluster, "return comm.recv(source=1) if rank == 4 else 0", timeout=2
        )
        works = [on_ranks(cluster, "return comm.allreduce(1)")]
        body = "import os\nif rank == 3: os.kill(os.getpid(), 9)\ncomm.Barrier()"
        dead = failure(on_ranks, cluster, body)
        works.append(on_ranks(cluster, "return comm.allreduce(1)"))
    return {
        "world": world,
        "listens": listens,
        "stuck": stuck,
        "works": works,
        "dead": dead,
        "left": left(),
    }


def ssh_refusals() -> dict:
    """Name a host that is not there, and one without the folders."""
    unknown = failure(Cluster, 2, start=Ssh(("host1", "host9")))
    os.chdir("/dev/shm")  # each host has its own
    try:
        own = failure(Cluster, 2, start=Ssh(("host1",)))
        return {"own": own, "unknown": unknown, "left": left()}
    finally:
        os.chdir("/")


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
