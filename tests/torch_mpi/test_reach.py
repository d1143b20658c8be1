"""What a job under the user's own mpiexec lets in, and what it leaves when it is interrupted."""

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest

from helpers.machine import guard
from helpers.paths import ROOT
from tests.cluster.test_left_behind import with_shared_memory
from tests.cluster.ways import PART
from tests.torch_mpi.test_doors import MPIEXEC, script

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(120)]
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="namespaces and /proc are Linux's")

JOB = """
import sys, torch, torch.distributed as dist, helpers.torch_mpi
dist.init_process_group("mpi4py", init_method="mpi://")
x = torch.ones(300_000)
dist.all_reduce(x)
sys.stdout.write("in the middle\\n")  # in one piece, also unbuffered
sys.stdout.flush()
while True:
    dist.all_reduce(x)
"""
# Starts the job, tells who listens, strikes, tells what is left. Its /dev/shm and /tmp are its own.
STRIKE = """
    import json, os, subprocess, sys
    import psutil
    mpiexec, job, victim, signal = sys.argv[1:]
    os.environ |= {"TMPDIR": "/tmp", "OMP_NUM_THREADS": "1"}
    run = subprocess.Popen(
        [mpiexec, "-n", "3", sys.executable, "-c", job],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    for _ in range(3):
        assert run.stdout.readline() == "in the middle\\n"
    below = psutil.Process(run.pid).children(recursive=True)
    ranks = [process for process in below if process.name().startswith("python")]
    assert len(ranks) == 3
    found = {"its": [], "ranks": []}
    for process in (psutil.Process(run.pid), *below):
        who = "ranks" if process in ranks else "its"
        found[who] += [one.laddr for one in process.net_connections("inet") if not one.raddr]
    ({"mpiexec": run, "rank": ranks[1]}[victim]).send_signal(int(signal))
    run.wait(20)
    _, alive = psutil.wait_procs(below, timeout=10)
    left = [os.path.join(at, name) for at in ("/dev/shm", "/tmp") for name in os.listdir(at)]
    made = {str(process.pid) for process in ranks}
    with open("/proc/sysvipc/shm") as file:  # number, rights, bytes, who made it
        left += [" ".join(line.split()[1:4]) for line in file if line.split()[4] in made]
    print(json.dumps(found | {"alive": len(alive), "left": left}))
"""


def strike(folder: Path, victim: str, signal: int) -> dict:
    if any(Path(path).is_relative_to("/tmp") for path in (ROOT, sys.prefix, sys.base_prefix)):
        pytest.skip("the project lies in /tmp, of which the job gets one of its own")
    own = ["sh", "-c", 'mount -t tmpfs tmpfs /tmp && exec "$@"', "sh"]
    program = [sys.executable, "-c", textwrap.dedent(STRIKE), MPIEXEC, JOB, victim, str(signal)]
    return json.loads(with_shared_memory(64, own + program, folder))


@on_linux
@pytest.mark.parametrize("victim", ["mpiexec", "rank"])
@pytest.mark.parametrize("signal", [2, 9, 15])
@PART
def test_an_interrupted_job_has_let_nobody_in_and_leaves_nothing(tmp_path, victim, signal):
    """And while it runs only its mpiexec listens, on a port that the ranks inherit."""
    told = strike(tmp_path, victim, signal)
    assert told["its"]
    assert [address for address in told["ranks"] if address not in told["its"]] == []
    assert told["alive"] == 0
    assert [path for path in told["left"] if "torchinductor_" not in path] == []  # docs/INSTALL.md


@PART
def test_what_the_user_says_to_ucx_counts(tmp_path):
    text = (
        "import os, torch.distributed as dist, helpers.torch_mpi\n"
        "dist.init_process_group('mpi4py', init_method='mpi://')\n"
        "print(os.environ.get('UCX_TLS'))\n"
    )
    assert script(tmp_path, text, MPIEXEC, "-n", "1", UCX_TLS="self,tcp").stdout == "self,tcp\n"
    assert script(tmp_path, text, MPIEXEC, "-n", "1").stdout == "None\n"


AGAIN = """
import os, torch, torch.distributed as dist
import helpers.torch_mpi
{before}
for turn in range(3):
    dist.init_process_group("mpi4py", init_method="mpi://")
    store, rank = dist.group.WORLD.get_group_store(), dist.get_rank()
    assert not store.check(["a key"])
    dist.barrier()
    store.set("a key", str(turn))
    dist.barrier()
    dist.all_reduce(x := torch.ones(3))
    assert x[0] == 2
    dist.destroy_process_group()
links = [f"/proc/self/fd/{{name}}" for name in os.listdir("/proc/self/fd")]
print([os.readlink(link).rpartition("/")[2] for link in links if os.path.islink(link)
       and "torch_mpi-" in os.readlink(link)])
"""
UNABLE = """
if os.environ["PMI_RANK"] == "1":  # one rank alone
    from mpi4py import MPI
    from pathlib import Path
    import helpers.torch_mpi.rendezvous as module
    module.OPENED = Path("/nowhere")
"""


@on_linux
@pytest.mark.parametrize("before", ["", UNABLE])
@PART
def test_groups_one_after_the_other_meet_at_one_file_without_a_name(tmp_path, before):
    text = AGAIN.format(before=before)
    done = script(tmp_path, text, MPIEXEC, "-n", "2", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    expected = "[]" if before else "['store (deleted)']"
    assert done.stdout.replace("\n", "") == expected * 2  # both may write at once
    left = {path.name for path in tmp_path.iterdir() if "torchinductor" not in path.name}
    assert left == {"script.py"}


@on_linux
def test_only_the_topology_that_is_certainly_ours_is_removed(tmp_path, monkeypatch):
    first, second = (tmp_path / f"{guard.TOPOLOGIES}{name}" for name in "ab")
    first.touch()
    guard.unlink_topology(os.getpid(), str(tmp_path))
    assert first.exists()  # no mpiexec has started this process
    monkeypatch.setattr(guard, "PROXY", guard._stat(os.getppid())[0])
    second.touch()
    guard.unlink_topology(os.getpid(), str(tmp_path))
    assert first.exists()
    assert second.exists()
    os.utime(first, (1, 1))  # older than the process that would have made it
    guard.unlink_topology(os.getpid(), str(tmp_path))
    assert first.exists()
    assert not second.exists()
