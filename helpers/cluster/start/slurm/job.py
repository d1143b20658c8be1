"""One job of Slurm's: it holds the nodes, and starts a set of ranks whenever it is told to."""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from helpers.cluster.errors import StartError
from helpers.cluster.start.slurm import commands
from helpers.cluster.start.slurm.commands import ENDED, SlurmError, Told
from helpers.waiting import comes_true

QUEUED_SECONDS = 1.0  # how often it is asked how the job stands, while it waits
RUNNING_SECONDS = 3.0
GONE_SECONDS = 5.0  # until a job that was cancelled is gone
NEVER_SECONDS = 3.0  # for which a reason must hold that is to be believed
LOOK_SECONDS = 0.1
SETTLE_SECONDS = 1.5  # until Slurm knows how a job ended whose ranks are gone

# The nodes are kept while the folder is there. A set of ranks is a step of the job; each SIGUSR1
# asks for another, for which SIGHUP ends the last: signals of scancel's reach the nodes of a job
# whatever their file system caches, and SIGHUP the ranks alone, not this shell.
SCRIPT = """\
folder={folder}
wanted=1
begun=0
trap 'wanted=$((wanted + 1))' USR1
export SLURM_MPI_TYPE={mpi} SLURM_KILL_BAD_EXIT=1
[ {mpi} != none ] || {{ export SLURM_CPU_BIND=none; unset SLURM_NTASKS_PER_NODE; }}
export IPP_CLUSTER_ID={cluster_id} IPP_PROFILE_DIR={profile_dir}
: >"$folder/job-$SLURM_JOB_ID"
while [ -d "$folder" ]; do
    if [ "$begun" -lt "$wanted" ]; then
        begun=$wanted
        ( {launch} {program}; echo $? >"$folder/step-$SLURM_JOB_ID-$begun" ) &
        while [ -d "$folder" ] && [ ! -e "$folder/step-$SLURM_JOB_ID-$begun" ]; do
            [ "$begun" -eq "$wanted" ] || scancel --signal=HUP "$SLURM_JOB_ID"
            sleep 0.5 & wait $!
        done
    else
        sleep 0.5 & wait $!
    fi
done
"""


def script(launch: str, program: Sequence[str], **settings: str) -> str:
    """Write what the job does, for sbatch: `launch` starts `program` on every task of the job."""
    quoted = {name: shlex.quote(value) for name, value in settings.items()}
    return "#!/bin/sh\n" + SCRIPT.format(launch=launch, program=shlex.join(program), **quoted)


class Job:
    """A job that was submitted, and a thread that asks from time to time how it stands."""

    def __init__(self, number: str, folder: Path) -> None:
        self.number = number
        self.folder = folder
        self.told = Told()
        self.place: tuple[int, int] | None = None
        self.steps = 1
        self.hopeless = False  # whether it would wait for ever
        self._hoped = time.monotonic()  # when Slurm's reason last was one that passes
        self._over = threading.Event()
        threading.Thread(target=self._watch, name=f"job {number}", daemon=True).start()

    @classmethod
    def submit(cls, folder: Path, text: str, options: Sequence[str]) -> Job:
        """Hand a script to Slurm; raise StartError with Slurm's words if it takes no such job."""
        path = folder / "ranks.sbatch"
        path.write_text(text)
        try:
            said = commands.run("sbatch", "--parsable", *options, str(path))
        except SlurmError as error:
            why = " ".join(line.removeprefix("sbatch: ") for line in str(error).splitlines())
            raise StartError(f"Slurm does not take the job: {why}") from None
        return cls(said.strip().splitlines()[-1].partition(";")[0], folder)

    def step_ended(self) -> bool:
        """Whether the set of ranks that was started last has ended; False before it has begun."""
        return (self.folder / f"step-{self.number}-{self.steps}").exists()

    def end_ranks(self) -> None:
        """End the ranks and keep the nodes."""
        if self._at_work():
            with contextlib.suppress(SlurmError):  # it may just have ended
                commands.run("scancel", "--signal=HUP", self.number)

    def restart(self) -> None:
        """Ask for another set of ranks; one that is there still is ended first."""
        if self._at_work():
            self.steps += 1
            with contextlib.suppress(SlurmError):
                commands.run("scancel", "--batch", "--signal=USR1", self.number)

    def _at_work(self) -> bool:
        """Tell whether the script runs that signals are for; before it, there are no ranks."""
        return (self.folder / f"job-{self.number}").exists() and not self.told.ended

    def cancel(self, wait: bool) -> None:
        """End the job; with `wait`, return only when it has left the queue.

        On a node that is lost that may take minutes, which nobody waits for.
        """
        self._over.set()
        with contextlib.suppress(SlurmError, StartError):
            commands.run("scancel", self.number)
            if wait:
                comes_true(self._has_left, GONE_SECONDS, LOOK_SECONDS)

    def end(self) -> str:
        """Say how the job ended whose ranks are gone, to follow "job 12"; empty if it goes on."""
        with contextlib.suppress(SlurmError):
            comes_true(self._has_left, SETTLE_SECONDS, LOOK_SECONDS)
        how = ENDED.get(self.told.state, "")
        telling = self.told.reason and self.told.reason not in ("NonZeroExitCode", "TimeLimit")
        return f"{how} ({self.told.reason})" if how and telling else how

    def _has_left(self) -> bool:
        self.told = commands.look(self.number)
        return self.told.ended and self.told.state != "COMPLETING"

    def queue(self) -> str:
        """Say for what the job waits; empty once it has its nodes."""
        if not self.told.queued:
            return ""
        said = f"Job {self.number} waits in Slurm's queue"
        if self.told.partition:
            said += f" '{self.told.partition}'"
        if self.place:
            said += ", place {} of {}".format(*self.place)
        if self.told.reason:
            said += f" ({self.told.reason})"
        return said

    def _watch(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(SlurmError):  # it does not answer: what it said last counts
                self.told = commands.look(self.number)
                if not self.told.hopeless:
                    self._hoped = time.monotonic()
                self.hopeless = time.monotonic() - self._hoped > NEVER_SECONDS
                if self.told.queued:
                    self.place = commands.place(self.number, self.told.partition)
            if self.told.ended:
                return
            self._over.wait(QUEUED_SECONDS if self.told.queued else RUNNING_SECONDS)
