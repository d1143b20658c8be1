"""No process and no folder is left behind, however the notebook's kernel ends."""

import json
import os
import shutil
import signal
import subprocess
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from helpers.cluster import Cluster, Mpiexec
from helpers.cluster.kernel.gathering import uninterrupted
from helpers.cluster.start import guarded
from helpers.machine import guard
from tests.cluster.kernel import Kernel, Watch
from tests.cluster.ways import MPIEXEC, PART, WAYS, eventually, mapped

pytestmark = pytest.mark.mpi

START = """
from helpers.cluster import Cluster, Mpiexec
cluster = Cluster(2, start={!r})
cluster.run(int)
"""
WHERE = "import json; print(json.dumps([cluster.pids, str(cluster._processes.folder)]))"
FEWEST = {None: 4, Mpiexec(): 6}  # who forks or two guards and mpiexec; controller; two ranks


@pytest.fixture(params=WAYS)
def kernel(request, tmp_path):
    """A real Jupyter kernel, which knows how its cluster is to be started."""
    kernel = Kernel(cwd=str(tmp_path))
    kernel.start = request.param
    yield kernel
    kernel.end(now=True)  # of a killed one the connection file


def start_cluster(kernel) -> tuple[list[psutil.Process], Path]:
    """Start a cluster in the kernel; return all processes below the kernel, and its folder."""
    assert not kernel(START.format(kernel.start)).error
    pids, folder = json.loads(kernel(WHERE).text)
    below = psutil.Process(kernel.pid).children(recursive=True)
    assert set(pids) <= {process.pid for process in below}
    assert len(below) >= FEWEST[kernel.start]
    return below, Path(folder)


def assert_gone(processes: list[psutil.Process], folder: Path) -> None:
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert [process.cmdline() for process in alive] == []
    assert eventually(lambda: not folder.exists())


def test_the_kernel_itself_never_initialises_mpi(kernel):
    start_cluster(kernel)
    assert not kernel("%load_ext helpers.cluster").error
    assert not kernel("%%ranks --trace trace\ncomm.allreduce(rank)").error
    seen = "{event.call for event in trace.events} >= {'allreduce'}, 'mpi4py.MPI' in sys.modules"
    assert kernel(f"import sys\n{seen}").text == "(True, False)"


STUCK = """
import threading
stuck = threading.Thread(
    target=lambda: cluster.run(lambda: comm.recv(source=1 - rank), timeout=100), daemon=True)
stuck.start()
stuck.join(0.6)
"""


@pytest.mark.parametrize(
    "end", ["kill", "stop", "shutdown_kernel", pytest.param("restart_kernel", marks=PART)]
)
def test_ranks_that_are_stuck_in_mpi_end_with_their_cluster_and_kernel(kernel, end):
    below, folder = start_cluster(kernel)
    assert not kernel(STUCK).error
    if end == "kill":
        kernel.manager.signal_kernel(signal.SIGKILL)
    elif end == "stop":
        assert not kernel("cluster.stop()").error
    else:
        getattr(kernel.manager, end)()
    assert_gone(below, folder)


