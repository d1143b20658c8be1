"""Ranks on several hosts of this machine: what they see, how fast, and that nothing is left."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from helpers.cluster import (
    Cluster,
    Network,
    RankDiedError,
    RankTimeoutError,
)
from helpers.cluster.start.network.keeper import Told
from helpers.paths import ROOT
from tests.cluster.test_cluster import on_ranks
from tests.cluster.ways import PART, eventually, on_hosts

pytestmark = pytest.mark.mpi
RATE = 50e6
STREAM = """
import numpy, time
size, pairs = args
box, word = numpy.zeros(size, numpy.uint8), numpy.zeros(1, numpy.uint8)
mine = next((pair for pair in pairs if rank in pair), None)
comm.Barrier()
begin = time.perf_counter()
if mine and rank == mine[0]:
    comm.Send(box, mine[1]), comm.Recv(word, mine[1])
elif mine:
    for source, target in pairs:
        if target == rank:
            comm.Recv(box, source)
    for source, target in pairs:
        if target == rank:
            comm.Send(word, source)
took = time.perf_counter() - begin
idle = comm.Ibarrier()
while not idle.Test():
    time.sleep(0.001)
return took
"""


def seconds(cluster, size, *pairs):
    """Return how long messages of ``size`` bytes took that went at once, each from a to b."""
    return max(on_ranks(cluster, STREAM, size, pairs))


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with on_hosts(4, Network(2, rate=RATE)) as cluster:
        yield cluster


def keeper_of(cluster) -> psutil.Process:
    """Return the process that keeps the hosts."""
    hosts = Told.read(cluster._processes.folder / "network.json").hosts
    return psutil.Process(psutil.Process(hosts[0]).ppid())


# -- what ranks see ----------------------------------------------------------------------------


def test_ranks_are_on_hosts_of_their_own_name_and_memory(cluster):
    assert cluster.hosts == ["host0", "host0", "host1", "host1"]
    assert repr(cluster).startswith("<Cluster: 4 ranks on Network(2 hosts, 50 Mbit/s), MPICH")
    body = (
        "import socket\n"
        "name = MPI.Get_processor_name()\n"
        "together = comm.Split_type(MPI.COMM_TYPE_SHARED).allgather(rank)\n"
        "return name, together, socket.gethostbyname('host1')"
    )
    told = on_ranks(cluster, body)
    assert told == [(f"host{r // 2}", [r // 2 * 2, r // 2 * 2 + 1], "10.77.0.2") for r in range(4)]


def test_cyclic_placement_reaches_mpi():
    with Cluster(4, network=Network(2, placement="cyclic")) as cluster:
        assert cluster.hosts == ["host0", "host1", "host0", "host1"]
        body = "return comm.Split_type(MPI.COMM_TYPE_SHARED).allgather(rank)"
        assert on_ranks(cluster, body) == [[0, 2], [1, 3], [0, 2], [1, 3]]


def test_a_host_has_one_device_and_no_way_to_this_machines_network(cluster):
    body = (
        "import os, socket\n"
        "devices = sorted(os.listdir('/sys/class/net'))\n"
        "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:\n"
        "    try:\n"
        "        probe.connect(('192.0.2.1', 9))\n"
        "    except OSError as error:\n"
        "        return devices, error.strerror, os.readlink('/proc/self/ns/net')\n"
    )
    told = on_ranks(cluster, body)
    assert {tuple(devices) for devices, _, _ in told} == {("eth0", "lo")}
    assert {error for _, error, _ in told} == {"Network is unreachable"}
    networks = [network for _, _, network in told]
    assert len(set(networks)) == 2
    assert os.readlink("/proc/self/ns/net") not in networks


def test_hosts_share_no_files_in_memory_and_ranks_keep_their_folder(cluster):
    body = (
        "import os, pathlib\n"
        "pathlib.Path('/dev/shm/here').write_text(str(rank)) if rank == 0 else None\n"
        "comm.Barrier()\n"
        "return os.path.exists('/dev/shm/here'), os.getcwd()"
    )
    told = on_ranks(cluster, body)
    assert [seen for seen, _ in told] == [True, True, False, False]
    assert {folder for _, folder in told} == {os.getcwd()}
    assert not Path("/dev/shm/here").exists()


# -- rate and delay ----------------------------------------------------------------------------


# No message is faster than its wire; how much slower it is, `make bench` measures.


def test_between_hosts_the_rate_holds_and_inside_a_host_it_does_not(cluster):
    limit = 2**20 / cluster.network.payload
    assert min(seconds(cluster, 2**20, (0, 2)) for _ in range(3)) > 0.9 * limit
    assert any(seconds(cluster, 2**20, (0, 1)) < limit / 2 for _ in range(20))


def test_the_link_of_a_receiver_is_shared_and_directions_are_not(cluster):
    limit = 2**20 / cluster.network.payload
    assert min(seconds(cluster, 2**20, (2, 0), (3, 1)) for _ in range(3)) > 1.9 * limit
    assert any(seconds(cluster, 2**20, (0, 2), (3, 1)) < 1.9 * limit for _ in range(20))


# -- all that a cluster does -------------------------------------------------------------------


def test_who_waits_for_whom_is_told_with_hosts(cluster):
    with pytest.raises(RankTimeoutError, match=r"\n3 \(host1\) +recv +rank 0 \(host0\)"):
        on_ranks(cluster, "return comm.recv(source=0) if rank == 3 else None", timeout=2)
    assert on_ranks(cluster, "return comm.allreduce(1)") == [4] * 4


def test_a_restart_keeps_the_hosts(cluster):
    before, ranks = keeper_of(cluster), cluster.pids
    cluster.restart()
    assert keeper_of(cluster) == before
    assert not set(ranks) & set(cluster.pids)
    assert on_ranks(cluster, "return comm.allreduce(rank)") == [6] * 4


def test_a_dead_rank_is_named_with_its_host(cluster):
    with pytest.raises(RankDiedError, match=r"^Rank 2 died, on host1, killed by signal 9"):
        on_ranks(cluster, "import os\nif rank == 2: os.kill(os.getpid(), 9)\ncomm.Barrier()")
    assert on_ranks(cluster, "return comm.allreduce(1)") == [4] * 4


@pytest.mark.parametrize("victim", ["keeper", "host"])
def test_a_network_that_ends_is_named_and_made_anew(cluster, victim):
    keeper = keeper_of(cluster)
    (keeper if victim == "keeper" else keeper.children()[1]).kill()
    assert eventually(cluster._processes.ranks_exited)
    with pytest.raises(RankDiedError, match="a host of the network has ended"):
        on_ranks(cluster, "return rank")
    assert on_ranks(cluster, "return comm.allreduce(1)") == [4] * 4
    assert keeper_of(cluster) != keeper


def test_where_the_system_refuses_one_sentence_says_so():
    code = "from helpers.cluster import Cluster, Network; Cluster(2, network=Network(2))"
    if os.geteuid() != 0:
        pytest.skip("needs root, to have less rights than an ordinary user")
    # root without any capability may not even make a user namespace
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    last = done.stderr.strip().splitlines()[-1]
    assert "StartError: Network(2 hosts) cannot be had here: th" in last


@PART
def test_an_ordinary_user_has_hosts_too():
    if os.geteuid() != 0:
        pytest.skip("this user is an ordinary one: all tests here show it")
    own = tempfile.TemporaryDirectory()  # below no folder that is root's alone
    code = (
        "from helpers.cluster import Cluster, Network\n"
        "with Cluster(2, network=Network(2, rate=100e6)) as cluster:\n"
        "    print(cluster.run(lambda: (comm.allreduce(1), MPI.Get_processor_name())))"
    )
    rights = "-all,+dac_read_search"  # to read the interpreter in root's home, and no more
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set", rights]
    with own as folder:
        os.chmod(folder, 0o777)
        done = subprocess.run(
            [*user, "--inh-caps", rights, "--ambient-caps", rights, sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "HOME": folder, "TMPDIR": folder},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.stdout == "[(2, 'host0'), (2, 'host1')]\n", done.stderr


# -- ends --------------------------------------------------------------------------------------


def left(folder: Path, below: list[psutil.Process]) -> list:
    """Return what is left of clusters with their files in ``folder``."""
    psutil.wait_procs(below, timeout=60)  # who still imports has not heard of the end
    eventually(lambda: not list(folder.glob("ranks-*")), 60)
    devices = [name for name in os.listdir("/sys/class/net") if name.startswith(("port", "lan"))]
    alive = [process for process in below if process.is_running()]
    return [*alive, *folder.glob("ranks-*"), *devices]


def test_stop_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Cluster(4, network=Network(2)) as cluster:
        keeper = keeper_of(cluster)
        below = [keeper, *keeper.children(), *map(psutil.Process, cluster.pids)]
        assert len(below) == 7
        files = psutil.Process().num_fds()
    assert left(tmp_path, below) == []
    assert psutil.Process().num_fds() <= files


@pytest.mark.parametrize(
    ("end", "processes"),
    [
        (signal.SIGKILL, 5),
        *(pytest.param(signal.SIGKILL, count, marks=PART) for count in (1, 2, 3, 7)),
        *(pytest.param(signal.SIGINT, count, marks=PART) for count in (2, 5)),
    ],
)
def test_a_kernel_that_ends_in_any_phase_leaves_nothing(tmp_path, end, processes):
    """It ends when so many processes are there: who forks, controller, keeper, hosts, ranks."""
    code = (
        "from helpers.cluster import Cluster, Network\nimport time\nprint(1, flush=True)\n"
        "Cluster(2, network=Network(2, rate=1e8))\ntime.sleep(60)\n"
    )
    kernel = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        kernel.stdout.readline()
        below = psutil.Process(kernel.pid)
        assert eventually(lambda: len(below.children(recursive=True)) >= processes, 60)
        below = below.children(recursive=True)
        kernel.send_signal(end)
        kernel.wait(20)
    finally:
        kernel.kill()
        kernel.wait()
    assert left(tmp_path, below) == []


FROM_ANYONE = {
    "Recv": "comm.Recv(box, ANY, 5, status)",
    "recv": "box = comm.recv(source=ANY, tag=5, status=status)",
    "Sendrecv": "comm.Sendrecv(box.copy(), MPI.PROC_NULL, 0, box, ANY, 5, status)",
    "Sendrecv_replace": "comm.Sendrecv_replace(box, MPI.PROC_NULL, 0, ANY, 5, status)",
    "sendrecv": "box = comm.sendrecv(0, MPI.PROC_NULL, 0, None, ANY, 5, status)",
    "Irecv": "comm.Irecv(box, ANY, 5).Wait(status)",
    "irecv": "box = comm.irecv(source=ANY, tag=5).wait(status)",
}


@pytest.mark.parametrize("name", FROM_ANYONE)
def test_a_message_of_another_host_that_is_there_first_is_not_lost(cluster, name):
    send = "Send" if name[0].isupper() else "send"
    body = (
        "import numpy\n"
        "box, status, ANY = numpy.zeros(2), MPI.Status(), MPI.ANY_SOURCE\n"
        "if rank == 2:\n"
        f"    comm.{send}(numpy.full(2, 2.0), dest=0, tag=5)\n"
        "    comm.send(None, dest=0, tag=6)\n"
        "if rank == 0:\n"
        "    comm.recv(source=2, tag=6)\n"  # the other came before it
        f"    {FROM_ANYONE[name]}\n"
        "    return box.tolist(), status.Get_source(), status.Get_tag()"
    )
    assert on_ranks(cluster, body, timeout=15)[0] == ([2.0, 2.0], 2, 5)


def test_what_is_sent_from_the_memory_it_is_received_in_is_what_was_there(cluster):
    body = (
        "import numpy\n"
        "box, status = numpy.full((2, 2), float(rank)), MPI.Status()\n"
        "spec = {'bare': box, 'typed': [box, 4, MPI.DOUBLE], 'counted': [box, 4]}[args[0]]\n"
        "comm.Sendrecv_replace(spec, (rank + 1) % size, 7, MPI.ANY_SOURCE, 7, status)\n"
        "return box.tolist(), status.Get_source()"
    )
    for given in ("bare", "typed", "counted"):
        assert on_ranks(cluster, body, given, timeout=15) == [
            ([[float(source)] * 2] * 2, source) for source in (3, 0, 1, 2)
        ]


@PART
def test_a_request_from_anyone_that_may_be_lost_is_said(cluster):
    body = (
        "import numpy\n"
        "if rank == 0: comm.Recv_init(numpy.zeros(2), MPI.ANY_SOURCE).Start()\n"
        "if rank == 1: comm.Irecv(numpy.zeros(2), MPI.ANY_SOURCE, 9).Wait()\n"
        "if rank == 2: comm.Isendrecv(b'', 3, 1, numpy.zeros(2), MPI.ANY_SOURCE, 9).Wait()"
    )
    with pytest.raises(RankTimeoutError) as caught:
        on_ranks(cluster, body, timeout=2)
    assert "2 (host1)  Wait(Isendrecv)  ranks 3 (host1) and any rank" in str(caught.value)
    assert "MPICH 5.0 loses one from another host" in str(caught.value)
