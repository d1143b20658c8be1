"""What the tests of the backend run on their ranks (importable, top-level functions)."""

from __future__ import annotations

import functools
import threading
import time
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

import helpers.torch_mpi as ours

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8")
DTYPES += ("uint16", "uint32", "uint64", "bool", "complex64", "complex128")
SIZES = (0, 1, 3, 1000, 300_007)  # below, at and above what one step or one segment holds


def start(path: str, timeout: float = 30.0):
    """Initialise the default group; return (rank, size)."""
    dist.init_process_group(
        "mpi4py",
        init_method="mpi://",
        pg_options=ours.Options(path),
        timeout=timedelta(seconds=timeout),
    )
    assert path in ("auto", dist.group.WORLD.transport.kind)
    return dist.get_rank(), dist.get_world_size()


def refused(call, part: str = "") -> None:
    """Assert that ``call`` raises an error whose message contains ``part``."""
    try:
        call()
    except (ValueError, TypeError, RuntimeError) as error:
        message = str(error)
    else:
        raise AssertionError(f"a wrong call was accepted; expected an error with {part!r}")
    assert message
    assert part in message, message


def values(rank: int, numel: int, dtype: str):
    """Small numbers whose sums and products are exact in every dtype, different on each rank."""
    pattern = torch.arange(numel) % 3 + (rank + 1) % 2
    return (pattern % 2 if dtype == "bool" else pattern).to(getattr(torch, dtype))


def check_reductions(path: str) -> int:
    """all_reduce, reduce and reduce_scatter: all ops, dtypes and sizes, against plain Python."""
    rank, size = start(path)
    checked = 0
    fold = {
        "SUM": np.add,
        "PRODUCT": np.multiply,
        "MIN": np.minimum,
        "MAX": np.maximum,
        "BAND": np.bitwise_and,
        "BOR": np.bitwise_or,
        "BXOR": np.bitwise_xor,
    }
    for dtype in DTYPES:
        kind = getattr(torch, dtype)
        for name, ufunc in fold.items():
            if name[0] == "B" and (kind.is_floating_point or kind.is_complex):
                continue
            if name in ("MIN", "MAX") and kind.is_complex:
                continue
            for numel in SIZES if dtype in ("float32", "bfloat16", "bool") else (5,):
                inputs = [values(r, numel, dtype) for r in range(size)]
                arrays = [(t.float() if dtype == "bfloat16" else t).numpy() for t in inputs]
                expected = arrays[0].copy()
                for array in arrays[1:]:
                    expected = ufunc(expected, array)
                expected = torch.from_numpy(np.ascontiguousarray(expected)).to(kind)
                op = getattr(dist.ReduceOp, name)
                mine = torch.zeros(numel, 2, dtype=kind)[:, 0].copy_(inputs[rank])
                dist.group.WORLD.allreduce([mine], _with(op)).wait()
                assert torch.equal(mine, expected), (path, dtype, name, numel)
                root = size - 1
                mine = inputs[rank].clone()
                dist.group.WORLD.reduce([mine], root, op).wait()
                wanted = expected if rank == root else inputs[rank]
                assert torch.equal(mine, wanted), (path, dtype, name, numel)
                out = torch.empty(numel, dtype=kind)
                tiled = [inputs[rank].clone() for _ in range(size)]
                dist.group.WORLD.reduce_scatter([out], [tiled], op).wait()
                assert torch.equal(out, expected), (path, dtype, name, numel)
                checked += 3
    mean = torch.full((7,), float(rank))
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    assert torch.allclose(mean, torch.full((7,), (size - 1) / 2))
    scaled = torch.full((7,), float(rank))
    dist.all_reduce(scaled, op=dist.ReduceOp.PREMUL_SUM(0.5))
    assert torch.allclose(scaled, torch.full((7,), size * (size - 1) / 4))
    for op, bad in ((dist.ReduceOp.BAND, torch.ones(2)), (dist.ReduceOp.AVG, torch.ones(2) > 0)):
        refused(lambda op=op, bad=bad: dist.group.WORLD.allreduce([bad], _with(op)), str(bad.dtype))
    dist.destroy_process_group()
    return checked


def _with(op):
    options = c10d.AllreduceOptions()
    options.reduceOp, options.asyncOp = op, False
    return options


