"""No process and no folder is left behind, however the notebook's kernel ends."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from helpers.cluster import Mpiexec
from helpers.machine import guard
from tests.cluster.ways import MPIEXEC, PART, WAYS, eventually

pytestmark = pytest.mark.mpi

START = """
from helpers.cluster import Cluster, Mpiexec
cluster = Cluster(2, start={!r})
cluster.run(int)
"""
FEWEST = {None: 4, Mpiexec(): 6}  # who forks or two guards and mpiexec; controller; two ranks


@pytest.fixture(params=WAYS)
def kernel(request, tmp_path):
    """A real Jupyter kernel, and how its cluster is to be started: (manager, client, start)."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(cwd=str(tmp_path), startup_timeout=120)
    yield manager, client, request.param
    client.stop_channels()
    manager.shutdown_kernel(now=True)  # of a killed one the connection file


def execute(client, code: str, timeout: float = 120) -> dict:
    """Run code in the kernel; return the reply's content."""
    return client.execute_interactive(
        textwrap.dedent(code), timeout=timeout, output_hook=lambda message: None
    )["content"]


def start_cluster(kernel) -> tuple[list[psutil.Process], Path]:
    """Start a cluster in the kernel; return all processes below the kernel, and its folder."""
    _, client, start = kernel
    reply = client.execute_interactive(
        START.format(start),
        timeout=120,
        output_hook=lambda message: None,
        user_expressions={
            "folder": "str(cluster._processes.folder)",
            "kernel": "__import__('os').getpid()",
            "pids": "__import__('json').dumps(cluster.pids)",
        },
    )["content"]
    assert reply["status"] == "ok", reply
    told = {
        name: value["data"]["text/plain"].strip("'")
        for name, value in reply["user_expressions"].items()
    }
    below = psutil.Process(int(told["kernel"])).children(recursive=True)
    assert set(json.loads(told["pids"])) <= {process.pid for process in below}
    assert len(below) >= FEWEST[start]
    return below, Path(told["folder"])


def assert_gone(processes: list[psutil.Process], folder: Path) -> None:
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert [process.cmdline() for process in alive] == []
    assert eventually(lambda: not folder.exists())


def test_the_kernel_itself_never_initialises_mpi(kernel):
    start_cluster(kernel)
    code = """
    %load_ext helpers.cluster
    get_ipython().run_cell_magic("ranks", "--trace trace", "comm.allreduce(rank)")
    import sys
    assert {event.call for event in trace.events} >= {"allreduce"}
    assert "mpi4py.MPI" not in sys.modules
    """
    reply = execute(kernel[1], code)
    assert reply["status"] == "ok", reply


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
    manager, client, _ = kernel
    assert execute(client, STUCK)["status"] == "ok"
    if end == "kill":
        manager.signal_kernel(signal.SIGKILL)
    elif end == "stop":
        assert execute(client, "cluster.stop()")["status"] == "ok"
    else:
        getattr(manager, end)()
    assert_gone(below, folder)


def test_interrupted_start(kernel, tmp_path):
    manager, client, start = kernel
    execute(client, "from helpers.cluster import Cluster, Mpiexec\nimport os, psutil")
    client.execute(f"open('begun', 'w').close()\ncluster = Cluster(3, start={start!r})")
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.6)
    below = psutil.Process(kernel_pid(manager)).children(recursive=True)
    manager.interrupt_kernel()
    execute(client, "pass")  # the kernel is back at its prompt
    _, alive = psutil.wait_procs(below, timeout=10)
    assert [process.cmdline() for process in alive] == []
    below = psutil.Process(kernel_pid(manager)).children(recursive=True)
    assert [process.cmdline() for process in below] == []
    reply = execute(client, "cluster")
    assert reply["ename"] == "NameError"


class SharedMemory:
    """Notes every tenth of a second which files of shared memory the processes below one map."""

    def __init__(self, root: int) -> None:
        self.root, self.names, self.ended = root, set(), threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self) -> None:
        while not self.ended.wait(0.1):
            for pid in guard.descendants(self.root):
                with contextlib.suppress(OSError):
                    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
                    paths = (line.partition("/dev/shm/")[2].split() for line in lines)
                    self.names |= {path[0] for path in paths if path}

    def left(self) -> list[str]:
        self.ended.set()
        self.thread.join()
        assert self.names != set()
        return [name for name in self.names if Path("/dev/shm", name).exists()]


@pytest.mark.parametrize("kernel", [MPIEXEC], indirect=True)
@pytest.mark.parametrize("end", ["stop", "restart", "deadlock", "rank", "kernel", "mpiexec"])
def test_no_file_of_mpiexec_or_its_ranks_is_left(kernel, end):
    manager, client, _ = kernel
    seen = SharedMemory(kernel_pid(manager))
    below, folder = start_cluster(kernel)
    if end == "kernel":
        manager.signal_kernel(signal.SIGKILL)
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
        execute(client, code)
        reply = execute(client, "assert cluster.run(int) == [0, 0]\ncluster.stop()")
        assert reply["status"] == "ok", reply
        assert_gone(below, folder)
    assert seen.left() == []


def kernel_pid(manager) -> int:
    """Return the process id of the kernel itself."""
    pid = manager.provisioner.pid
    assert pid is not None
    assert os.path.exists(f"/proc/{pid}") or psutil.pid_exists(pid)
    return pid


@pytest.mark.parametrize("kernel", [None], indirect=True)
@pytest.mark.parametrize(
    "end",
    ["restart_kernel", *(pytest.param(end, marks=PART) for end in ("shutdown_kernel", "kill"))],
)
def test_what_load_ext_prepares_is_used_kept_and_ends_with_the_kernel(kernel, end):
    manager, client, _ = kernel
    code = """
    %load_ext helpers.cluster
    import os, psutil, time
    from helpers.cluster import Cluster
    (server,) = psutil.Process().children()
    for _ in range(2):
        with Cluster(2) as cluster:
            assert {psutil.Process(pid).ppid() for pid in cluster.pids} == {server.pid}
    assert server.is_running()
    assert server.children() == []
    """
    reply = execute(client, code)
    assert reply["status"] == "ok", reply
    below = psutil.Process(kernel_pid(manager)).children(recursive=True)
    assert below != []
    if end == "kill":
        manager.signal_kernel(signal.SIGKILL)
    else:
        getattr(manager, end)()
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
        deadline = time.monotonic() + 10
        while len(guard._proxies_started(())) == len(before) and time.monotonic() < deadline:
            time.sleep(0.01)  # until it is called so
        assert abs(max(guard._proxies_started(())) - time.time()) < 15
        assert max(guard._proxies_started([proxy.pid]), default=0) < proxy_began
        proxy.kill()
