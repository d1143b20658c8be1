"""The processes of a cluster whose ranks are not forked: by mpiexec, Slurm, ssh or ipyparallel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.cluster.wishes import Wishes

if TYPE_CHECKING:
    from helpers.cluster.processes import Processes


def launched(launcher: str, n: int, threads: int, profile: str | None, wishes: Wishes) -> Processes:
    """Return the processes of ``"mpiexec"``, ``"slurm"``, ``"ssh"`` or ipyparallel's launcher."""
    if launcher == "slurm":
        from helpers.cluster.slurm.processes import SlurmProcesses

        return SlurmProcesses(n, threads, profile, wishes)
    if launcher == "ssh":
        from helpers.cluster.ssh import SshProcesses

        return SshProcesses(n, threads, profile, wishes)
    if launcher == "mpiexec":
        from helpers.cluster.guarded import LocalProcesses

        return LocalProcesses(n, threads, profile)
    from helpers.cluster.launch import LaunchedProcesses

    return LaunchedProcesses(n, launcher, profile, threads)
