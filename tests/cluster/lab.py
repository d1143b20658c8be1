"""A small cluster within this machine: a login host and three nodes, a real Slurm, real sshd.

``python -m tests.cluster.lab FOLDER MPI_DEFAULT`` is the first process of a world of its own
(namespaces of processes, mounts and network), which ends with it: no daemon, job, link or socket
can outlive it, and the machine's own /run, network and processes are not touched. :class:`Lab`
starts it, and runs programs on its hosts. All see one file system, as on a cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from multiprocessing import Process
from pathlib import Path

import psutil

from helpers.cluster.start.network import keeper, system
from helpers.cluster.start.network.system import (
    HOST,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    enter,
    mount,
)
from helpers.paths import ROOT

LOGIN, NODES = "host0", ("host1", "host2", "host3")
HOSTS = (LOGIN, *NODES)
OWN = tuple(f"{kind}-{node}" for node in NODES for kind in ("spool", "tmp"))  # folders of each
NEEDED = {"slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "sbatch": "slurm-wlm"}
NEEDED |= {"munged": "munge", "sshd": "openssh-server", "ip": "iproute2", "nsenter": "util-linux"}
PATHS = os.pathsep.join([os.environ.get("PATH", os.defpath), *system.SUPERUSER_PATHS])
START_SECONDS = 40.0
# as a site has it, but for what asks for hardware, accounts and control groups that are not there
SLURM = """\
ClusterName=lab
SlurmctldHost={login}({address})
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault={mpi}
ReturnToService=2
SlurmdParameters=config_overrides
PartitionName=normal Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=spread Nodes=ALL MaxCPUsPerNode=2 MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=10 State=UP
"""
SSHD = """\
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
"""
SSH = """\
Host host*
    IdentityFile {folder}/user_key
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    BatchMode yes
"""


def why_not() -> str:
    """Return what is missing for a lab on this machine, empty if nothing is."""
    if sys.platform != "linux":
        return "hosts are namespaces of Linux"
    if os.geteuid() != 0:
        return "a cluster with a Slurm and sshd of its own takes root"
    missing = {NEEDED[name] for name in NEEDED if shutil.which(name, path=PATHS) is None}
    if missing:
        return f"Debian's packages bring what is missing: apt install {' '.join(sorted(missing))}"
    tried = subprocess.run(["unshare", "--pid", "--fork", "--mount", "--net", "true"])
    return "" if tried.returncode == 0 else "this container may not make namespaces"


class Lab:
    """A running lab.

    ``folder`` is an empty one for its files; ``mpi`` is Slurm's MpiDefault.
    """

    def __init__(self, folder: Path, mpi: str = "none") -> None:
        self.folder = folder
        world = ["--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc", "--ipc"]
        with (folder / "lab.out").open("w") as output:
            self.process = subprocess.Popen(
                ["unshare", *world, sys.executable, "-m", "tests.cluster.lab", str(folder), mpi],
                cwd=ROOT,
                stdin=subprocess.PIPE,  # closed when this process ends, however it ends
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + START_SECONDS
        while not (folder / "ready").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                logs = "".join(path.read_text()[-3000:] for path in folder.glob("*.log"))
                self.stop()
                raise RuntimeError((folder / "lab.out").read_text() + logs)
            time.sleep(0.05)
        self.first = psutil.Process(self.process.pid).children()[0]
        self.hosts = dict(zip(HOSTS, json.loads((folder / "ready").read_text()), strict=True))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
            "SLURM_CONF": str(folder / "slurm.conf"),
            "HOME": str(folder / "home"),
            "IPYTHONDIR": str(folder / "home" / "ipython"),
            "PATH": PATHS,
            "PYTHONPATH": str(ROOT),
        }

    def start(self, host: str, *command: str, **options) -> subprocess.Popen:
        """Start a program on a host; its ``pid`` is that of the process that waits for it."""
        inside = ["-t", str(self.first.pid), "-p", "-m", "nsenter", "-t", str(self.hosts[host])]
        work = options.pop("cwd", self.folder / "home")
        folder = f"--wd={work}"
        return subprocess.Popen(
            ["nsenter", *inside, "-n", "-i", "-u", "-m", folder, *command],
            env=self.environment | options.pop("env", {}),
            stdin=subprocess.DEVNULL,
            text=True,
            **options,
        )

    def run(self, host: str, *command: str, timeout: float = 60.0, **options) -> str:
        """Run a program on a host and return its output; AssertionError if it fails."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with self.start(host, *command, **pipes, **options) as process:
            try:
                output, _ = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        assert process.returncode == 0, f"{command} ended with {process.returncode}:\n{output}"
        return output

    def jobs(self) -> list[str]:
        """Return Slurm's jobs that are not over, as ``number state``."""
        return self.run(LOGIN, "squeue", "--noheader", "--format=%i %T").splitlines()

    def lose(self, host: str) -> None:
        """Take a host's power away: no packet leaves it any more, and its processes are gone."""
        self.run(host, "ip", "link", "set", "eth0", "down")
        keeper = self.inside(self.hosts[host])
        network = os.stat(f"/proc/{keeper}/ns/net").st_ino
        there = []
        for process in self.processes():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{process.pid}/ns/net").st_ino == network:
                    there.append(process)
        for deed in ("suspend", "kill"):  # none may see another end, and write it down
            for process in there:
                if process.pid != keeper:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        getattr(process, deed)()

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the lab, but for the first."""
        world = os.stat(f"/proc/{self.first.pid}/ns/pid").st_ino
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{process.pid}/ns/pid").st_ino == world:
                    found.append(process)
        return [process for process in found if process != self.first]

    def inside(self, pid: int) -> int:
        """Return this machine's number of a process that is ``pid`` in the lab."""
        for process in self.processes():
            with contextlib.suppress(OSError), open(f"/proc/{process.pid}/status") as file:
                numbers = next(line for line in file if line.startswith("NSpid:")).split()
                if int(numbers[-1]) == pid:
                    return process.pid
        raise LookupError(f"no process {pid} in the lab")

    def stop(self) -> None:
        """End it with all that is in it."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


# -- what runs as the first process of the lab ---------------------------------------------------


def main(folder: Path, mpi: str) -> None:
    """Build the lab, say so in the file ``ready``, and keep it until stdin is closed."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV)
    for name in ("run/munge", "run/sshd", "state", "home", *OWN):
        path = Path("/", name) if name.startswith("run") else folder / name
        path.mkdir(parents=True, mode=0o755)
    Path(folder, "home", "work").mkdir()
    Process(
        target=keeper.keep, args=(lambda: None, str(folder), {"hosts": len(HOSTS)}), daemon=True
    ).start()
    while (told := keeper.Told.read(folder / "network.json")) is None:
        time.sleep(0.01)
    if told.error:
        sys.exit(told.error)
    hosts = dict(zip(HOSTS, told.hosts, strict=True))
    _start_slurm(folder, mpi, hosts)
    _start_ssh(folder, hosts)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whose parents are gone are ours
    part = folder / "ready.part"
    part.write_text(json.dumps(told.hosts))
    part.rename(folder / "ready")
    sys.stdin.read()