def test_an_interrupt_before_the_first_process_leaves_no_folder(tmp_path, monkeypatch):
    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(guarded.LocalProcesses, "place", str(tmp_path))
    monkeypatch.setattr(guarded.LocalProcesses, "_configure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        guarded.Mpiexec().processes(2, 1)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("kernel", [MPIEXEC], indirect=True)
@pytest.mark.parametrize("end", ["stop", "restart", "deadlock", "rank", "kernel", "mpiexec"])
def test_no_file_of_mpiexec_or_its_ranks_is_left(kernel, end):
    watch = Watch(kernel.pid, mapped, every=0.1)
    below, folder = start_cluster(kernel)
    if end == "kernel":
        kernel.manager.signal_kernel(signal.SIGKILL)
        assert_gone(below, folder)
    else:
        code = {
            "stop": "pass",
            "restart": "cluster.restart()",
            "deadlock": "cluster.run(lambda: comm.recv(source=1 - rank), timeout=1)",
            "rank": "import os; os.kill(cluster.pids[1], 9); cluster.run(int)",
            "mpiexec": "import os, psutil\n"
            "for p in psutil.Process().children(recursive=True):\n"
            "    if p.name().startswith('mpiexec'): p.kill()\n"
            "while True: cluster.run(int)",  # until the ranks have ended too, a moment later
        }[end]
        kernel(code)
        assert not kernel("assert cluster.run(int) == [0, 0]\ncluster.stop()").error
        assert_gone(below, folder)
    assert [n for n in watch.end() if Path("/dev/shm", n.split()[0]).exists()] == []


@pytest.mark.parametrize("kernel", [None], indirect=True)
def test_what_load_ext_prepares_is_used_kept_and_ends_with_the_kernel(kernel):
    code = """
    %load_ext helpers.cluster
    import gc, os, psutil, time
    assert gc.get_freeze_count() > 10_000  # imports, which the collector need not walk through
    from helpers.cluster import Cluster
    (server,) = psutil.Process().children()
    for _ in range(2):
        with Cluster(2) as cluster:
            assert {psutil.Process(pid).ppid() for pid in cluster.pids} == {server.pid}
    assert server.is_running()
    assert server.children() == []
    """
    assert not kernel(textwrap.dedent(code)).error
    below = psutil.Process(kernel.pid).children(recursive=True)
    assert below != []
    kernel.manager.restart_kernel()
    _, alive = psutil.wait_procs(below, timeout=10)
    assert alive == []


def test_topology_files_that_nobody_needs_are_swept(tmp_path, monkeypatch):
    ages = {"hydra_hwloc_xmlfile_old": 400, "hydra_hwloc_xmlfile_dead": 20, "x": 400}
    ages["hydra_hwloc_xmlfile_new"] = 1
    for name, age in ages.items():
        path = tmp_path / name
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    monkeypatch.setattr(guard, "_proxies_started", lambda but: [time.time() - 350])
    guard.sweep_topologies(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {*ages} - {"hydra_hwloc_xmlfile_old"}
    monkeypatch.setattr(guard, "_proxies_started", lambda but: [time.time() - 10])
    guard.sweep_topologies(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hydra_hwloc_xmlfile_new", "x"]
    monkeypatch.setattr(guard, "_proxies_started", lambda but: [])
    guard.sweep_topologies(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_who_makes_topology_files_is_found(tmp_path):
    sleep = tmp_path / "hydra_pmi_proxy"
    sleep.symlink_to(shutil.which("sleep"))
    before, proxy_began = guard._proxies_started(()), time.time()
    with subprocess.Popen([sleep, "60"]) as proxy:
        assert eventually(lambda: len(guard._proxies_started(())) > len(before), 10)
        assert abs(max(guard._proxies_started(())) - time.time()) < 15
        assert max(guard._proxies_started([proxy.pid]), default=0) < proxy_began
        proxy.kill()


# -- Ctrl-C while ranks are ended -----------------------------------------------------------------


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_in_another_thread_nothing_changes():
    with ThreadPoolExecutor() as pool:
        seen = pool.submit(uninterrupted()(signal.getsignal), signal.SIGINT).result()
    assert seen is signal.default_int_handler


@pytest.mark.parametrize("how", ["stopped", "no longer referred to"])
def test_ranks_are_ended_and_the_program_is_interrupted(how):
    ranks = []

    def use():
        cluster = Cluster(2)
        ranks.extend(map(psutil.Process, cluster.pids))
        stop = cluster._processes.stop
        cluster._processes.stop = lambda: (interrupt(), stop())
        if how == "stopped":
            cluster.stop()

    def run():
        use()
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert psutil.wait_procs(ranks, timeout=10)[1] == []
