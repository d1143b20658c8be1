"""The processes of a cluster whose ranks are a job of Slurm's; its controller is on this host."""

from __future__ import annotations

import os
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any

from helpers.cluster.errors import StartError
from helpers.cluster.rank import state
from helpers.cluster.start.arguments import Wishes
from helpers.cluster.start.guarded import GuardedProcesses, address_towards
from helpers.cluster.start.slurm import commands
from helpers.cluster.start.slurm.job import Job, script
from helpers.machine.mpi import find_mpiexec, mpi_library

if TYPE_CHECKING:
    from ipyparallel.cluster.launcher import SlurmEngineSetLauncher

EXIT_SECONDS = 0.5  # how often a folder that many hosts share is looked into
ANOTHER_JOB = "All variables on the ranks are gone; the next cell asks Slurm for another job."
KEEPER = "trap 'scancel \"$0\"; exit' TERM; while :; do sleep 3600 & wait $!; done"
PROGRAM = re.compile(r"^(?P<launch>.*?)\s*\{program(_and_args)?\}.*$", re.MULTILINE)


class SlurmProcesses(GuardedProcesses):
    """A controller here, and a job of Slurm's that keeps its nodes when ranks are restarted."""

    def __init__(self, n: int, threads: int, profile: str | None, wishes: Wishes) -> None:
        library = mpi_library()
        path = find_mpiexec() if library else ""
        self._launch, self._mpi = commands.starter(n, library, path)  # before anything is made
        super().__init__(n, threads, profile, "slurm")
        self._wishes = wishes
        self._settings = self._of_profile()
        self._job: Job | None = None
        self._keeper: subprocess.Popen | None = None  # cancels the job when this kernel is gone
        self._avoid: set[str] = set()  # hosts that were lost
        self._looked, self._one_ended = 0.0, False  # whether a rank has left its exit code

    def _of_profile(self) -> SlurmEngineSetLauncher:
        from ipyparallel.cluster.launcher import SlurmEngineSetLauncher

        told = {"profile_dir": self.ipp.profile_dir, "cluster_id": self.ipp.cluster_id}
        return SlurmEngineSetLauncher(config=self.ipp.config, n=self.n, **told)

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
        wishes, settings = self._wishes, self._settings
        for name, value in (
            ("partition", wishes.partition or settings.queue),
            ("account", wishes.account or settings.account),
            ("time", wishes.time_limit or settings.timelimit),
            ("qos", settings.qos),
            ("exclude", ",".join(sorted(avoid))),
        ):
            if value:
                options.append(f"--{name}={value}")
        return Job.submit(self.folder, self._script(), [*options, *wishes.options])

    def _script(self) -> str:
        head, launch, mpi = "", self._launch, self._mpi
        template = self._template()
        if template:
            found = PROGRAM.search(template)
            if found is None:
                raise StartError(
                    "SlurmEngineSetLauncher.batch_template of the profile: expected a line such as "
                    f"'srun {{program_and_args}}', got {template!r}"
                )
            head, launch = template[: found.start()], found["launch"]
            head, launch = (
                self._settings.formatter.format(text, **self._settings.context)
                for text in (head, launch)
            )
            mpi = os.environ.get("SLURM_MPI_TYPE", mpi) if launch.startswith("srun") else "none"
        if self.threads > 1 and launch.startswith("srun"):
            launch += f" --cpus-per-task={self.threads}"
        return script(
            head,
            launch,
            [*self.rank_program(), *self.rank_arguments()],
            folder=str(self.folder),
            mpi=mpi,
            cluster_id=self.ipp.cluster_id,
            profile_dir=self.ipp.profile_dir,
        )

    def _template(self) -> str:
        settings = self._settings
        if settings.batch_template_file and not settings.batch_template:
            with open(settings.batch_template_file) as file:
                return file.read()
        return settings.batch_template

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
