"""Forked ranks: what they share and what they must not, how they end, and what is left."""

import contextlib
import os
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from helpers.cluster import Cluster, RankDiedError, StartError
from helpers.cluster.start import forked
from helpers.cluster.start.forkserver.family import fnv1a
from tests.cluster.test_cluster import on_ranks
from tests.cluster.ways import PART, eventually, mapped

forks = pytest.mark.skipif(
    os.environ.get(forked.VARIABLE, "fork") != "fork",
    reason="only forked ranks share what is loaded",
)
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked on Linux"),
]
SHARED = Path("/dev/shm")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module that the process which forks can import; return its name."""

    def write(name: str, source: str) -> str:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        return name

    return write


def left_by_ranks_of(server: int) -> list[Path]:
    """Return MPICH's files of the first hundred sets of ranks that this process has forked."""
    names = [f"mpich_shm_{fnv1a(f'ranks-{server}-{number}'):x}_0" for number in range(100)]
    return [SHARED / name for name in names if (SHARED / name).exists()]


def output_of(process: psutil.Process) -> str:
    """Return the file to which a process writes."""
    try:
        return os.readlink(f"/proc/{process.pid}/fd/1")
    except OSError:
        return ""


# -- what ranks share --------------------------------------------------------------------------


@pytest.mark.mpi
def test_no_port_is_open_and_no_file_is_left_in_shared_memory(cluster):
    for pid in cluster.pids:  # all have it, and no name leads to it
        names = [name for name in mapped(pid) if name.startswith("mpich_shm_")]
        assert [name.endswith(" (deleted)") for name in names] == [True]
    server = psutil.Process(cluster._processes._server.process.pid)
    assert {psutil.Process(pid).ppid() for pid in cluster.pids} == {server.pid}
    assert left_by_ranks_of(server.pid) == []
    below = [server, *server.children(recursive=True)]
    assert len(below) >= 5  # with the controller and three ranks
    ports = [c for process in below for c in process.net_connections("inet")]
    assert [c for c in ports if c.status == psutil.CONN_LISTEN] == []


@forks
@pytest.mark.mpi
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True,"
         " name='busy').start()", r"'unfit' cannot be preloaded: 1 thread.* run \(busy\)"),
        ("1 / 0", "importing 'unfit' raised ZeroDivisionError"),
        pytest.param("from mpi4py import MPI\nMPI.Init()",
                     "'unfit' cannot be preloaded: MPI is initialized", marks=PART),
        pytest.param("import os\nos._exit(3)", "'unfit'", marks=PART),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_shared_is_refused_by_name(module, source, why):
    module("unfit", source)
    with pytest.raises(StartError, match=why):
        Cluster(2, preload=("unfit",))
    with Cluster(1) as cluster:
        assert on_ranks(cluster, "return rank") == [0]


def test_bad_preload():
    for preload in ("torch", ("no name",), (3,), 3, ("a..b",)):
        with pytest.raises(ValueError, match="preload="):
            Cluster(1, preload=preload)


