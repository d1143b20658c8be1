"""What a network is described by, what is asked of the kernel, and the switch's arithmetic."""

import os
import struct

import pytest

from helpers.cluster import Cluster, Network
from helpers.cluster.start.network import commands
from helpers.cluster.start.network.keeper import Told, why_forbidden
from helpers.cluster.start.network.wire import VNET, Wire, wire_size
from helpers.cluster.start.stuck import Wait, table


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"hosts": 0}, "hosts=0"),
        ({"hosts": 65}, "hosts=65"),
        ({"hosts": 2.0}, "hosts=2.0"),
        ({"hosts": True}, "hosts=True"),
        ({"rate": 0}, "rate=0"),
        ({"rate": -1e6}, "rate=-1000000.0"),
        ({"rate": "100mbit"}, "rate='100mbit'"),
        ({"rate": float("nan")}, "rate=nan"),
        ({"rate": float("inf")}, "rate=inf"),
        ({"delay": -1e-3}, "delay=-0.001"),
        ({"delay": 60}, "delay=60"),
        ({"delay": float("nan")}, "delay=nan"),
        ({"placement": "random"}, "placement='random'"),
        ({"congestion": "vegas"}, "congestion='vegas'"),
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
    for launcher in ("mpiexec", "slurm"):
        with pytest.raises(ValueError, match=f"launcher='{launcher}' with Network"):
            Cluster(2, network=Network(2), launcher=launcher)
    with pytest.raises(ValueError, match="profile='mine'"):
        Cluster(2, network=Network(2), profile="mine")


def test_ranks_on_hosts_and_what_mpich_hears_of_it():
    assert Network(3).places(6) == (0, 0, 1, 1, 2, 2)
    assert Network(3).mapping(6) == "(vector,(0,3,2))"
    assert Network(3, placement="cyclic").places(6) == (0, 1, 2, 0, 1, 2)
    assert Network(3, placement="cyclic").mapping(6) == "(vector,(0,3,1),(0,3,1))"


def test_a_network_reads_as_one_says_it():
    told = repr(Network(4, rate=1e9, delay=2e-3, placement="cyclic"))
    assert told == "Network(4 hosts, 1 Gbit/s, 2 ms, cyclic)"
    assert repr(Network(1)) == "Network(1 host)"
    assert repr(Network(2, congestion="bbr")) == "Network(2 hosts, bbr)"
    assert Network(2).payload is None
    assert Network(2, rate=1514 * 8e3).payload == 1448e3


# -- what the kernel is told -------------------------------------------------------------------


def test_a_rate_and_a_delay_for_tc():
    assert commands.limits("eth0", None) == []
    (line,) = commands.limits("eth0", 100e6)
    assert line.startswith("qdisc add dev eth0 root handle 2: tbf rate 100000000bit burst 3125 ")
    assert "burst 31250 " in commands.limits("eth0", 1e9)[0]
    first, second = commands.limits("port0", 10e6, 1e-3)
    assert first.endswith("root handle 1: netem delay 1000us limit 100000")
    assert "parent 1:1 handle 2: tbf rate 10000000bit burst 3028 " in second


def test_a_missing_program_and_a_refusal_are_named(monkeypatch):
    with pytest.raises(commands.CommandError, match=r"^ip: "):
        commands.run("ip", ["link set no-such-device up"])
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(commands, "SUPERUSER_PATHS", ())
    with pytest.raises(commands.CommandError, match="no program tc here: 'sudo apt install"):
        commands.run("tc", [])


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "_unprivileged_userns=0"),
    ],
)
def test_the_setting_that_forbids_hosts_is_named(tmp_path, setting, value, told):
    path = tmp_path / setting
    path.parent.mkdir()
    path.write_text(f"{value}\n")
    assert told in why_forbidden(PermissionError(1, "unshare: no"), tmp_path)


def test_a_container_and_a_system_that_just_refuses(tmp_path, monkeypatch):
    keeper = "helpers.cluster.start.network.keeper"
    monkeypatch.setattr(f"{keeper}.CONTAINERS", (str(tmp_path),))
    assert "--privileged" in why_forbidden(PermissionError(1, "unshare: no"), tmp_path)
    monkeypatch.setattr(f"{keeper}.CONTAINERS", ())
    told = why_forbidden(PermissionError(1, "unshare: no"), tmp_path)
    assert "EPERM, unshare: no" in told
    assert "as root" in told


def test_what_the_keeper_tells_comes_back_whole(tmp_path):
    path = tmp_path / "network.json"
    assert Told.read(path) is None
    Told("", (5, 7), True, "wire").write(path)
    assert Told.read(path) == Told("", (5, 7), True, "wire")
    assert list(tmp_path.iterdir()) == [path]


# -- the switch --------------------------------------------------------------------------------


def frame(size: int, header: int = 66, piece: int = 0) -> bytes:
    """Return a frame of ``size`` bytes, joined of pieces of so many bytes after a header each."""
    return struct.pack("=BBHHHH", 0, 1 if piece else 0, header, piece, 0, 0) + bytes(size)


@pytest.fixture
def wire():
    """A switch of 3 links at 8 Mbit/s (1 µs/B) with 10 ms between hosts; it is never run."""
    return Wire([], 8e6, 10e-3)


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="Linux's")
def test_making_a_switch_does_not_change_how_this_process_is_scheduled(wire):
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def links(wire, hosts):
    wire._into, wire._out_of = [0.0] * hosts, [0.0] * hosts
    return wire


def test_a_joined_frame_counts_as_many_headers_as_it_will_have():
    assert wire_size(frame(1514)) == 1514
    assert wire_size(frame(66 + 1448, piece=1448)) == 1514
    assert wire_size(frame(66 + 2 * 1448, piece=1448)) == 2 * 1514
    assert wire_size(frame(66 + 2 * 1448 + 1, piece=1448)) == 2 * 1514 + 67
    assert VNET.size == 10


def test_a_frame_takes_its_time_on_the_wire_and_the_delay(wire):
    assert links(wire, 2).arrival(0, 1, frame(1000), now=5.0) == pytest.approx(5.011)


def test_frames_of_one_host_follow_one_another_and_overlap_with_the_delay(wire):
    links(wire, 3)
    arrivals = [wire.arrival(0, target, frame(1000), now=5.0) for target in (1, 2, 1)]
    assert arrivals == pytest.approx([5.011, 5.012, 5.013])


def test_frames_to_one_host_share_its_link(wire):
    links(wire, 3)
    arrivals = [wire.arrival(source, 2, frame(1000), now=5.0) for source in (0, 1)]
    assert arrivals == pytest.approx([5.011, 5.012])
    assert wire.arrival(2, 0, frame(1000), now=5.0) == pytest.approx(5.011)  # the other direction


# -- what the reader sees ----------------------------------------------------------------------


def test_the_table_of_waits_names_hosts():
    hosts = ("host0", "host1")
    text = table([Wait(1, "recv", 0, 7, 2, "comm.recv(0)", 3.0, hosts=hosts)])
    assert "1 (host1)" in text
    assert "rank 0 (host0)" in text
    assert "host" not in table([Wait(1, "recv", 0, 7, 2, "comm.recv(0)", 3.0)])
