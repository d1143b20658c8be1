"""What the tests of helpers.collectives run on every rank: our calls beside MPI's own."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import collectives
from helpers.collectives import ALGORITHMS, allreduce

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
                    same(allreduce(mine, comm, None, algorithm, pieces=pieces), expected)


def check_allreduce_of_millions() -> None:
    """More than one segment for each part of the ring."""
    _, comm = world()
    mine = values(3_000_001, "f", comm.rank)
    expected = np.empty_like(mine)
    comm.Allreduce(mine, expected)
    for algorithm in ALGORITHMS:
        same(allreduce(mine, comm, algorithm=algorithm), expected)


def check_allreduce_ops() -> None:
    MPI, comm = world()
    cases = [
        ("iqB", ("SUM", "PROD", "MAX", "MIN", "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR")),
        ("fd", ("SUM", "PROD", "MAX", "MIN")),
        ("FD", ("SUM", "PROD")),
        ("?", ("LAND", "LOR", "LXOR")),
    ]
    for dtypes, names in cases:
        for dtype in dtypes:
            mine = values(7, "i", comm.rank) % 3
            mine = mine.astype(dtype)
            for name in names:
                op = getattr(MPI, name)
                expected = np.empty_like(mine)
                comm.Allreduce(mine, expected, op)
                for algorithm in ALGORITHMS:
                    same(allreduce(mine, comm, op, algorithm), expected)
                for root in {0, comm.size - 1}:
                    ours = collectives.reduce(mine, comm, op, root)
                    assert (ours is None) == (comm.rank != root)
                    if comm.rank == root:
                        same(ours, expected)


def _append_digits(left, right, datatype) -> None:
    """right ← left followed by right, as decimal digits: associative, but it does not commute."""
    a, b = np.frombuffer(left, "q"), np.frombuffer(right, "q")
    digits = np.array([len(str(number)) for number in b], "q")
    b[...] = a * 10**digits + b


def check_order_of_ranks() -> None:
    MPI, comm = world()
    op = MPI.Op.Create(_append_digits, commute=False)
    mine = np.full(6, comm.rank + 1, "q")
    expected = np.full(6, int("".join(str(r + 1) for r in range(comm.size))), "q")
    for pieces in (1, 4):
        for algorithm in ("chain", "tree", "recursive_doubling"):
            same(allreduce(mine, comm, op, algorithm, pieces=pieces), expected)
        for root in range(comm.size):
            for algorithm in ("chain", "tree"):
                ours = collectives.reduce(mine, comm, op, root, algorithm, pieces=pieces)
                if comm.rank == root:
                    same(ours, expected)
    named = "MPI.Op.Create(_append_digits, commute=False)"
    refused(ValueError, f"ring order {named} commute tree", lambda: allreduce(mine, comm, op))
    op.Free()


def check_layouts() -> None:
    """Shapes, scalars, lists, strides, Fortran order, and every way of saying out=."""
    _, comm = world()
    n, rank = comm.size, comm.rank
    total = n * (n + 1) // 2
    for algorithm in ALGORITHMS:
        same(allreduce(float(rank + 1), comm, None, algorithm), np.array(float(total)))
        same(
            allreduce([[rank + 1, 0], [0, 1]], comm, None, algorithm),
            np.array([[total, 0], [0, n]]),
        )
        grid = values((6, 8), "d", rank)
        expected = np.empty_like(grid)
        comm.Allreduce(grid, expected)
        # Every rank may lay its memory out in its own way.
        mine = np.asfortranarray(grid) if rank % 2 else grid.copy()
        same(allreduce(mine, comm, None, algorithm), expected)
        strided = np.zeros((12, 24))[::2, ::3]
        strided[...] = grid
        same(allreduce(strided, comm, None, algorithm), expected)
        for out in (np.empty((6, 8)), np.empty((6, 8), order="F"), np.empty((12, 8))[::2]):
            returned = allreduce(mine, comm, None, algorithm, out=out)
            assert returned is out
            same(out, expected)
        around = np.full((12, 24), 77.0)
        view = around[::2, ::3]
        view[...] = grid
        assert allreduce(view, comm, None, algorithm, out=view) is view
        same(view, expected)
        assert around.sum() == expected.sum() + 77.0 * (around.size - view.size)
        inplace = grid.copy()
        assert allreduce(inplace, comm, None, algorithm, out=inplace) is inplace
        same(inplace, expected)
        shifted = np.concatenate([grid.reshape(-1), np.zeros(3)])
        allreduce(shifted[:48], comm, None, algorithm, out=shifted[3:])  # overlapping
        same(shifted[3:], expected.reshape(-1))


def check_same_bits_everywhere() -> None:
    """Replicas that add 0.1 and 1e8 in another order drift apart; ours must not."""
    _, comm = world()
    mine = np.random.default_rng(comm.rank).normal(size=1001).astype("f") * 10.0**comm.rank
    for algorithm in ALGORITHMS:
        bits = allreduce(mine, comm, None, algorithm).tobytes()
        assert comm.allgather(bits) == [bits] * comm.size, algorithm


def check_rooted() -> None:
    _, comm = world()
    n, rank = comm.size, comm.rank
    for root in range(n):
        for dtype in ("f", "?", "S3", ">f8", "f4,i2") if root == 0 else ("f",):
            for shape in ((0,), (n - 1,), (2 * n, 3), (2 * n + 1, 2)):
                whole = (np.arange(int(np.prod(shape))) % 5).astype("i").reshape(shape)
                whole = whole.astype("i8").astype(dtype) if dtype != "f4,i2" else _records(whole)
                for algorithm in ("tree", "chain"):
                    for pieces in (1, 3):
                        mine = whole.copy() if rank == root else np.zeros_like(whole)
                        mine = np.asfortranarray(mine)
                        ours = collectives.broadcast(mine, comm, root, algorithm, pieces)
                        assert ours is mine
                        same(ours, whole)
                borders = [len(whole) * r // n for r in range(n + 1)]
                expected = whole[borders[rank] : borders[rank + 1]]
                out = None if rank == root else np.zeros_like(expected)
                part = collectives.scatter(
                    whole if rank == root else None, comm, root=root, out=out
                )
                same(part, expected)
                if len(whole) % n:
                    continue
                back = collectives.gather(part, comm, root, out=np.empty_like(whole, order="F"))
                assert (back is None) == (rank != root)
                if rank == root:
                    same(back, whole)
                same(collectives.allgather(part, comm), whole)
    same(collectives.allgather(float(rank), comm), np.arange(n, dtype=float))


def _records(numbers: np.ndarray) -> np.ndarray:
    records = np.zeros(numbers.shape, "f4,i2")
    records["f0"], records["f1"] = numbers, numbers
    return records


def check_bad_input() -> None:
    MPI, comm = world()
    n, rank = comm.size, comm.rank
    x, locked = np.zeros(4), np.zeros(4)
    locked.flags.writeable = False
    masked = np.ma.masked_array(x, x > 0)
    allgather, broadcast = collectives.allgather, collectives.broadcast
    cases = [
        (ValueError, "chain tree ring 'star'", allreduce, x, comm, None, "star"),
        (ValueError, "tree []", collectives.reduce, x, comm, None, 0, []),
        (TypeError, "mpi4py communicator int 3", allreduce, x, 3),
        (ValueError, "COMM_NULL", allreduce, x, MPI.COMM_NULL),
        (TypeError, "op MPI.SUM 'sum'", allreduce, x, comm, "sum"),
        (TypeError, "op built-in sum", allreduce, x, comm, sum),
        (ValueError, "OP_NULL", allreduce, x, comm, MPI.OP_NULL),
        (ValueError, "MPI.SUM bool", allreduce, x > 0, comm),
        (ValueError, "MPI.MAX complex128", allreduce, x + 1j, comm, MPI.MAX),
        (ValueError, "MPI.MINLOC float64", allreduce, x, comm, MPI.MINLOC),
        (TypeError, ">f8 byte order", allreduce, x.astype(">f8"), comm),
        (TypeError, "datatype S1", allreduce, np.zeros(2, "S1"), comm),
        (TypeError, "|O", allreduce, np.array([None]), comm),
        (TypeError, "object", allgather, np.array([None]), comm),
        (TypeError, "mask", allreduce, masked, comm),
        (TypeError, "mask", allgather, masked, comm),
        (TypeError, "mask", broadcast, masked, comm),
        (TypeError, "root 1.5", broadcast, x, comm, 1.5),
        (TypeError, "array list", broadcast, [1.0], comm),
    ]
    if n > 1:
        cases.append((ValueError, "read-only", broadcast, locked, comm))
        words = "array" if rank == 0 else f"out= {rank}"
        cases.append(((TypeError, ValueError), words, collectives.scatter, None, comm))
    for root in (-1, n):
        words = f"root 0..{n - 1} {root}"
        cases.append((ValueError, words, collectives.reduce, x, comm, None, root))
        for function in (broadcast, collectives.scatter, collectives.gather):
            cases.append((ValueError, words, function, x, comm, root))
    for error, words, function, *arguments in cases:
        refused(error, words, lambda f=function, a=arguments: f(*a))
    for error, words, given in [
        (TypeError, "out list", {"out": [0.0] * 4}),
        (TypeError, "out mask", {"out": masked}),
        (ValueError, "(4,) (5,)", {"out": np.zeros(5)}),
        (ValueError, "float64 float32", {"out": np.zeros(4, "f")}),
        (ValueError, "out read-only", {"out": locked}),
        (ValueError, f"hosts {n}", {"hosts": [0] * (n + 1)}),
        (ValueError, "hosts 3", {"hosts": 3}),
        *((ValueError, "pieces at least 1", {"pieces": p}) for p in (0, -1, 1.5, "two")),
    ]:
        refused(error, words, lambda given=given: allreduce(x, comm, **given))
    same(allreduce(x, comm, pieces=2**40), n * x)  # none is empty
    comm.Barrier()  # nobody was left waiting in a message


def check_inside_a_group() -> None:
    """Sub-communicators, with ranks in reverse: the group's ranks count, not the world's."""
    _, comm = world()
    group = comm.Split(comm.rank % 2, -comm.rank)
    mine = np.array([10**group.rank, comm.rank])
    expected = np.empty_like(mine)
    group.Allreduce(mine, expected)
    for algorithm in ALGORITHMS:
        same(allreduce(mine, group, None, algorithm), expected)
    group.Free()


def in_turn(checks: list) -> None:
    """Run one check after the other; a traceback names the one that failed."""
    for check in checks:
        check()