@pytest.mark.mpi
def test_ranks_find_the_environment_and_folder_of_now(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("SET_LATELY", "yes")
    monkeypatch.chdir(tmp_path)
    cluster.restart()
    body = (
        "import os, subprocess, sys\n"
        "code = 'from mpi4py import MPI; print(MPI.COMM_WORLD.Get_size())'\n"
        "alone = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)\n"
        "threads = os.environ['OMP_NUM_THREADS'], os.environ['NUMBA_NUM_THREADS']\n"
        "return os.environ.get('SET_LATELY'), os.getcwd(), alone.stdout, threads"
    )
    assert on_ranks(cluster, body) == [("yes", str(tmp_path), "1\n", ("1", "1"))] * 3


@pytest.mark.mpi
def test_ipyparallels_own_client_works_on_the_ranks_and_knows_no_others(cluster):
    cluster.restart()
    view = cluster.client[:]
    view.execute("total = 2 * comm.allreduce(rank)", block=True)  # as %%px does
    assert view["total"] == [6] * 3
    assert sorted(view.apply_sync(os.getpid)) == sorted(cluster.pids)


# -- ranks that make processes and threads -----------------------------------------------------


@pytest.mark.mpi
@pytest.mark.parametrize(
    "end", ["cluster.restart()", "cluster.stop()", "os.kill(cluster.pids[0], 9)"]
)
def test_what_a_rank_has_started_ends_with_it(end):
    body = "import subprocess; return subprocess.Popen(['sleep', '600']).pid"
    with Cluster(2) as cluster:
        pids = on_ranks(cluster, body)
        exec(end, {"cluster": cluster, "os": os})
        assert eventually(lambda: not any(map(psutil.pid_exists, pids)), 60)


# -- ends --------------------------------------------------------------------------------------


@pytest.mark.mpi
@pytest.mark.parametrize("victim", ["forkserver", "controller"])
@pytest.mark.parametrize("busy", [pytest.param(False, marks=PART), True])
def test_a_killed_process_beside_the_kernel_is_named_and_all_come_back(victim, busy):
    with Cluster(2) as cluster:
        server = psutil.Process(psutil.Process(cluster.pids[0]).ppid())
        log = str(cluster._processes.folder / "controller.log")
        (controller,) = (child for child in server.children() if output_of(child) == log)
        below = [controller, *map(psutil.Process, cluster.pids)]
        doomed = {"forkserver": server, "controller": controller}[victim]
        words = {"forkserver": "process that forks them has ended", "controller": "the controller"}
        if busy:
            body = f"import os, time\nif rank == 0: os.kill({doomed.pid}, 9)\ntime.sleep(60)"
        else:
            doomed.kill()
            assert eventually(cluster._processes.ranks_exited)
            body = "return rank"
        with pytest.raises(RankDiedError, match=words[victim]):
            on_ranks(cluster, body, timeout=50)
        assert on_ranks(cluster, "return comm.allreduce(rank)") == [1, 1]
        _, alive = psutil.wait_procs(below, timeout=10)
        assert alive == []


@pytest.mark.mpi
@pytest.mark.parametrize("waits", [(0.0,), pytest.param((0.0, 0.02, 0.05, 0.1, 0.2), marks=PART)])
def test_ranks_killed_while_they_start_do_not_stop_the_next(cluster, waits):
    cluster.restart()  # a test before may have ended the server
    server = psutil.Process(cluster._processes._server.process.pid)
    for wait in waits:
        before = set(server.children())
        cluster._relaunch()  # starts new ranks, and does not wait for them
        time.sleep(wait)
        for child in set(server.children()) - before:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended by itself
                if "engine" not in output_of(child):
                    continue
                child.kill()
                assert eventually(cluster._processes.ranks_exited, 60)
                break
        cluster._relaunch()
        assert on_ranks(cluster, "return comm.allreduce(1)") == [3, 3, 3]


@pytest.mark.mpi
@pytest.mark.parametrize("restarts", [2, pytest.param(20, marks=PART)])
def test_many_restarts_leave_no_process_file_or_descriptor(cluster, restarts):
    cluster.restart()
    server = psutil.Process(cluster._processes._server.process.pid)
    children, files = len(server.children()), server.num_fds()
    memory, mine = server.memory_info().rss, psutil.Process().num_fds()
    for _ in range(restarts):
        cluster.restart()
    assert len(server.children()) == children
    assert server.num_fds() == files
    assert psutil.Process().num_fds() <= mine + 2
    assert left_by_ranks_of(server.pid) == []
    assert server.memory_info().rss < memory + 4e6
    assert on_ranks(cluster, "return rank") == [0, 1, 2]


@pytest.mark.mpi
def test_more_processes_than_the_system_allows_are_an_error_and_leave_nothing():
    with Cluster(3) as cluster:
        server = psutil.Process(cluster._processes._server.process.pid)
        before = len(server.children())
        soft, hard = server.rlimit(psutil.RLIMIT_NOFILE)
        server.rlimit(psutil.RLIMIT_NOFILE, (server.num_fds() + 3, hard))
        try:
            with pytest.raises(StartError, match=r"cannot fork \d processes more"):
                Cluster(8)
        finally:
            server.rlimit(psutil.RLIMIT_NOFILE, (soft, hard))
        assert eventually(lambda: len(server.children()) == before)
        assert on_ranks(cluster, "return comm.allreduce(1)") == [3, 3, 3]


@pytest.mark.mpi
@PART
def test_where_ranks_cannot_be_forked_mpiexec_starts_them(monkeypatch, tmp_path):
    monkeypatch.setattr(forked, "_obstacle", [])
    place = tmp_path / ("x" * 90)  # no socket's path can be so long
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with Cluster(2) as cluster:
        assert on_ranks(cluster, "return comm.allreduce(1)") == [2, 2]
        starters = {psutil.Process(pid).parent().name() for pid in cluster.pids}
        assert starters == {"sh"}  # which writes down how a rank of mpiexec ended
    assert "too long" in forked.why_not_to_fork_here()
    assert list(place.iterdir()) == []


@pytest.mark.mpi
def test_a_rank_that_aborts_takes_the_others_along_and_is_named(cluster):
    def aborts():
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 1:
            MPI.COMM_WORLD.Abort(3)
        MPI.COMM_WORLD.recv(source=1)

    with pytest.raises(RankDiedError, match=r"Rank 1 died, it ended with exit code 3\."):
        cluster.run(aborts, timeout=20)  # and no RankTimeoutError
