"""What the ranks do in test_hosts.py: all_reduce where ranks share hosts."""

from pathlib import Path

HEADERS = 66  # bytes of a packet: Ethernet, IP, TCP with its time stamps
SEGMENT = 1448  # bytes that a packet carries


def check_all_ops() -> int:
    """Send even the shortest arrays along rings, and do what the other paths' tests do."""
    from helpers.torch_mpi import network
    from tests.torch_mpi import ranks

    network.ONE_LEVEL = 0
    return ranks.check_reductions("network")


def check_sizes_and_groups(piece: int, slab: int) -> list[str]:
    """Reduce arrays of awkward sizes over all ranks, and over hosts that share unevenly.

    Returns what every rank got, as one digest for each group: the same bits on all its ranks.
    """
    import hashlib

    import torch
    import torch.distributed as dist

    from helpers.torch_mpi import two_level
    from tests.torch_mpi import ranks

    two_level.PIECE, two_level.SLAB = piece, slab  # bytes: many pieces, several slabs
    _, _, rank, size = ranks.start("network")
    said = []
    for members in (range(size), (0, 1, 2), (5, 2, 4, 3, 0)):
        group = dist.new_group(list(members))
        if rank not in members:
            continue
        digest = hashlib.sha256()
        for numel in (513, 1000, 4099, 50_001):
            brought = [torch.sin(torch.arange(numel).double() * (r + 1)) for r in members]
            mine = torch.sin(torch.arange(numel).double() * (rank + 1))
            dist.all_reduce(mine, group=group)
            assert torch.allclose(mine, sum(brought), rtol=1e-13, atol=1e-13), (members, numel)
            digest.update(mine.numpy().tobytes())
            mean = torch.full((numel,), float(rank))
            dist.all_reduce(mean, dist.ReduceOp.AVG, group=group)
            assert torch.equal(mean, torch.full((numel,), sum(members) / len(members)))
        said.append(f"{tuple(members)} {digest.hexdigest()}")
    dist.destroy_process_group()
    return said


def count_sent(numel: int) -> tuple[int, int]:
    """Return the bytes that this host sent, of ours and of MPI's own Allreduce.

    Without the packets' headers, so that acknowledgements, which are nothing else, do not count;
    what TCP sent once more, as it does on a busy machine, counts once.
    """
    import numpy as np
    import torch
    import torch.distributed as dist
    from mpi4py import MPI

    from tests.torch_mpi import ranks

    comm, counts = MPI.COMM_WORLD, []
    ranks.start("network")
    mine, theirs = torch.ones(numel), np.ones(numel, np.float32)
    for call in (
        lambda: dist.all_reduce(mine),
        lambda: comm.Allreduce(MPI.IN_PLACE, theirs),
    ):
        call()  # makes connections
        comm.Barrier()
        before = _transmitted()
        comm.Barrier()
        call()
        comm.Barrier()
        counts.append(_transmitted() - before)
        comm.Barrier()
    dist.destroy_process_group()
    return counts[0], counts[1]


def leave_in_the_middle() -> str:
    """One rank leaves the group where the others reduce: they end, and name it."""
    import torch
    import torch.distributed as dist

    from tests.torch_mpi import ranks

    _, _, rank, size = ranks.start("network")
    dist.all_reduce(torch.ones(100_000))
    if rank == size - 1:
        dist.destroy_process_group()
        return ""
    try:
        dist.all_reduce(torch.ones(100_000))
    except RuntimeError as error:
        return str(error)
    return "no error"


def _transmitted() -> int:
    links = Path("/sys/class/net")
    (link,) = (link for link in links.iterdir() if link.name not in ("lo", "bonding_masters"))
    bytes_, packets = (int((link / "statistics" / f"tx_{what}").read_text())
                       for what in ("bytes", "packets"))  # fmt: skip
    names, values = (
        line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if "Tcp:" in line
    )
    again = int(values[names.index("RetransSegs")])
    return bytes_ - HEADERS * packets - SEGMENT * again
