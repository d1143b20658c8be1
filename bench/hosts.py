"""Time of an all_reduce between hosts, by our backend and by PyTorch's ``gloo``.

The hosts are this machine's own (``helpers.cluster.Network``), their links of a stated rate. Both
backends run on the same ranks, in turns. An all_reduce of K bytes moves 2(H−1)/H·K through each of
H hosts' links, whatever the algorithm; a wire's own limit is that over its rate, and packets'
headers take three to four hundredths of it.
"""

from __future__ import annotations

from bench.launch import best, in_turns
from helpers.cluster import Cluster, Network
from helpers.records import Row

SUITE = "hosts"
RATE = 100e6  # bit/s
LAYOUTS = ((3, 2), (4, 1))  # hosts, ranks on each
SIZES = {"4 KB": 4_000, "64 KB": 64_000, "1 MB": 1_000_000, "4 MB": 4_000_000}  # bytes
ROUNDS = {"4 KB": 40, "64 KB": 20, "1 MB": 5, "4 MB": 4}  # turns of each; the best is reported


def rows() -> list[Row]:
    """Measure each size on each layout; times in milliseconds, the slowest rank's."""
    rows = []
    for hosts, each in LAYOUTS:
        parameters = {"hosts": hosts, "ranks": hosts * each, "rate": RATE}
        with Cluster(hosts * each, network=Network(hosts, rate=RATE), preload=("torch",)) as ranks:
            took = ranks.run(_measure, SIZES, ROUNDS, timeout=300)[0]
        for label, size in SIZES.items():
            ours, gloo = (1e3 * took[label][name] for name in ("ours", "gloo"))
            name = f"all_reduce {label} between hosts"
            rows.append(Row(name, ours, "ms", "gloo", gloo, parameters))
            limit = 1e3 * 2 * (hosts - 1) / hosts * size * 8 / RATE
            if size >= 1_000_000:
                rows.append(Row(name, ours, "ms", "the link's rate", limit, parameters))
    return rows


def _measure(sizes: dict[str, int], rounds: dict[str, int]) -> dict[str, dict[str, float]]:
    """Return seconds of each backend for each size: the best turn's slowest rank."""
    import os
    import socket

    import torch
    import torch.distributed as dist
    from mpi4py import MPI

    import helpers.torch_mpi  # noqa: F401 - makes the backend known

    comm = MPI.COMM_WORLD
    os.environ["GLOO_SOCKET_IFNAME"] = next(n for _, n in socket.if_nameindex() if n != "lo")
    dist.init_process_group("mpi4py", init_method="mpi://")
    groups = {"ours": None, "gloo": dist.new_group(list(range(comm.size)), backend="gloo")}
    took = {}
    for label, size in sizes.items():
        tensor = torch.zeros(size // 4)
        calls = {
            name: lambda group=group, tensor=tensor: dist.all_reduce(tensor, group=group)
            for name, group in groups.items()
        }
        took[label] = best(in_turns(calls, rounds[label], comm=comm))
    dist.destroy_process_group()
    return took
