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


def check_allreduce_sizes_and_dtypes(million: int = 0) -> None:
    _, comm = world()
    for algorithm in ALGORITHMS:
        for size in SIZES + ((million,) if million else ()):
            for dtype in NUMBERS if size in (3, 17) else ("f", "q"):
                mine = values(size, dtype, comm.rank)
                expected = np.empty_like(mine)
                comm.Allreduce(mine, expected)
                before = mine.copy()
                same(allreduce(mine, comm, algorithm=algorithm), expected)
                same(mine, before)  # the input is left alone
                for pieces in (2, 5) if size < 1000 else (7,):
                    same(allreduce(mine, comm, None, algorithm, pieces=pieces), expected)


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


def check_where_the_largest_is() -> None:
    """MINLOC and MAXLOC, on records of a value and an index."""
    MPI, comm = world()
    pair = np.dtype([("value", "d"), ("rank", "i")], align=True)
    mine = np.zeros(5, pair)
    mine["value"] = [(comm.rank * 7 + k) % 3 for k in range(5)]
    mine["rank"] = comm.rank
    for op in (MPI.MAXLOC, MPI.MINLOC):
        expected = np.zeros_like(mine)
        comm.Allreduce([mine, MPI.DOUBLE_INT], [expected, MPI.DOUBLE_INT], op)
        for algorithm in ALGORITHMS:
            same(allreduce(mine, comm, op, algorithm), expected)


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
    refused(
        ValueError,
        "reduce_scatter commute",
        lambda: collectives.reduce_scatter(mine, comm, op),
    )
    op.Free()


def _multiply_matrices(left, right, datatype) -> None:
    a = np.frombuffer(left, "d").reshape(-1, 2, 2)
    b = np.frombuffer(right, "d").reshape(-1, 2, 2)
    b[...] = a @ b


def check_operation_on_records() -> None:
    """A user's operation on 2 × 2 matrices, each one element: never cut in two."""
    MPI, comm = world()
    op = MPI.Op.Create(_multiply_matrices, commute=False)
    matrices = [np.array([[1.0, r], [r % 2, 1.0]]) for r in range(comm.size)]
    mine = np.zeros(3, np.dtype([("m", "d", (2, 2))]))
    mine["m"] = matrices[comm.rank]
    product = np.eye(2)
    for matrix in matrices:
        product = product @ matrix
    for algorithm in ("chain", "tree", "recursive_doubling"):
        for pieces in (1, 2):
            ours = allreduce(mine, comm, op, algorithm, pieces=pieces)
            assert np.array_equal(ours["m"], np.stack([product] * 3))
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
            for shape in ((0,), (n - 1,), (7, 3), (2 * n + 1, 2)):
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
                counts = np.diff(borders)
                back = collectives.gather(part, comm, root, counts if rank == root else None)
                assert (back is None) == (rank != root)
                if rank == root:
                    same(back, whole)
                same(collectives.allgather(part, comm, counts), whole)
        uneven = list(range(n))
        whole = np.arange(sum(uneven) * 2.0).reshape(-1, 2)
        part = collectives.scatter(
            whole if rank == root else None,
            comm,
            root,
            counts=uneven,
            out=np.empty((2 * rank, 2))[::2],
        )
        same(part, whole[sum(uneven[:rank]) : sum(uneven[: rank + 1])])


def _records(numbers: np.ndarray) -> np.ndarray:
    records = np.zeros(numbers.shape, "f4,i2")
    records["f0"], records["f1"] = numbers, numbers
    return records