def check_movement(path: str) -> None:
    """Every collective that only moves data, every root, contiguous or not, empty or large."""
    rank, size = start(path)
    for numel in SIZES:
        for make in (lambda n: torch.zeros(n), lambda n: torch.zeros(n, 2)[:, 1]):

            def own(r, numel=numel, make=make):
                return make(numel).copy_(torch.arange(numel) + r)

            for root in range(size):
                moved = own(rank)
                dist.broadcast(moved, root)
                assert torch.equal(moved, own(root))
                outputs = [make(numel) for _ in range(size)] if rank == root else None
                dist.gather(own(rank), outputs, dst=root)
                for r, output in enumerate(outputs or []):
                    assert torch.equal(output, own(r))
                inputs = [own(r + root) for r in range(size)] if rank == root else None
                part = make(numel)
                dist.scatter(part, inputs, src=root)
                assert torch.equal(part, own(rank + root))
            outputs = [make(numel) for _ in range(size)]
            dist.all_gather(outputs, own(rank))
            assert all(torch.equal(output, own(r)) for r, output in enumerate(outputs))
            outputs = [make(numel) for _ in range(size)]
            dist.all_to_all(outputs, [own(10 * rank + r) for r in range(size)])
            assert all(torch.equal(output, own(10 * r + rank)) for r, output in enumerate(outputs))
        joined = torch.zeros(size * numel)
        dist.all_gather_into_tensor(joined, torch.full((numel,), float(rank)))
        assert torch.equal(joined, torch.arange(size).float().repeat_interleave(numel))
        share = torch.zeros(numel)
        dist.reduce_scatter_tensor(share, torch.arange(size).float().repeat_interleave(numel))
        assert torch.equal(share, torch.full((numel,), float(size * rank)))
    sends = [rank + r for r in range(size)]  # rank → r: rank + r rows, none from 0 to 0
    output = torch.empty(sum(sends), 3)
    rows = torch.arange(size).float().repeat_interleave(torch.tensor(sends))
    dist.all_to_all_single(output, (rows + 100 * rank)[:, None].repeat(1, 3), sends, sends)
    expected = (torch.arange(size) * 100.0 + rank).repeat_interleave(torch.tensor(sends))
    assert torch.equal(output, expected[:, None].repeat(1, 3))
    sparse = (torch.arange(size) <= rank).float().to_sparse()  # of rank + 1 numbers
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [size - i for i in range(size)]
    dist.destroy_process_group()


def check_messages(path: str) -> None:
    """send, recv, isend, irecv, tags out of order, any source, batches; long and short."""
    rank, size = start(path)
    right, left = (rank + 1) % size, (rank - 1) % size
    for _ in range(200):  # nobody keeps the handle, nor the tensor
        dist.isend(torch.full((3000,), float(rank)), right, tag=7)
    for _ in range(200):
        got = torch.zeros(3000)
        dist.recv(got, left, tag=7)
        assert torch.equal(got, torch.full((3000,), float(left)))
    for numel in (0, 5, 200_000):
        requests = [
            dist.isend(torch.full((numel,), float(rank + tag)), right, tag=tag) for tag in (1, 2)
        ]
        for tag in (2, 1):
            got = torch.zeros(numel, 2)[:, 0]
            dist.recv(got, left, tag=tag)
            assert torch.equal(got, torch.full((numel,), float(left + tag)))
        for request in requests:
            request.wait()
            assert request.is_completed()
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            got = torch.zeros(1)
            source = dist.recv(got, tag=9)  # or the batch below could answer
            assert got.item() == source
            seen.add(source)
        assert seen == set(range(1, size))
    else:
        dist.send(torch.tensor([float(rank)]), 0, tag=9)
    refused(lambda: dist.recv(torch.ones(1), size), f"got {size}")  # and it stands in nobody's way
    got = torch.zeros(4)
    batch = [dist.P2POp(dist.irecv, got, left), dist.P2POp(dist.isend, torch.ones(4), right)]
    for request in dist.batch_isend_irecv(batch):
        request.wait()
    assert torch.equal(got, torch.ones(4))
    if rank == 0:
        refused(lambda: dist.isend(torch.ones(1), right, tag=-5), "-5")
    dist.destroy_process_group()


