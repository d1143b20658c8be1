"""What links between processors can do: α and β for the cost model, each with its origin.

"Tian 2019" is the lecture whose claims the course examines (Introduction to Computation
Technologies in Deep Learning). It names PCIe, NVLink, Ethernet, InfiniBand and RDMA; it gives no
latency for the first two and no figure at all for NVLink and RDMA: those come from elsewhere.
Bandwidths are for one direction and raw: a program sees 80-95 % of them. Network speeds are sold in
bits per second (G = 10⁹), memory and PCIe in bytes. "NCCL" is hwLat in src/graph/tuning.cc of NCCL
2.10, for rings and the protocol Simple.
"""

from __future__ import annotations

from helpers.collectives.cost import Link

BIT = 1 / 8  # bytes
PCIE3_LANE = 8e9 * 128 / 130 * BIT  # bytes/s: 8 GT/s, of 130 bits sent 128 carry data


def _link(name: str, alpha: float, bandwidth: float, origin: str) -> Link:
    return Link(name, alpha, 1 / bandwidth, origin=origin)


PRESETS: dict[str, Link] = {
    link.name: link
    for link in (
        _link(
            "PCIe 3.0, 1 lane",
            5.7e-6,
            PCIE3_LANE,
            "1/β: 8 Gbit/s, 128 of 130 bits are data; α: NCCL, PCI",
        ),
        _link("PCIe 3.0 x16", 5.7e-6, 16 * PCIE3_LANE, "1/β: 16 lanes; α: NCCL, PCI"),
        _link(
            "NVLink 2 (V100)",
            3.4e-6,
            6 * 25e9,
            "1/β: V100's data sheet, six links of 25 GB/s each way; α: NCCL, NVLink",
        ),
        _link("Ethernet 10M", 100e-6, 10e6 * BIT, "Tian 2019, its slowest Ethernet"),
        _link("Ethernet 10G", 50e-6, 10e9 * BIT, "1/β: IEEE 802.3ae; α: between 10M and 100G"),
        _link("Ethernet 100G", 20e-6, 100e9 * BIT, "Tian 2019, its fastest Ethernet"),
        _link(
            "InfiniBand SDR 1x",
            5e-6,
            2.5e9 * 8 / 10 * BIT,
            "Tian 2019: 2.5 Gbit/s, of which 2 are data",
        ),
        _link(
            "InfiniBand 250G",
            0.5e-6,
            250e9 * BIT,
            "Tian 2019 (on sale: 200 and 400 Gbit/s)",
        ),
        _link(
            "InfiniBand HDR (GPUs)",
            9.6e-6,
            200e9 * BIT,
            "1/β: HDR 4x, 200 Gbit/s; α: NCCL, a ring's step between GPUs",
        ),
        _link(
            "RDMA: RoCE 100G",
            2e-6,
            100e9 * BIT,
            "1/β: 100 Gbit/s; α: assumed, between InfiniBand's and Ethernet's",
        ),
    )
}