def check_against_mpi_by_name() -> None:
    """gather, allgather, scatter, broadcast, reduce_scatter beside MPI's calls, equal parts."""
    MPI, comm = world()
    n, rank = comm.size, comm.rank
    mine = values((4, 3), "d", rank)
    expected = np.empty((4 * n, 3))
    comm.Allgather(mine, expected)
    same(collectives.allgather(mine, comm), expected)
    same(collectives.allgather(float(rank), comm), np.arange(n, dtype=float))
    for root in range(n):
        comm.Gather(mine, expected, root)
        ours = collectives.gather(mine, comm, root, out=np.empty((4 * n, 3), order="F"))
        if rank == root:
            same(ours, expected)
        whole = values((4 * n, 3), "d", 3)
        comm.Scatter(whole, mine, root)
        same(collectives.scatter(whole, comm, root, out=np.empty((4, 3))), mine)
    for op in (MPI.SUM, MPI.MAX):
        whole = values((4 * n, 3), "d", rank)
        comm.Reduce_scatter(whole, mine, op=op)
        same(collectives.reduce_scatter(whole, comm, op), mine)
    for length in (0, 1, n - 1, n + 1, 50):
        whole = values(length, "q", rank)
        total = allreduce(whole, comm)
        borders = [length * r // n for r in range(n + 1)]
        same(collectives.reduce_scatter(whole, comm), total[borders[rank] : borders[rank + 1]])
        counts = [0] * (n - 1) + [length]
        last = total if rank == n - 1 else total[:0]
        same(collectives.reduce_scatter(whole, comm, counts=counts), last)


def check_bad_input() -> None:
    MPI, comm = world()
    n, rank = comm.size, comm.rank
    x = np.zeros(4)
    locked = np.zeros(4)
    locked.flags.writeable = False
    refused(ValueError, "chain tree ring 'star'", lambda: allreduce(x, comm, algorithm="star"))
    refused(ValueError, "tree []", lambda: collectives.reduce(x, comm, algorithm=[]))
    refused(TypeError, "mpi4py communicator int 3", lambda: allreduce(x, 3))
    refused(ValueError, "COMM_NULL", lambda: allreduce(x, MPI.COMM_NULL))
    refused(TypeError, "op MPI.SUM 'sum'", lambda: allreduce(x, comm, "sum"))
    refused(TypeError, "op built-in sum", lambda: allreduce(x, comm, sum))
    refused(ValueError, "OP_NULL", lambda: allreduce(x, comm, MPI.OP_NULL))
    refused(ValueError, "MPI.SUM bool", lambda: allreduce(x > 0, comm))
    refused(ValueError, "MPI.MAX complex128", lambda: allreduce(x + 1j, comm, MPI.MAX))
    refused(ValueError, "MPI.MINLOC float64", lambda: allreduce(x, comm, MPI.MINLOC))
    refused(TypeError, ">f8 byte order", lambda: allreduce(x.astype(">f8"), comm))
    refused(TypeError, "datatype S1", lambda: allreduce(np.zeros(2, "S1"), comm))
    refused(TypeError, "|O", lambda: allreduce(np.array([None]), comm))
    refused(TypeError, "object", lambda: collectives.allgather(np.array([None]), comm))
    refused(TypeError, "out list", lambda: allreduce(x, comm, out=[0.0] * 4))
    refused(ValueError, "(4,) (5,)", lambda: allreduce(x, comm, out=np.zeros(5)))
    refused(ValueError, "float64 float32", lambda: allreduce(x, comm, out=np.zeros(4, "f")))
    refused(ValueError, "out read-only", lambda: allreduce(x, comm, out=locked))
    same(allreduce(x, comm, pieces=2**40), n * x)  # none is empty
    for pieces in (0, -1, 1.5, "two"):
        refused(ValueError, "pieces at least 1", lambda p=pieces: allreduce(x, comm, pieces=p))
    for root in (-1, n):
        refused(
            ValueError,
            f"root 0..{n - 1} {root}",
            lambda r=root: collectives.reduce(x, comm, root=r),
        )
        refused(ValueError, "root", lambda r=root: collectives.broadcast(x, comm, r))
        refused(ValueError, "root", lambda r=root: collectives.scatter(x, comm, r))
        refused(ValueError, "root", lambda r=root: collectives.gather(x, comm, r))
    refused(ValueError, f"hosts {n}", lambda: allreduce(x, comm, hosts=[0] * (n + 1)))
    refused(ValueError, "hosts 3", lambda: allreduce(x, comm, hosts=3))
    masked = np.ma.masked_array(x, x > 0)
    for function in (allreduce, collectives.allgather, collectives.broadcast):
        refused(TypeError, "mask", lambda f=function: f(masked, comm))
    refused(TypeError, "out mask", lambda: allreduce(x, comm, out=masked))
    refused(TypeError, "root 1.5", lambda: collectives.broadcast(x, comm, 1.5))
    refused(TypeError, "array list", lambda: collectives.broadcast([1.0], comm))
    if n > 1:
        refused(ValueError, "read-only", lambda: collectives.broadcast(locked, comm))
        words = "array" if rank == 0 else f"out= {rank}"
        refused((TypeError, ValueError), words, lambda: collectives.scatter(None, comm))
    refused(ValueError, "counts add 4", lambda: collectives.reduce_scatter(x, comm, counts=[9] * n))
    refused(
        ValueError,
        "counts each",
        lambda: collectives.reduce_scatter(x, comm, counts=[4, 0, 0, 0, 0, 0, 0, 0]),
    )
    refused(ValueError, "counts", lambda: collectives.allgather(x, comm, counts=[-1] * n))
    refused(ValueError, "counts rows 4", lambda: collectives.allgather(x, comm, counts=[3] * n))
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
