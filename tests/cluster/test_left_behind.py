"""Nothing is left, and nobody is let in: small shared memory, kills in each phase, open ports."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from helpers.cluster import Mpiexec
from helpers.machine import shared_memory
from helpers.paths import ROOT
from tests.cluster.kernel import Kernel, Watch
from tests.cluster.test_forkserver import left_by_ranks_of, output_of
from tests.cluster.ways import PART, WAYS, eventually, mapped

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces and /proc are Linux's"),
]


def script(folder: Path, source: str) -> list[str]:
    """Write a program; return the command that runs it."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(source))
    return [sys.executable, str(path)]


def with_shared_memory(megabytes: float, command: list[str], folder: Path) -> str:
    """Run a command where ``/dev/shm`` has so much room; return what it printed."""
    mount = f"mount -t tmpfs -o size={int(megabytes * 2**20)} tmpfs /dev/shm"
    if not megabytes:
        mount = "mount -t tmpfs -o size=64k tmpfs /dev && mknod -m 666 /dev/null c 1 3"
        mount += " && mknod -m 666 /dev/urandom c 1 9"
    inside = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", *command]
    if os.getuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a mount namespace of one's own needs root and unshare")
    done = subprocess.run(
        inside,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=360,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# -- shared memory -----------------------------------------------------------------------------


INTERRUPTED = """
    import os, signal, sys, threading, time, psutil
    from helpers.cluster import Cluster, Mpiexec, StartError

    def there(folder):
        return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)

    def start(after):
        timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            with Cluster(2, start={start!r}):
                time.sleep(20)
        except KeyboardInterrupt as error:
            kept.append(error)  # with its traceback, as IPython does

    kept = []
    if __name__ == "__main__":
        Cluster(2, start={start!r}).stop()  # what is kept for good is there
        home = there(os.environ["HOME"])
        for tenths in {moments}:
            start(tenths / 10)
            below = psutil.Process().children(recursive=True)
            assert psutil.wait_procs(below, timeout=10)[1] == [], tenths
            assert os.listdir("/dev/shm") == [], (tenths, os.listdir("/dev/shm"))
            assert there(os.environ["HOME"]) == home, (tenths, home, there(os.environ["HOME"]))
        space = os.statvfs("/dev/shm")
        print(space.f_blocks == space.f_bfree)
"""


@pytest.mark.parametrize(
    ("start", "moments"),
    [
        (None, [2]),
        pytest.param(None, [0.5, 1, 2, 3, 5, 8, 12], marks=PART),
        pytest.param(Mpiexec(), [2, 8, 15, 25], marks=PART),
    ],
)
def test_a_start_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch, start, moments):
    home = tmp_path / "home"
    home.mkdir()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("HOME", str(home))
    command = script(tmp_path, INTERRUPTED.format(start=start, moments=moments))
    assert with_shared_memory(64, command, temporary) == "True\n"
    assert [path.name for path in temporary.iterdir()] == []


@pytest.mark.parametrize("megabytes", [1, pytest.param(0, marks=PART)])
@pytest.mark.parametrize("start", WAYS)
def test_too_little_shared_memory_is_one_sentence(tmp_path, start, megabytes):
    source = f"""
        from helpers.checkup import _run, _ranks
        from helpers.cluster import Cluster, Mpiexec, StartError
        if __name__ == "__main__":
            try:
                Cluster(4, start={start!r})
            except StartError as error:
                print(error)
            print(_run("MPI ranks", lambda: _ranks(4)))
    """
    said = with_shared_memory(megabytes, script(tmp_path, source), tmp_path).splitlines()
    assert len(said) == 2
    for line in said:
        assert "4 MPI ranks need 4 MB of shared memory, and /dev/shm has " in line
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


# -- kills -------------------------------------------------------------------------------------

STARTS = """
    import sys, time
    from helpers.cluster import Cluster
    if __name__ == "__main__":
        print(1, flush=True)
        try:
            Cluster(2)
        except Exception as error:
            print(type(error).__name__, flush=True)
        else:
            print("up", flush=True)
            time.sleep(60)
"""
PHASES = {  # what there is when the blow falls
    "the folder": lambda seen: seen["folder"],
    "the controller": lambda seen: seen["controller"],
    "one rank": lambda seen: len(seen["engine"]) >= 1,
    "all ranks": lambda seen: len(seen["engine"]) >= 2,
    "MPI's memory": lambda seen: any(map(maps_mpis_memory, seen["engine"])),
    "a connection": lambda seen: seen["connection"],
}


