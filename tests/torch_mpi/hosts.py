"""What the ranks do in test_hosts.py: all_reduce where ranks share hosts."""

import hashlib
import os
import socket
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from helpers.torch_mpi import network, two_level
from tests.torch_mpi import ranks

HEADERS = 66  # bytes of a packet: Ethernet, IP, TCP with its time stamps
SEGMENT = 1448  # bytes that a packet carries


def check_all_ops() -> int:
    """Send even the shortest arrays along rings, and do what the other paths' tests do."""
    before, network.ONE_LEVEL = network.ONE_LEVEL, 0
    try:
        return ranks.check_reductions("network")
    finally:
        network.ONE_LEVEL = before


def check_sizes_and_groups(piece: int, slab: int) -> list[str]:
    """Reduce arrays of awkward sizes over all ranks, and over hosts that share unevenly.

    Returns what every rank got, as one digest for each group: the same bits on all its ranks.
    """
    before = two_level.PIECE, two_level.SLAB
    two_level.PIECE, two_level.SLAB = piece, slab  # bytes: many pieces, several slabs
    rank, size = ranks.start("network")
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
    two_level.PIECE, two_level.SLAB = before
    return said


def halves_beside_gloo() -> dict[str, tuple[float, float, str]]:
    """Add up 16-bit floats here and by gloo, which adds in them.

    Returns for each dtype and operation the greatest distance from the sum in 64 bits, of ours and
    of gloo's, in parts of the sum of absolute values; and a digest of our bits.
    """
    os.environ["GLOO_SOCKET_IFNAME"] = next(n for _, n in socket.if_nameindex() if n != "lo")
    rank, size = ranks.start("network")
    gloo, found = dist.new_group(list(range(size)), backend="gloo"), {}
    draws = torch.Generator().manual_seed(0)
    brought = torch.randn(size, 20_001, generator=draws, dtype=torch.float64)
    for dtype in (torch.float16, torch.bfloat16):
        inputs = brought.to(dtype)
        exact, whole = inputs.double().sum(0), inputs.double().abs().sum(0)

        def off(tensor, mine=slice(None), exact=exact, whole=whole):
            return ((tensor.double() - exact[mine]).abs() / whole[mine]).max().item()

        theirs, ours = inputs[rank].clone(), inputs[rank].clone()
        dist.all_reduce(theirs, group=gloo)
        dist.all_reduce(ours)
        bits = hashlib.sha256(ours.view(torch.int16).numpy().tobytes()).hexdigest()
        found[f"all_reduce of {dtype}"] = off(ours), off(theirs), bits
        ours = inputs[rank].clone()
        dist.reduce(ours, size - 1)
        if rank == size - 1:
            found[f"reduce of {dtype}"] = off(ours), off(theirs), ""
        parts = [part.clone() for part in inputs[rank].tensor_split(size)]
        place = torch.arange(len(exact)).tensor_split(size)[rank]
        ours = torch.empty_like(parts[rank])
        dist.reduce_scatter(ours, parts)
        found[f"reduce_scatter of {dtype}"] = off(ours, place), off(theirs), ""
    dist.destroy_process_group()
    return found


def count_sent(numel: int) -> dict[str, int]:
    """Return the bytes that this host sent, of our reductions and of MPI's own Allreduce.

    Without the packets' headers, so that acknowledgements, which are nothing else, do not count;
    what TCP sent once more, as it does on a busy machine, counts once.
    """
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, size = ranks.start("network")
    mine, halves = torch.ones(numel), torch.ones(numel, dtype=torch.bfloat16)
    parts = list(torch.ones(numel, dtype=torch.float16).tensor_split(size))
    theirs, counts = np.ones(numel, np.float32), {}
    for name, call in (
        ("all_reduce", lambda: dist.all_reduce(mine)),
        ("MPI's Allreduce", lambda: comm.Allreduce(MPI.IN_PLACE, theirs)),
        ("all_reduce of halves", lambda: dist.all_reduce(halves)),
        ("reduce of halves", lambda: dist.reduce(halves, 0)),
        ("reduce_scatter", lambda: dist.reduce_scatter(torch.empty_like(parts[rank]), parts)),
    ):
        call()  # makes connections
        comm.Barrier()
        before = _transmitted()
        comm.Barrier()
        call()
        comm.Barrier()
        counts[name] = _transmitted() - before
        comm.Barrier()
    dist.destroy_process_group()
    return counts


def leave_in_the_middle() -> str:
    """One rank leaves the group where the others reduce: they end, and name it."""
    rank, size = ranks.start("network")
    dist.all_reduce(torch.ones(100_000))
    if rank == size - 1:
        dist.destroy_process_group()
        return ""
    try:
        dist.all_reduce(torch.ones(100_000))
    except RuntimeError as error:
        return str(error)
    finally:
        dist.destroy_process_group()
    return "no error"


def receive_from_anyone(how: str) -> list[tuple[int, int]]:
    """Rank 0 receives what a rank beside it and one on another host send; (what, from whom)."""
    rank, _ = ranks.start("network")
    box, seen = torch.zeros(2), []
    for _ in range(25):
        for _ in range(4 if rank in (1, 2) else 0):
            dist.send(torch.full((2,), float(rank)), 0)
            time.sleep(0.002)
        for _ in range(8 if rank == 0 else 0):
            if how == "recv":
                source = dist.recv(box)
            else:
                work = dist.irecv(box)
                work.wait()
                source = work._source_rank()
            seen.append((int(box[0]), source))
        dist.barrier()
    dist.destroy_process_group()
    return sorted(seen)


def receive_in_order() -> list[int]:
    """Rank 0 asks for four messages, of which the first two may be anyone's; rank 2 sends them."""
    rank, _ = ranks.start("network")
    boxes = torch.zeros(5)
    if rank == 0:
        sources = (None, None, 2, None)
        works = [dist.irecv(boxes[i], src, tag=3) for i, src in enumerate(sources)]
        works.append(dist.irecv(boxes[4], 2, tag=4))  # of another tag: it need not wait for them
        dist.barrier()
        for work in reversed(works):
            work.wait()
    else:
        dist.barrier()
        if rank == 2:
            dist.send(torch.tensor(9.0), 0, tag=4)
            for number in range(1, 5):
                dist.send(torch.tensor(float(number)), 0, tag=3)
    dist.destroy_process_group()
    return boxes.int().tolist()


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
