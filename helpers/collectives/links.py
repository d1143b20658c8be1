"""What links between processors can do: α and β for the cost model, each with its origin.

"Tian 2019" is the lecture whose claims the course examines (Introduction to Computation
Technologies in Deep Learning). It names PCIe, NVLink, Ethernet, InfiniBand and RDMA; it gives no
latency for the first two and no figure at all for NVLink and RDMA: those come from elsewhere.
Bandwidths are for one direction and raw: a program sees 80-95 % of them. Network speeds are sold in
bits per second (G = 10⁹), memory and PCIe in bytes.
"""

from __future__ import annotations

from helpers.collectives.cost import Link

BIT = 1 / 8  # bytes
PCIE3_LANE = 8e9 * 128 / 130 * BIT  # bytes/s: 8 GT/s, of 130 bits sent 128 carry data

_NCCL = "NCCL 2.10, src/graph/tuning.cc, hwLat, ring, protocol Simple"


def _link(name: str, alpha: float, bandwidth: float, origin: str) -> Link:
    return Link(name, alpha, 1 / bandwidth, origin=origin)


PRESETS: dict[str, Link] = {
    link.name: link
    for link in (
        _link(
            "PCIe 3.0, 1 lane",
            5.7e-6,
            PCIE3_LANE,
            "β: 8 GT/s with 128b/130b coding, 984.6 MB/s (Tian 2019 writes 985 MiB/s: the number "
            f"is right in MB, 5 % too much in MiB); α: {_NCCL}, PCI",
        ),
        _link("PCIe 3.0 x16", 5.7e-6, 16 * PCIE3_LANE, f"β: 16 lanes; α: {_NCCL}, PCI"),
        _link(
            "NVLink 2 (V100)",
            3.4e-6,
            6 * 25e9,
            "β: six links of 25 GB/s a direction (NVIDIA V100 datasheet: 300 GB/s both ways); "
            f"α: {_NCCL}, NVLink; no figure in Tian 2019",
        ),
        _link("Ethernet 10M", 100e-6, 10e6 * BIT, "Tian 2019: the slowest of 10M to 100G, 100 µs"),
        _link("Ethernet 10G", 50e-6, 10e9 * BIT, "β: IEEE 802.3ae; α: inside Tian's 20-100 µs"),
        _link("Ethernet 100G", 20e-6, 100e9 * BIT, "Tian 2019: the fastest of 10M to 100G, 20 µs"),
        _link(
            "InfiniBand SDR 1x",
            5e-6,
            2.5e9 * 8 / 10 * BIT,
            "Tian 2019: 2.5G, 5 µs; with 8b/10b coding 2 Gbit/s of it are data",
        ),
        _link(
            "InfiniBand 250G",
            0.5e-6,
            250e9 * BIT,
            "Tian 2019: 250G, 0.5 µs (links on sale: HDR 4x 200 Gbit/s, NDR 4x 400 Gbit/s)",
        ),
        _link(
            "InfiniBand HDR (GPUs)",
            9.6e-6,
            200e9 * BIT,
            f"β: HDR 4x, 200 Gbit/s; α: {_NCCL}, network: what one step of a ring of GPUs takes",
        ),
        _link(
            "RDMA: RoCE 100G",
            2e-6,
            100e9 * BIT,
            "β: 100 Gbit/s Ethernet; α: assumed, between InfiniBand's 0.5 µs and TCP's 20 µs, as "
            "RDMA leaves out the TCP/IP stack but keeps Ethernet; no figure in Tian 2019",
        ),
    )
}