def maps_mpis_memory(process: psutil.Process) -> bool:
    with contextlib.suppress(OSError):
        return any(name.startswith("mpich_shm_") for name in mapped(process.pid))
    return False


def look(kernel: psutil.Process, place: Path) -> dict:
    """Return what has been started so far below a kernel."""
    seen = {"server": kernel.children(), "controller": [], "engine": []}
    seen["folder"] = list(place.glob("ranks-*"))
    seen["connection"] = list(place.glob("ranks-*/profile/security/*client.json"))
    for process in [child for server in seen["server"] for child in server.children()]:
        for program in ("controller", "engine"):
            if output_of(process).endswith(f"/{program}.log"):
                seen[program].append(process)
    return seen


VICTIMS = ["kernel", "controller", "engine", "server", "kernel", "both"]
ONCE = set(zip(PHASES, VICTIMS, strict=True))  # one kill in each phase; the part has them all


@pytest.mark.parametrize(
    ("phase", "victim"),
    [
        pytest.param(phase, victim, marks=[] if (phase, victim) in ONCE else PART)
        for phase in PHASES
        for victim in sorted(set(VICTIMS))
    ],
)
def test_a_kill_in_each_phase_of_a_start_leaves_nothing(tmp_path, phase, victim):
    source = script(tmp_path, STARTS)
    place = tmp_path / "t"
    place.mkdir()
    environment = {**os.environ, "TMPDIR": str(place)}
    run = subprocess.Popen(source, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    kernel = psutil.Process(run.pid)
    try:
        assert run.stdout.readline() == "1\n"
        deadline = time.monotonic() + 30
        while not PHASES[phase](seen := look(kernel, place)) and time.monotonic() < deadline:
            time.sleep(0.005)
        servers = [process.pid for process in seen["server"]]
        seen |= {"kernel": [kernel], "both": [*seen["server"], kernel]}
        targets = seen[victim]
        if not targets:
            pytest.skip(f"there is no {victim} yet")
        below = kernel.children(recursive=True)
        for target in targets[:2] if victim == "both" else targets[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                target.kill()
        if victim in ("kernel", "both"):
            run.wait(60)
        else:  # an error or, if the blow came late, ranks: never a wait without end
            assert run.stdout.readline() in ("StartError\n", "up\n")
            run.terminate()
            run.wait(60)
        _, alive = psutil.wait_procs(below, timeout=60)
        assert alive == []
        if victim == "both":  # nobody is left who could: the next cluster does it
            code = "from helpers.cluster.start import folders; folders.sweep()"
            subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        assert eventually(lambda: not list(place.iterdir())), list(place.iterdir())
        if victim != "both":
            assert [name for pid in servers for name in left_by_ranks_of(pid)] == []
    finally:
        run.kill()
        run.wait()


def test_a_killed_kernel_that_began_mpi_by_itself_leaves_nothing():
    kernel = Kernel()
    process = psutil.Process(kernel.pid)
    try:
        said = kernel("%load_ext helpers.cluster\nfrom mpi4py import MPI\nMPI.COMM_WORLD.size")
        assert said.text.endswith("1"), said
        said = kernel("MPI.COMM_WORLD.bcast('both')")
        assert said.text == "'both'", said
    finally:
        process.kill()
        kernel.end()
    assert list(shared_memory.FOLDER.glob(f"mpich_shm_{process.pid:x}_*")) == []


# -- ports -------------------------------------------------------------------------------------


def listening(pid: int) -> set[tuple[str, str, int]]:
    """Return a process's name with each address at which it can be reached."""
    process = psutil.Process(pid)
    return {
        (process.name(), found.laddr.ip, found.laddr.port)
        for found in process.net_connections("inet")
        if found.status == psutil.CONN_LISTEN or found.type == 2  # a datagram's
    }


@pytest.mark.parametrize("start", WAYS)
def test_nobody_listens_beyond_loopback_during_and_after_a_start(tmp_path, start):
    kernel = Kernel(cwd=str(tmp_path))
    ports = Watch(kernel.pid, listening, every=0.02)
    try:
        code = f"""
        %load_ext helpers.cluster
        from helpers.cluster import Cluster, Mpiexec
        cluster = Cluster(2, start={start!r})
        cluster.restart()
        cluster.run(max, 1, 2)
        """
        assert not kernel(textwrap.dedent(code)).error
    finally:
        beyond = {found for found in ports.end() if found[1] not in ("127.0.0.1", "::1")}
        kernel.end(now=True)
    # MPICH's mpiexec listens on all addresses for its own helpers, has no setting for that, and
    # what it starts inherits these very sockets
    hydra = ("mpiexec", "hydra") if start else ()
    its = {port for name, _, port in beyond if hydra and name.startswith(hydra)}
    assert {found for found in beyond if found[2] not in its} == set()


# -- other users -------------------------------------------------------------------------------

INTRUDER = """
    import ctypes, json, os, socket, sys
    told = json.loads(sys.argv[1])
    os.setgroups([]); os.setgid(told["group"]); os.setuid(65534)
    opened = []
    system = ctypes.CDLL(None)
    system.shmat.restype = ctypes.c_void_p
    def attempt(what, act):
        try:
            act()
        except (PermissionError, FileNotFoundError, ProcessLookupError, ConnectionRefusedError):
            return
        opened.append(what)
    attempt("list", lambda: os.listdir(told["folder"]))
    for number in told["segments"]:
        if system.shmat(number, None, 0) != ctypes.c_void_p(-1).value:
            opened.append(f"memory segment {number}")
    for address in told["ports"]:
        attempt(f"port {address}", lambda: socket.create_connection(address, 2))
    for path in told["files"]:
        attempt(path, lambda: open(path, "rb"))
        def connect():
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(path)
        attempt(f"socket {path}", connect)
    for pid in told["pids"]:
        attempt(f"signal {pid}", lambda: os.kill(pid, 0))
        attempt(f"memory {pid}", lambda: open(f"/proc/{pid}/mem", "rb"))
        attempt(f"maps {pid}", lambda: open(f"/proc/{pid}/maps").read())
        for link in told["links"]:
            attempt(link, lambda: open(link, "rb"))
    print(json.dumps(opened))
"""


def torch_group() -> list[str]:
    """Begin torch.distributed on a rank; return the files and sockets that it has open."""
    import torch
    import torch.distributed as dist

    import helpers.torch_mpi  # noqa: F401

    if not dist.is_initialized():
        dist.init_process_group("mpi4py", init_method="mpi://")
    dist.all_reduce(torch.ones(3))
    return [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")[:-1]]


@PART
@pytest.mark.parametrize("start", [None, Mpiexec()])
@pytest.mark.parametrize("group", [65534, os.getgid()])
def test_another_user_reaches_no_rank_file_window_or_socket(start, group):
    """Nor one of the same group, and the same with a group of torch.distributed."""
    if os.getuid() != 0:
        pytest.skip("to be another user needs root")
    from helpers.cluster import Cluster
    from tests.cluster.test_cluster import on_ranks

    with Cluster(2, start=start) as cluster:
        assert start is None or cluster.client.curve_serverkey  # its ports are open to all
        on_ranks(cluster, "global win; win = MPI.Win.Allocate_shared(4096, comm=comm)")
        for opened in cluster.run(torch_group, timeout=120):
            assert any("/torch_mpi-" in path for path in opened)  # the store
        folder = cluster._processes.folder
        files = [str(path) for path in folder.rglob("*") if not path.is_dir()]
        told = {"folder": str(folder), "pids": list(cluster.pids), "group": group}
        told |= {"links": [], "segments": [], "ports": []}
        if start is None:
            assert any("s:" in name for name in files)  # the controller's sockets
            told["pids"].append(cluster._processes._server.process.pid)
        for pid in cluster.pids:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                if "/dev/shm/" in line or "/SYSV" in line:
                    told["links"].append(f"/proc/{pid}/map_files/{line.split()[0]}")
                if "/SYSV" in line:
                    told["segments"].append(int(line.split()[4]))
            for name in os.listdir(f"/proc/{pid}/fd"):
                told["links"].append(f"/proc/{pid}/fd/{name}")
            process = psutil.Process(pid)
            for found in process.net_connections("inet"):
                if not found.raddr and start is None:  # mpiexec's port is inherited
                    told["ports"].append(found.laddr)
        assert told["segments"] or "sysv" not in shared_memory.ucx_transports()
        told["files"] = [*files, *map(str, Path("/dev/shm").glob("mpich_*"))]
        code = textwrap.dedent(INTRUDER)
        done = subprocess.run(
            [sys.executable, "-c", code, json.dumps(told)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == []
        assert told["ports"] == []
        assert on_ranks(cluster, "return comm.allreduce(1)") == [2, 2]
