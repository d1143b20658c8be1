"""What Linux is asked for: namespaces by system calls; links and rates by ``ip`` and ``tc``."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
HOST = NEWNET | NEWIPC | NEWUTS | NEWNS  # what makes a host
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
QUIET = MS_NOSUID | MS_NODEV | MS_NOEXEC


def leave(kinds: int) -> None:
    """Give this process, which has one thread, new namespaces."""
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", kinds)
    if kinds & NEWUSER:  # there it may do what root may, with what is its own
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    if kinds & NEWNS:
        mount("none", "/", None, MS_REC | MS_PRIVATE)  # what is mounted here is seen here only


def enter(pid: int, kinds: int) -> None:
    """Make this process, which has one thread, a process of the namespaces of another."""
    other = os.pidfd_open(pid)
    try:
        _call("setns", other, kinds)
    finally:
        os.close(other)


def mount(what: str, where: str, kind: str | None, flags: int) -> None:
    """Mount a file system."""
    _call("mount", what.encode(), where.encode(), kind and kind.encode(), flags, None)


def _call(name: str, *args: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


SMALLEST_BURST = 3028  # bytes: two full frames
BURST_SECONDS = 2.5e-4  # what a late timer may catch up with; short messages gain from more
QUEUE = 64 << 20  # bytes that wait at a link before any is dropped
NETWORK = "10.77.0.0/24"
# by which TCP decides how fast to send, whatever this machine's rule is. It keeps sending until a
# link drops packets, which these never do.
RULE = "reno"
SUPERUSER_PATHS = "/usr/sbin", "/sbin"  # not on an ordinary user's PATH on Debian


class CommandError(Exception):
    """``ip`` or ``tc`` is missing, or the kernel refused what it asked for."""


def run(program: str, lines: Iterable[str]) -> None:
    """Have ``ip`` or ``tc`` carry out commands; raise CommandError at the first that fails."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *SUPERUSER_PATHS])
    path = shutil.which(program, path=places)
    if path is None:
        raise CommandError(f"no program {program} here: 'sudo apt install iproute2' brings it")
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run([path, "-batch", "-"], input=text, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CommandError(f"{program}: {said[0] if said else f'exit code {done.returncode}'}")


def address(host: int) -> str:
    """Return a host's address, in a network that is not joined to any other."""
    return f"10.77.0.{host + 1}"


def hardware_address(host: int) -> str:
    """Return a host's Ethernet address, whose last byte is the host's number; no vendor has it."""
    return f"02:77:00:00:00:{host:02x}"


def switch(pids: list[int]) -> list[str]:
    """Return what makes a switch and a link to each host, for ``ip`` where the switch is."""
    lines = ["link add lan type bridge", "link set lan up"]
    for host, pid in enumerate(pids):
        lines.append(f"link add port{host} type veth peer name eth0 netns {pid}")
        lines.append(f"link set port{host} master lan addrgenmode none up")
    return lines


def host(number: int, hosts: int) -> list[str]:
    """Return what gives a host its address, for ``ip`` on this host."""
    lines = [
        "link set lo up",
        f"link set eth0 address {hardware_address(number)} addrgenmode none up",
        f"addr add {address(number)}/24 dev eth0",
        f"route replace {NETWORK} dev eth0 src {address(number)} congctl {RULE}",
    ]
    others = (other for other in range(hosts) if other != number)
    lines += [
        f"neigh add {address(other)} lladdr {hardware_address(other)} dev eth0 nud permanent"
        for other in others
    ]
    return lines


def limit(device: str, rate: float) -> str:
    """Return what slows a device down to `rate` bit/s, for ``tc``."""
    burst = max(SMALLEST_BURST, round(rate / 8 * BURST_SECONDS))
    return f"qdisc add dev {device} root tbf rate {rate:.0f}bit burst {burst} limit {QUEUE}"
