"""What a network is described by, and what is asked of the kernel."""

import re
import shutil

import pytest

from helpers.cluster import Cluster, Mpiexec, Network, Slurm, Spawned
from helpers.cluster.start.network import system
from helpers.cluster.start.network.keeper import why_forbidden

PROGRAM = shutil.which("ip") or shutil.which("ip", path=":".join(system.SUPERUSER_PATHS))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"hosts": 0}, "hosts=0"),
        ({"hosts": 65}, "hosts=65"),
        ({"hosts": True}, "hosts=True"),
        ({"rate": 0}, "rate=0"),
        ({"rate": "100mbit"}, "rate='100mbit'"),
        ({"rate": float("nan")}, "rate=nan"),
        ({"placement": "random"}, "placement='random'"),
    ],
)
def test_what_no_network_can_be_is_named(arguments, told):
    with pytest.raises(ValueError, match=f"^{told}: expected"):
        Network(**arguments)


@pytest.mark.parametrize(
    ("n", "network", "told"),
    [
        (2, Network(3), "hosts=3 with n=2"),
        (4, Network(3), "n=4 ranks on hosts=3: .* such as n=3 or 6"),
        (7, Network(2), "such as n=6 or 8"),
    ],
)
def test_ranks_that_cannot_be_shared_out(n, network, told):
    with pytest.raises(ValueError, match=told):
        Cluster(n, network=network)


def test_a_cluster_expects_a_network_and_forks_it_itself():
    with pytest.raises(TypeError, match=r"network=3: expected a Network"):
        Cluster(3, network=3)
    for start in (Mpiexec(), Slurm(), Spawned()):
        with pytest.raises(ValueError, match=r"start=\w+\(.*\) with Network"):
            Cluster(2, network=Network(2), start=start)


# -- what the kernel is told -------------------------------------------------------------------


def test_a_rate_for_tc():
    assert Network(2, rate=1514 * 8e3).payload == 1448e3
    line = system.limit("eth0", 100e6)
    assert line.startswith("qdisc add dev eth0 root tbf rate 100000000bit burst 3125 ")
    assert "burst 3028 " in system.limit("eth0", 10e6)
    assert "burst 31250 " in system.limit("eth0", 1e9)


@pytest.mark.skipif(not PROGRAM, reason="no ip here: `apt install iproute2` brings it")
def test_a_refusal_is_named():
    with pytest.raises(system.CommandError, match=r"^ip: "):
        system.run("ip", ["link set no-such-device up"])


def test_a_missing_program_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(system, "SUPERUSER_PATHS", ())
    with pytest.raises(system.CommandError, match="no program tc here: 'sudo apt install"):
        system.run("tc", [])


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "_unprivileged_userns=0"),
        ("kernel/other", "1", r"EPERM, unshare: no.*as root"),
    ],
)
def test_what_forbids_hosts_is_named(tmp_path, monkeypatch, setting, value, told):
    monkeypatch.setattr("helpers.cluster.start.network.keeper.CONTAINERS", ())
    path = tmp_path / setting
    path.parent.mkdir()
    path.write_text(f"{value}\n")
    assert re.search(told, why_forbidden(PermissionError(1, "unshare: no"), tmp_path))


def test_a_container_says_how_it_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr("helpers.cluster.start.network.keeper.CONTAINERS", (str(tmp_path),))
    assert "--privileged" in why_forbidden(PermissionError(1, "unshare: no"), tmp_path)
