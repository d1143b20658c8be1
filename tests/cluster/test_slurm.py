"""Ranks under a real Slurm: one world, its queue, its ends, and that nothing is left.

`make test-all PART=slurm` runs them; notebook 02 takes minutes there.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

import psutil
import pytest

from tests.cluster.lab import LOGIN, PATHS, Lab, why_not
from tests.cluster.on_login import QUEUED
from tests.cluster.ways import eventually

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.slurm,
    pytest.mark.part(of="slurm"),
    pytest.mark.timeout(300),
]
SIX = [[rank, 6, 15, f"host{1 + rank // 2}"] for rank in range(6)]
NOTEBOOKS = ["01_mpi_basics", "02_sgd_sync_async", "08_allreduce_animation"]
JOB = {"SBATCH_PARTITION": "spread", "SBATCH_ACCOUNT": "me", "SBATCH_TIMELIMIT": "40"}
MODULE = [sys.executable, "-m", "tests.cluster.on_login"]


@pytest.fixture(scope="module", autouse=True)
def possible():
    if why := why_not():
        pytest.skip(why)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()
    shutil.rmtree(lab.folder)


def call(lab, function: str, *args: str, timeout: float = 120.0) -> dict:
    """Call a function of ``on_login`` on the login host."""
    work = lab.folder / "home" / "work"
    said = lab.run(LOGIN, *MODULE, function, *args, timeout=timeout, cwd=work)
    return json.loads(said.splitlines()[-1])


def ranks_in(lab) -> list[str]:
    """Return the command lines of ranks, of controllers, and of whatever starts them."""
    names = "helpers.cluster.rank.engine", "ipyparallel.controller", "mpiexec", "hydra_pmi_proxy"
    found = []
    for process in lab.processes():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            found += [line] if any(name in line for name in names) else []
    return found


@contextlib.contextmanager
def kernel(lab, *call: str):
    """Run a function of ``on_login`` beside the test; yield the process that can be heard."""
    work = lab.folder / "home" / "work"
    process = lab.start(LOGIN, *MODULE, *call, cwd=work, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        if process.poll() is None:
            psutil.Process(process.pid).children()[0].kill()  # alone, not who watches over it
        process.wait(20)
        process.stdout.close()


def nothing_left(lab, seconds: float = 20.0) -> bool:
    """Wait until neither a job, a process nor a folder of a cluster is there."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        folders = list((lab.folder / "home" / "work").glob("ranks-*"))
        if not lab.jobs() and not folders and not ranks_in(lab):
            return True
        time.sleep(0.2)
    raise AssertionError(f"{lab.jobs()} {folders} {ranks_in(lab)}")


@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_ranks_are_one_world_whatever_mpi_slurm_defaults_to(tmp_path, mpi):
    lab = Lab(tmp_path, mpi)
    try:
        told = call(lab, "one_world")
        assert told["world"] == SIX
        assert told["hosts"] == [host for _, _, _, host in SIX]
        assert told["listens"] == ["10.77.0.1", "127.0.0.1"]
        assert told["key"] == "0o700"
        assert told["job"] == "short 5:00 RUNNING"
        assert told["left"] == []
        assert nothing_left(lab)
    finally:
        lab.stop()


def test_open_mpi_is_started_by_srun_through_pmix(lab, openmpi):
    programs = os.path.dirname(openmpi.python)
    told = json.loads(
        lab.run(
            LOGIN,
            *[openmpi.python, "-m", "tests.cluster.on_login", "started"],
            cwd=lab.folder / "home" / "work",
            env={**openmpi.variables, "PATH": os.pathsep.join([programs, PATHS])},
            timeout=180,
        ).splitlines()[-1]
    )
    assert told["how"] == ["srun", "pmix"]
    assert "Open MPI" in told["is"]
    assert told["world"] == [SIX, SIX]


def test_restarts_keep_the_job_and_name_the_host(lab):
    told = call(lab, "restarts")
    assert told["restarted"]
    kind, text = told["stuck"]
    assert kind == "RankTimeoutError"
    assert "3 (host2)  recv   rank 5 (host3)" in text
    kind, text = told["dead"]
    assert kind == "RankDiedError"
    assert text.startswith("Rank 4 died, on host3, killed by signal 9")
    assert told["interrupted"][0] == "RanksInterrupted"
    assert told["works"] == [[6] * 6] * 3
    assert told["same job"]
    assert told["left"] == []


def test_the_queue_is_shown_and_an_interrupt_cancels(lab):
    told = call(lab, "waits")
    assert told["interrupted"][0] == "KeyboardInterrupt"
    assert told["after"] == []
    for said in (told["gave up"], told["said"]):
        assert any(QUEUED in line for line in said), said
    assert told["world"] == [6] * 6  # and what waited before it came first
    assert told["second"] == 1
    assert told["left"] == []


