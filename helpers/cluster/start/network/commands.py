"""What ``ip`` and ``tc`` are told: links, addresses, rates."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable

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
