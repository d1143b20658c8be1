"""helpers.collectives beside MPI: ranks, sizes, dtypes, layouts, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import collectives
from helpers.collectives import ALGORITHMS, allreduce
from helpers.collectives.registry import added
from tests.cluster.ways import PART
from tests.mpi.several import on_ranks

SIZES = (0, 1, 2, 3, 6, 17, 1000)
NUMBERS = ("b", "B", "h", "H", "i", "I", "q", "Q", "f", "d", "g", "F", "D")


def world():
    from mpi4py import MPI

    return MPI, MPI.COMM_WORLD


def values(shape, dtype, rank: int) -> np.ndarray:
    """Small whole numbers, different on every rank, so that any order of adding is exact."""
    size = int(np.prod(shape))
    numbers = (np.arange(size) * (rank + 1)) % 5 + 1
    if np.dtype(dtype).kind == "c":
        return (numbers + 1j * (rank + 1)).astype(dtype).reshape(shape)
    return numbers.astype(dtype).reshape(shape)


def refused(error, words: str, call) -> None:
    """Check that ``call()`` raises ``error`` with every one of these words in its message."""
    with pytest.raises(error) as caught:
        call()
    missing = [word for word in words.split() if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


def same(ours, theirs) -> None:
    assert isinstance(ours, np.ndarray), type(ours)
    assert ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    assert np.array_equal(ours, theirs), (ours, theirs)


def check_allreduce_sizes_and_dtypes() -> None:
    _, comm = world()
    for algorithm in ALGORITHMS:
        for size in SIZES:
            for dtype in NUMBERS if size in (3, 17) else ("f", "q"):
                mine = values(size, dtype, comm.rank)
                expected = np.empty_like(mine)
                comm.Allreduce(mine, expected)
                before = mine.copy()
                same(allreduce(mine, comm, algorithm=algorithm), expected)
                same(mine, before)  # the input is left alone
                for pieces in (2, 5) if size < 1000 else (7,):
                    work = mine.copy()
                    ALGORITHMS[algorithm].start(work, comm, added, pieces)
                    same(work, expected)


def check_allreduce_of_millions() -> None:
    """More than one segment for each part of the ring."""
    _, comm = world()
    mine = values(3_000_001, "f", comm.rank)
    expected = np.empty_like(mine)
    comm.Allreduce(mine, expected)
    for algorithm in ALGORITHMS:
        same(allreduce(mine, comm, algorithm=algorithm), expected)


def check_layouts() -> None:
    """Shapes, scalars, lists, strides, Fortran order, and out=."""
    _, comm = world()
    n, rank = comm.size, comm.rank
    total = n * (n + 1) // 2
    for algorithm in ALGORITHMS:
        same(allreduce(float(rank + 1), comm, algorithm), np.array(float(total)))
        nested = [[rank + 1, 0], [0, 1]]
        same(allreduce(nested, comm, algorithm), np.array([[total, 0], [0, n]]))
        grid = values((6, 8), "d", rank)
        expected = np.empty_like(grid)
        comm.Allreduce(grid, expected)
        # Every rank may lay its memory out in its own way.
        mine = np.asfortranarray(grid) if rank % 2 else grid.copy()
        same(allreduce(mine, comm, algorithm), expected)
        strided = np.zeros((12, 24))[::2, ::3]
        strided[...] = grid
        same(allreduce(strided, comm, algorithm), expected)
        out = np.empty((6, 8))
        assert allreduce(mine, comm, algorithm, out=out) is out
        same(out, expected)
        inplace = grid.copy()
        assert allreduce(inplace, comm, algorithm, out=inplace) is inplace
        same(inplace, expected)
        shifted = np.concatenate([grid.reshape(-1), np.zeros(3)])
        allreduce(shifted[:48], comm, algorithm, out=shifted[3:])  # overlapping
        same(shifted[3:], expected.reshape(-1))


def check_same_bits_everywhere() -> None:
    """Replicas that add 0.1 and 1e8 in another order drift apart; ours must not."""
    _, comm = world()
    mine = np.random.default_rng(comm.rank).normal(size=1001).astype("f") * 10.0**comm.rank
    for algorithm in ALGORITHMS:
        bits = allreduce(mine, comm, algorithm).tobytes()
        assert comm.allgather(bits) == [bits] * comm.size, algorithm


def check_rooted() -> None:
    _, comm = world()
    n, rank = comm.size, comm.rank
    for root in range(n):
        for dtype in "fqD" if root == 0 else "f":
            for shape in ((0,), (n - 1,), (2 * n, 3), (2 * n + 1, 2)):
                whole = values(shape, dtype, 0)
                mine = whole.copy() if rank == root else np.zeros_like(whole)
                assert collectives.broadcast(mine, comm, root) is mine
                same(mine, whole)
                added_up = collectives.reduce(whole * (rank + 1), comm, root)
                assert (added_up is None) == (rank != root)
                if rank == root:
                    same(added_up, whole * np.array(n * (n + 1) // 2, whole.dtype))
                borders = [len(whole) * r // n for r in range(n + 1)]
                expected = whole[borders[rank] : borders[rank + 1]]
                out = None if rank == root else np.zeros_like(expected)
                part = collectives.scatter(whole if rank == root else None, comm, root, out)
                same(part, expected)
                if len(whole) % n:
                    continue
                back = collectives.gather(part, comm, root)
                assert (back is None) == (rank != root)
                if rank == root:
                    same(back, whole)
                same(collectives.allgather(part, comm), whole)
    same(collectives.allgather(float(rank), comm), np.arange(n, dtype=float))


def check_bad_input() -> None:
    _, comm = world()
    n, rank = comm.size, comm.rank
    x, locked = np.zeros(4), np.zeros(4)
    locked.flags.writeable = False
    masked = np.ma.masked_array(x, x > 0)
    allgather, broadcast = collectives.allgather, collectives.broadcast
    cases = [
        (ValueError, "chain tree ring 'star'", allreduce, x, comm, "star"),
        (TypeError, "mpi4py communicator int 3", allreduce, x, 3),
        (TypeError, "numbers bool", allreduce, x > 0, comm),
        (TypeError, "byte order >f8", allreduce, x.astype(">f8"), comm),
        (TypeError, "numbers |S1", allreduce, np.zeros(2, "S1"), comm),
        (TypeError, "numbers object", allgather, np.array([None]), comm),
        (TypeError, "mask", broadcast, masked, comm),
        (TypeError, "integer", broadcast, x, comm, 1.5),
    ]
    if n > 1:
        words = "numbers" if rank == 0 else f"out= {rank}"
        cases.append(((TypeError, ValueError), words, collectives.scatter, None, comm))
        if rank:
            cases.append((ValueError, "writeable", broadcast, locked, comm))
        else:
            cases.append((ValueError, "writeable", broadcast, x, comm))
    for root in (-1, n):
        words = f"root 0..{n - 1} {root}"
        for function in (broadcast, collectives.reduce, collectives.scatter, collectives.gather):
            cases.append((ValueError, words, function, x, comm, root))
    for error, words, function, *arguments in cases:
        refused(error, words, lambda f=function, a=arguments: f(*a))
    for words, out in [
        ("list", [0.0] * 4),
        ("(4,) (5,)", np.zeros(5)),
        ("float64 float32", np.zeros(4, "f")),
        ("writeable", locked),
        ("contiguous", np.zeros(8)[::2]),
        ("MaskedArray", masked),
    ]:
        refused(ValueError, words, lambda out=out: allreduce(x, comm, out=out))
    comm.Barrier()  # nobody was left waiting in a message


def check_inside_a_group() -> None:
    """Sub-communicators, with ranks in reverse: the group's ranks count, not the world's."""
    _, comm = world()
    group = comm.Split(comm.rank % 2, -comm.rank)
    mine = np.array([10**group.rank, comm.rank])
    expected = np.empty_like(mine)
    group.Allreduce(mine, expected)
    for algorithm in ALGORITHMS:
        same(allreduce(mine, group, algorithm), expected)
    group.Free()


@pytest.mark.mpi
@pytest.mark.parametrize("n", [1, 3, 4, *(pytest.param(n, marks=PART) for n in (2, 5, 7))])
def test_on_ranks(n):
    chosen = [check_allreduce_sizes_and_dtypes, check_layouts, check_rooted, check_bad_input]
    chosen += [check_same_bits_everywhere, check_inside_a_group]
    chosen += [check_allreduce_of_millions] if n == 3 else []
    on_ranks(n, *((check,) for check in chosen))
