"""The process that makes the hosts and keeps them: while it lives they do, and no longer."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from helpers.cluster.rank.state import read_json, write_json
from helpers.cluster.start.network import Network, system
from helpers.cluster.start.network.system import (
    HOST,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_RDONLY,
    NEWNET,
    NEWNS,
    NEWUSER,
    QUIET,
    CommandError,
    enter,
    leave,
    mount,
)
from helpers.machine.guard import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, prctl
from helpers.waiting import comes_true

SETTINGS = (  # that can forbid an ordinary user to have hosts; with which value, and which allows
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)
NETWORK_SECONDS = 60.0
LOOK_SECONDS = 0.002
CONTAINERS = "/.dockerenv", "/run/.containerenv"


class Forbidden(Exception):  # noqa: N818 (the message is for the reader)
    """The system does not let this user have hosts; the message says what would."""


@dataclass(frozen=True)
class Told:
    """What the keeper tells notebook and ranks in a file: the hosts' processes, or an error."""

    error: str = ""
    hosts: tuple[int, ...] = ()
    user: bool = False

    def write(self, path: Path) -> None:
        """Write this to a file."""
        write_json(path, self.__dict__)

    @classmethod
    def read(cls, path: Path) -> Told | None:
        """Return what a file says; None if there is no file yet."""
        told = read_json(path)
        return told and cls(**{**told, "hosts": tuple(told["hosts"])})


def keep(ready: Callable[[], None], folder: str, network: dict) -> None:
    """Make hosts, say so, and keep them until this process is killed."""
    status = Path(folder, "network.json")
    try:
        asked = Network(**network)
        user = _leave_this_network()
        told = Told("", _build(asked, Path(folder)), user)
    except (Forbidden, CommandError, OSError) as error:
        Told(str(error)).write(status)
        sys.exit(1)
    signal.signal(signal.SIGCHLD, lambda *_: os._exit(1))  # less one host it is not the network
    told.write(status)
    ready()
    while True:
        signal.pause()


def _leave_this_network() -> bool:
    """Enter a network with nothing in it; tell whether that took a user namespace."""
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):  # root of a container, perhaps
            leave(NEWNET | NEWNS)
            return False
    try:
        leave(NEWUSER | NEWNET | NEWNS)
    except OSError as error:
        raise Forbidden(why_forbidden(error)) from None
    return True


def why_forbidden(error: OSError, proc: Path = Path("/proc/sys")) -> str:
    """Say what would let this user have namespaces, in a sentence without its full stop."""
    for name, forbids, allows in SETTINGS:
        with contextlib.suppress(OSError):
            if (proc / name.replace(".", "/")).read_text().strip() == forbids:
                return f"this system gives users no networks: 'sudo sysctl -w {name}={allows}' does"
    if any(map(os.path.exists, CONTAINERS)):
        return "this container may not have networks of its own: start it with '--privileged'"
    name = errno.errorcode.get(error.errno or 0, "")
    return f"this system lets no user make a network ({name}, {error.strerror}): run this as root"


def _build(asked: Network, folder: Path) -> tuple[int, ...]:
    """Make hosts, and links between them; return the hosts' processes."""
    names = "".join(f"{system.address(number)} {name}\n" for number, name in enumerate(asked.names))
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
    hosts = [_Host(asked, number, folder) for number in range(asked.hosts)]
    for host in hosts:
        host.hear()
    system.run("ip", system.switch([host.pid for host in hosts]))
    for host in hosts:
        host.tell()
    if asked.rate is not None:
        ports = range(asked.hosts)
        system.run("tc", [system.limit(f"port{number}", asked.rate) for number in ports])
    for host in hosts:
        host.hear()
    return tuple(host.pid for host in hosts)


class _Host:
    """A process that is all that a host consists of, until ranks join it."""

    def __init__(self, asked: Network, number: int, folder: Path) -> None:
        self._ours, theirs = socket.socketpair()
        keeper = os.getpid()
        self.pid = os.fork()
        if self.pid:
            theirs.close()
            return
        self._ours.close()
        try:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(1)
            become_host(asked.names[number], folder)
            theirs.sendall(b"\n")
            theirs.recv(1)  # the link is there
            system.run("ip", system.host(number, asked.hosts))
            if asked.rate is not None:
                system.run("tc", [system.limit("eth0", asked.rate)])
            theirs.sendall(b"\n")
            while True:
                time.sleep(3600)
        except BaseException as error:
            theirs.sendall(f"{error}\n".encode())
        finally:
            os._exit(1)

    def hear(self) -> None:
        """Wait for the host's next word; raise what it says."""
        said = b""
        while not said.endswith(b"\n"):
            said += (more := self._ours.recv(4096))
            if not more:
                raise OSError(0, "a host ended while it was made")
        if said != b"\n":
            raise OSError(0, said.decode().strip())

    def tell(self) -> None:
        """Let the host go on."""
        self._ours.sendall(b"\n")


def become_host(name: str, folder: Path) -> None:
    """Make this process a host with no link yet."""
    leave(HOST)
    socket.sethostname(name)
    # UCX lists a network's devices by /sys/class/net
    mount("sysfs", "/sys", "sysfs", QUIET | MS_RDONLY)
    mount(str(folder / "hosts"), "/etc/hosts", None, MS_BIND)
    shared = Path("/dev/shm")
    if shared.is_dir() and not folder.is_relative_to(shared):  # else its files would be in all
        mount("tmpfs", str(shared), "tmpfs", MS_NOSUID | MS_NODEV)


def join(status: Path, host: int) -> None:
    """Make this process, a fresh fork with one thread, a process of a host."""
    if not comes_true(status.exists, NETWORK_SECONDS, LOOK_SECONDS):
        sys.exit("no network")
    told = Told.read(status)
    assert told is not None
    if told.error:
        sys.exit(told.error)
    parent, directory = os.getppid(), os.getcwd()
    enter(told.hosts[host], HOST | (NEWUSER if told.user else 0))
    os.chdir(directory)  # as seen from the host
    # a change of rights has undone these two
    prctl(PR_SET_DUMPABLE, 1)  # so that ranks of a host may read each other's memory
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