def check_groups(path: str) -> None:
    """Overlapping sub-groups, used in different orders; destroying and initialising again."""
    for _ in range(2):
        rank, size = start(path)
        pairs = [dist.new_group([r, (r + 1) % size]) for r in range(size)] if size > 2 else []
        everyone = dist.new_group()
        for r, group in enumerate(pairs):
            if rank in (r, (r + 1) % size):
                x = torch.tensor([float(rank)])
                dist.all_reduce(x, group=group)
                assert x.item() == r + (r + 1) % size
        first, second = torch.ones(50_000), torch.ones(50_000) * 2
        groups = [(dist.group.WORLD, first), (everyone, second)]
        works = [
            dist.all_reduce(tensor, group=group, async_op=True)
            for group, tensor in (groups if rank % 2 else reversed(groups))
        ]
        for work in works:
            work.wait()
        assert first[0] == size
        assert second[-1] == 2 * size
        dist.destroy_process_group(everyone)
        dist.barrier()
        dist.destroy_process_group()
        assert not dist.is_initialized()
    assert not [t.name for t in threading.enumerate() if t.name.startswith("torch_mpi")]


def check_progress(path: str) -> None:
    """An async_op moves while Python computes: it has ended before anyone waits for it."""
    rank, size = start(path)
    tensor = torch.ones(500_000)
    work = dist.all_reduce(tensor, async_op=True)
    long_ = torch.full((500_000,), float(rank))
    into = torch.zeros(500_000)
    send = dist.isend(long_, (rank + 1) % size)
    receive = dist.irecv(into, (rank - 1) % size)
    end = time.monotonic() + 20
    while time.monotonic() < end and not work._ended.is_set():
        sum(range(20_000))  # pure Python, and no call of ours
    assert work._ended.is_set()
    assert tensor[0] == size
    while time.monotonic() < end and not (send._ended and receive._ended):
        sum(range(20_000))
    assert send._ended
    assert receive._ended
    assert into[0] == (rank - 1) % size
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda f: f.value())
    assert future.wait()[0][0] == size
    dist.destroy_process_group()


def check_time_outs(path: str) -> list[str]:
    """One rank stays away: the others' calls raise, name it, and a new start works."""
    rank, size = start(path, timeout=1.0)
    messages = []
    if rank != size - 1:
        for call in (
            lambda: dist.all_reduce(torch.ones(3)),
            lambda: dist.all_reduce(torch.ones(3)),  # the group is unusable now, and says so
            lambda: dist.recv(torch.ones(3), size - 1),
        ):
            try:
                call()
            except RuntimeError as error:
                messages.append(str(error))
    else:
        time.sleep(2.5)
    dist.destroy_process_group()
    rank, size = start(path)
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == size
    dist.destroy_process_group()
    return messages


def check_missing_rank() -> str:
    """A monitored barrier without rank 1."""
    rank, _ = start("auto")
    message = ""
    if rank != 1:
        try:
            ours.monitored_barrier(timeout=timedelta(seconds=0.5), wait_all_ranks=True)
        except RuntimeError as error:
            message = str(error)
    else:
        time.sleep(1.0)
    dist.barrier()
    dist.destroy_process_group()
    return message


def check_rendezvous(file: str) -> None:
    """An explicit store, an init_method, and contradictions."""
    from mpi4py import MPI

    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    dist.init_process_group("mpi4py", init_method=f"file://{file}-1", rank=rank, world_size=size)
    dist.barrier()
    dist.destroy_process_group()
    backwards = size - 1 - rank
    store = dist.FileStore(f"{file}-2", size)
    dist.init_process_group("mpi4py", store=store, rank=backwards, world_size=size)
    seen = [torch.zeros(1) for _ in range(size)]
    dist.all_gather(seen, torch.tensor([float(rank)]))
    assert [int(s) for s in seen] == list(reversed(range(size)))
    dist.destroy_process_group()
    for options, expected in (({"rank": 5}, "rank=5"), ({"pg_options": "fast"}, "'fast'")):
        start = functools.partial(dist.init_process_group, "mpi4py", "mpi://", **options)
        refused(start, expected)
    refused(lambda: ours.Options("tcp"), "'tcp'")
    dist.init_process_group("mpi4py", init_method="mpi://")
    for call in (
        lambda: dist.all_gather([torch.ones(1)] * (size + 1), torch.ones(1)),
        lambda: dist.all_gather_into_tensor(torch.ones(size + 1), torch.ones(1)),
        lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size), [size + 1], None),
        lambda: dist.all_reduce(torch.ones(2, device="meta")),
    ):
        refused(call)
    dist.barrier()
    dist.destroy_process_group()
