"""Ranks that a Slurm starts on a cluster's nodes: one job, which outlives restarts of the ranks.

The controller is on this host; ``job`` is the job, ``commands`` what Slurm's programs are asked.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from helpers.cluster.errors import StartError, words
from helpers.cluster.rank import state
from helpers.cluster.start.guarded import GuardedProcesses, address_towards
from helpers.cluster.start.processes import Processes
from helpers.cluster.start.slurm import commands
from helpers.cluster.start.slurm.job import Job, script
from helpers.machine.mpi import find_mpiexec, mpi_library

EXIT_SECONDS = 0.5  # how often a folder that many hosts share is looked into
ANOTHER_JOB = "All variables on the ranks are gone; the next cell asks Slurm for another job."
KEEPER = "trap 'scancel \"$0\"; exit' TERM; while :; do sleep 3600 & wait $!; done"
TIME = re.compile(r"(\d+-)?\d+(:\d\d){0,2}")


@dataclass(frozen=True)
class Slurm:
    """Ranks that are one job of Slurm's, whose nodes it keeps when ranks are restarted.

    `partition` and `account` are names that Slurm knows, `time_limit` is a time such as
    ``"1:30:00"`` or a number of minutes, and `options` are more for sbatch, such as
    ``("--nodes=2", "--exclusive")``. What is not given, Slurm's own variables say, such as
    ``SBATCH_PARTITION``.
    """

    partition: str | None = None
    account: str | None = None
    time_limit: str | int | None = None
    options: Iterable[str] = ()
    way: ClassVar[str] = "slurm"
    most: ClassVar[int] = 100_000

    def __post_init__(self) -> None:
        for name, value in (("partition", self.partition), ("account", self.account)):
            if value is not None and not (isinstance(value, str) and value.strip()):
                raise ValueError(f"{name}={value!r}: expected a name that Slurm knows")
        if self.time_limit is not None and not TIME.fullmatch(str(self.time_limit)):
            raise ValueError(
                f"time_limit={self.time_limit!r}: expected minutes, or text as Slurm writes it: "
                "'1:30:00' for an hour and a half, '2-0' for two days"
            )
        options = words("options", self.options, "options of sbatch, such as ('--nodes=2',)")
        object.__setattr__(self, "options", options)

    def processes(self, n: int, threads: int) -> Processes:
        """Return the processes of a cluster, not yet started."""
        return SlurmProcesses(n, threads, self)

    def arguments(self) -> list[str]:
        """Return what sbatch is told."""
        named = {"partition": self.partition, "account": self.account, "time": self.time_limit}
        given = [f"--{name}={value}" for name, value in named.items() if value is not None]
        return [*given, *self.options]


class SlurmProcesses(GuardedProcesses):
    """A controller here, and a job of Slurm's that keeps its nodes when ranks are restarted."""

    def __init__(self, n: int, threads: int, asked: Slurm) -> None:
        library = mpi_library()
        path = find_mpiexec() if library else ""
        self._launch, self._mpi = commands.starter(n, library, path)  # before anything is made
        super().__init__(n, threads)
        self._asked = asked
        self._job: Job | None = None
        self._keeper: subprocess.Popen | None = None  # cancels the job when this kernel is gone
        self._avoid: set[str] = set()  # hosts that were lost
        self._looked, self._one_ended = 0.0, False  # whether a rank has left its exit code

    def launch(self) -> list[str]:
        return []  # the job does

    def address(self) -> str:
        return address_towards(commands.addresses())

    @property
    def starter(self) -> str:  # type: ignore[override]
        return f"Slurm's job {self._job.number}" if self._job else "Slurm's job"

    # -- start ----------------------------------------------------------------------------------

    def start_ranks(self) -> None:
        state.clear(self.state_dir)
        self._one_ended = False
        if self._job is not None and not self._job.told.ended and not self._avoid:
            self._job.restart()
        else:
            self._drop_job(wait=False)  # another is asked for when somebody waits for ranks

    def await_ranks(self) -> None:
        if self._job is None:
            try:
                self._job = self._submit(self._avoid)
            except StartError as error:
                if not self._avoid:
                    raise
                hosts = ", ".join(sorted(self._avoid))
                raise StartError(
                    f"{error} (Without {hosts}, of which nothing was heard: the next cell asks for "
                    "any nodes.)"
                ) from None
            finally:
                self._avoid.clear()
            self._keeper = subprocess.Popen(
                self.guarded("sh", "-c", KEEPER, self._job.number),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _submit(self, avoid: Any) -> Job:
        options = ["--no-requeue", "--export=ALL", f"--job-name={self.folder.name}"]
        options += [
            f"--ntasks={self.n}",
            f"--output={self.folder / 'job.log'}",
            "--open-mode=append",
        ]
        if self.threads > 1:
            options.append(f"--cpus-per-task={self.threads}")
        if avoid:
            options.append(f"--exclude={','.join(sorted(avoid))}")
        return Job.submit(self.folder, self._script(), [*options, *self._asked.arguments()])

    def _script(self) -> str:
        launch = self._launch
        if self.threads > 1 and launch.startswith("srun"):
            launch += f" --cpus-per-task={self.threads}"
        return script(
            launch,
            self.rank_command(),
            folder=str(self.folder),
            mpi=self._mpi,
            cluster_id=self.ipp.cluster_id,
            profile_dir=self.ipp.profile_dir,
        )

    # -- state ----------------------------------------------------------------------------------

    def queue(self) -> str:
        return self._job.queue() if self._job else ""

    def ranks_exited(self) -> bool:
        if self._job is None or self._job.step_ended():
            return True
        if self._job.told.ended or self._job.hopeless:
            return True
        now = time.monotonic()
        if now - self._looked > EXIT_SECONDS:
            self._looked, self._one_ended = now, bool(state.exits(self.state_dir))
        return self._one_ended  # mpiexec takes some seconds to end the others

    def how_ranks_ended(self) -> str:
        if self._job and self._job.hopeless:
            return f"it would wait for ever: {self._job.told.reason}"
        how = self._job.end() if self._job else ""
        seen = "" if self.ranks_output() else f"; is {self.folder} there on the nodes?"
        return f"it {how}{seen}" if how else "its ranks ended at once"

    def dead_rank(self) -> tuple[int | None, str]:
        rank, how = super().dead_rank()
        if rank is None and self._job is not None and (how := self._job.end()):
            how = f"{self.starter} {how}"
        return rank, how

    def lost_rank(self, ranks: list[int]) -> tuple[int | None, str]:
        self._avoid |= {self.host_names[rank] for rank in ranks if self.host_names}
        return super().lost_rank(ranks)

    @property
    def after_loss(self) -> str:
        ended = self._job is None or self._job.told.ended or bool(self._avoid)
        return ANOTHER_JOB if ended else super().after_loss

    def ranks_output(self) -> str:
        try:
            return (self.folder / "job.log").read_text(errors="replace")
        except OSError:
            return ""

    # -- end ------------------------------------------------------------------------------------

    def kill_ranks(self) -> None:
        self.forget_ranks()
        if self._job is not None and not self._avoid:
            self._job.end_ranks()

    def _drop_job(self, wait: bool) -> None:
        job, self._job = self._job, None
        keeper, self._keeper = self._keeper, None
        if job is not None:
            job.cancel(wait)
        if keeper is not None:
            keeper.terminate()
            keeper.wait()

    def stop(self) -> None:
        self._drop_job(wait=True)
        super().stop()