def test_a_job_that_others_end_is_named_and_no_other_asked_for_unasked(lab):
    told, word = call(lab, "ends", "scancel"), "was cancelled"
    for kind, text in (told["busy"], told["idle"]):
        assert kind == "RankDiedError"
        assert text.startswith("The ranks were lost: Slurm's job ")
        assert word in text
        assert "the next cell asks Slurm for another job" in text
    assert told["queue"] == ""
    assert told["works"] == [[6] * 6] * 2
    assert told["left"] == []


def test_a_lost_node_is_named_and_not_asked_for_again(tmp_path):
    lab = Lab(tmp_path)
    try:
        with kernel(lab, "loses_a_node") as process:
            assert process.stdout.readline() == "now\n"
            lab.lose("host2")
            told = json.loads(process.communicate(timeout=90)[0].splitlines()[-1])
        kind, text = told["lost"]
        assert kind == "RankDiedError"
        assert told["before"] == ["host1"] * 4 + ["host2"] * 4
        assert re.match("Rank [4-7] died, on host2, .*the controller hears no more of it", text)
        assert {host for _, _, _, host in told["world"]} == {"host1", "host3"}
        assert [rank for rank, *_ in told["world"]] == list(range(8))
    finally:
        lab.stop()


@pytest.mark.parametrize("kind", ["slurm", "ssh"])
def test_a_kernel_that_is_killed_leaves_nothing(lab, kind):
    with kernel(lab, "is_killed", kind) as process:
        assert process.stdout.readline() == "now\n"
        assert len(ranks_in(lab)) > 4
    assert nothing_left(lab)


def test_a_kernel_that_is_killed_in_the_queue_leaves_nothing(lab):
    block = ["sbatch", "--parsable", "--exclusive", "--nodes=3", "--output=/dev/null"]
    number = lab.run(LOGIN, *block, "--wrap=sleep 1000").strip()
    with kernel(lab, "is_killed", "slurm"):
        assert eventually(lambda: len(lab.jobs()) == 2, 30)
        time.sleep(1)  # who is to cancel the job must know its number
    assert eventually(lambda: len(lab.jobs()) == 1, 10)
    lab.run(LOGIN, "scancel", number)
    assert nothing_left(lab)


def test_what_slurm_refuses_is_said_in_its_words(lab):
    told = call(lab, "refusals")
    kind, text = told["partition"]
    assert kind == "StartError"
    assert text.startswith("Slurm does not take the job: ")
    assert "invalid partition specified: none" in text
    for name, word in ("size", "PartitionConfig"), ("time", "PartitionTimeLimit"):
        kind, text = told[name]  # it takes them, and never begins them
        assert kind == "StartError"
        assert f"it would wait for ever: {word}" in text
    assert told["left"] == []


def test_traces_across_nodes(lab):
    told = call(lab, "traces")
    sent = sorted((source, target) for source, target, _, _ in told["messages"])
    assert sent == [(rank, rank + 1) for rank in range(5)]
    assert all(begin <= end for _, _, begin, end in told["messages"])
    # one kernel, one clock: what is measured is the error
    assert all(offset <= max(sure, 1_000_000) for offset, sure in told["offsets"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_unchanged_on_slurms_nodes(lab, name):
    said = lab.run(
        LOGIN,
        *MODULE,
        "notebook",
        name,
        timeout=580,
        cwd=lab.folder / "home" / "work",
        env={"COURSE_RANKS": "slurm", **JOB},
    )
    told = json.loads(said.splitlines()[-1])
    assert told["problems"] == []
    assert any(re.fullmatch(r"ranks-\w+ 4 spread me 40:00", job) for job in told["jobs"])
    assert "COURSE_RANKS='slurm', and it needs a fork" in told["said"]  # hosts: from a record
    assert told["left"] == []


def test_ssh_starts_one_world_in_blocks(lab):
    told = call(lab, "by_ssh")
    hosts = ["host1"] * 3 + ["host2"] * 2
    assert told["world"] == [[rank, 5, 10, hosts[rank]] for rank in range(5)]
    assert told["listens"] == ["10.77.0.1", "127.0.0.1"]
    assert "4 (host2)  recv   rank 1 (host1)" in told["stuck"][1]
    assert told["dead"][0] == "RankDiedError"
    assert told["dead"][1].startswith("Rank 3 died, on host2, killed by signal 9")
    assert told["works"] == [[5] * 5] * 2
    assert told["left"] == []
    assert nothing_left(lab)


def test_ssh_says_which_host_it_cannot_have(lab):
    told = call(lab, "ssh_refusals")
    kind, text = told["unknown"]
    assert kind == "StartError"
    assert text.startswith("ssh does not reach host9 without asking")
    assert "Could not resolve" in text
    kind, text = told["own"]
    assert kind == "StartError"
    assert text.startswith("host1 does not see ")
    assert told["left"] == []
