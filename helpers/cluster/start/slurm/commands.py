"""What Slurm's programs are asked, and what they answer."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Collection
from dataclasses import dataclass

from helpers.cluster.errors import StartError

SECONDS = 15.0  # until a program of Slurm's has answered; by default it asks twice for 10 s
QUEUED = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
ENDED = {  # Slurm's word for how a job ended, and ours
    "BOOT_FAIL": "got nodes that did not start",
    "CANCELLED": "was cancelled",
    "COMPLETED": "has ended",
    "COMPLETING": "is being ended",
    "DEADLINE": "could not be ready by its deadline",
    "FAILED": "failed",
    "NODE_FAIL": "lost a node",
    "OUT_OF_MEMORY": "used more memory than it had asked for",
    "PREEMPTED": "had to make room for another job",
    "REVOKED": "was taken over by another cluster",
    "TIMEOUT": "reached its time limit",
    "GONE": "is no longer known to Slurm",
}
NEVER = {  # reasons that no waiting removes
    "AccountNotAllowed",
    "BadConstraints",
    "InvalidAccount",
    "InvalidQOS",
    "PartitionConfig",  # more than the partition has
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "QOSNotAllowed",
}


class SlurmError(Exception):
    """A program of Slurm's failed; the message is what it said."""


@dataclass(frozen=True)
class Told:
    """What Slurm says of a job; its `state` is ``"GONE"`` if Slurm knows no such job."""

    state: str = "PENDING"
    reason: str = ""
    partition: str = ""

    @property
    def queued(self) -> bool:
        """Whether it waits."""
        return self.state in QUEUED

    @property
    def hopeless(self) -> bool:
        """Whether it would wait for ever."""
        return self.queued and self.reason in NEVER

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.state in ENDED


def run(*command: str, seconds: float = SECONDS) -> str:
    """Run a program of Slurm's; return what it wrote, on either stream.

    Raise StartError if there is no such program, SlurmError if it failed or took longer.
    """
    try:
        done = subprocess.run(
            command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            start_new_session=True,  # the reader's interrupt is for us
        )
    except FileNotFoundError:
        raise StartError(
            f"no program {command[0]} here: Slurm() is for a login host of a cluster that "
            "runs Slurm"
        ) from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} did not answer within {seconds:g} s") from None
    if done.returncode:
        lines = done.stdout.strip().splitlines()
        raise SlurmError("\n".join(lines) or f"{command[0]}: exit code {done.returncode}")
    return done.stdout


def environment() -> dict[str, str]:
    """Return this environment without what a job around this process says of its size."""
    keep = {"SLURM_CONF", "SLURM_MPI_TYPE"}
    return {
        name: value
        for name, value in os.environ.items()
        if name in keep or not name.startswith("SLURM_")
    }


def starter(n: int, library: str, mpiexec: str) -> tuple[str, str]:
    """Return a command that starts ranks which hear of each other, and ``srun``'s ``--mpi``.

    Raise StartError if this Slurm speaks no language that this MPI understands.
    """
    try:
        offered = run("srun", "--mpi=list").split()
    except SlurmError as error:
        raise StartError(f"Slurm does not answer: {error}") from None
    if library.startswith("MPICH") and mpiexec:
        # its mpiexec has srun start one process on each node, and tells the ranks itself: Slurm's
        # pmi2 reads 1024 bytes at once, and a line of MPICH's may be longer (pmodels/mpich 6924)
        return f"{shlex.quote(mpiexec)} -launcher slurm -n {n}", "none"
    return "srun", choose(offered, library)


def choose(offered: Collection[str], library: str) -> str:
    """Choose a word of ``srun --mpi=list`` that an MPI understands; raise StartError if none is.

    >>> choose(["none", "pmix", "pmi2"], "Intel MPI"), choose(["pmix_v4", "pmi2"], "Open MPI 5")
    ('pmi2', 'pmix_v4')
    """
    pmix = sorted((name for name in offered if name.startswith("pmix")), key=len)
    pmi2 = [name for name in ("pmi2", "cray_shasta") if name in offered]
    # Open MPI 5 knows nothing but PMIx; the others learnt it late
    fitting = pmix if library.startswith("Open MPI") else pmi2 + pmix
    if not fitting:
        needed = "pmix" if library.startswith("Open MPI") else "pmi2 or pmix"
        raise StartError(
            f"{library or 'MPI'} on this Slurm: its ranks need {needed} to hear of each other, "
            f"and 'srun --mpi=list' says {' '.join(offered)!r}"
        )
    return fitting[0]


def look(job: str) -> Told:
    """Ask how a job stands."""
    try:
        said = run("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T|%r|%P")
    except SlurmError as error:
        if "Invalid job id" in str(error):
            return Told("GONE")
        raise
    lines = [line for line in said.splitlines() if line.count("|") >= 2]
    if not lines:
        return Told("GONE")
    state, reason, partition = lines[0].strip().split("|", 2)
    return Told(state, "" if reason == "None" else reason.strip("()"), partition)


def place(job: str, partition: str) -> tuple[int, int] | None:
    """Return a job's place in its queue, from 1, and how many wait; None if it does not wait."""
    asked = ["--noheader", "--states=PENDING", "--sort=-p,i", "--format=%i"]
    waiting = run("squeue", *asked, f"--partition={partition}").split()
    return (waiting.index(job) + 1, len(waiting)) if job in waiting else None


def addresses() -> list[str]:
    """Return the names or addresses under which Slurm reaches the nodes, in its order."""
    try:
        return list(dict.fromkeys(run("sinfo", "--noheader", "--Node", "--format=%o").split()))
    except SlurmError:
        return []