def _daemon(host: int | None, folder: Path, *command: str) -> None:
    with (folder / f"{command[0]}.out").open("a") as output:
        subprocess.Popen(
            [shutil.which(command[0], path=PATHS), *command[1:]],
            preexec_fn=host and (lambda: enter(host, HOST)),
            env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": PATHS},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )


def _start_slurm(folder: Path, mpi: str, hosts: dict[str, int]) -> None:
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("log", "seed", "pid")]
    _daemon(None, folder, "munged", "--foreground", "--force", f"--key-file={key}", *files)
    text = SLURM.format(folder=folder, mpi=mpi, login=LOGIN, address=system.address(0))
    for number, node in enumerate(NODES, 1):
        text += f"NodeName={node} NodeAddr={system.address(number)} CPUs=4 State=UNKNOWN\n"
    (folder / "slurm.conf").write_text(text)
    # starts where no file system of control groups is mounted
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    while not Path("/run/munge/munge.socket.2").exists():
        time.sleep(0.01)
    _daemon(hosts[LOGIN], folder, "slurmctld", "-D")
    for node in NODES:
        _daemon(hosts[node], folder, "slurmd", "-D", "-N", node)
    look = ["sinfo", "--noheader", "--Node", "--partition=normal", "--format=%T"]
    while True:
        done = subprocess.run(
            look,
            preexec_fn=lambda: enter(hosts[LOGIN], HOST),
            env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": PATHS},
            capture_output=True,
            text=True,
        )
        if done.stdout.split() == ["idle"] * len(NODES):
            return
        time.sleep(0.1)


def _start_ssh(folder: Path, hosts: dict[str, int]) -> None:
    for name in ("host_key", "user_key"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(make, check=True)
    (folder / "sshd_config").write_text(SSHD.format(folder=folder))
    (folder / "ssh_config").write_text(SSH.format(folder=folder))
    for host in HOSTS:
        # every host's /etc/ssh/ssh_config, which is all that ssh reads besides the user's own
        bind = Process(target=_bind, args=(hosts[host], folder / "ssh_config"))
        bind.start()
        bind.join()
        _daemon(hosts[host], folder, "sshd", "-D", "-e", "-f", str(folder / "sshd_config"))


def _bind(host: int, config: Path) -> None:
    enter(host, HOST)
    mount(str(config), "/etc/ssh/ssh_config", None, MS_BIND)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
