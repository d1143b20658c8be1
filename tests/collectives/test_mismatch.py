"""Ranks that call a collective differently: the same error on each, and no message is sent."""

import numpy as np
import pytest

from helpers import collectives
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks

pytestmark = pytest.mark.mpi


def calls(comm) -> dict:
    """Return calls of which rank 1 makes another than the others, each with what it must name."""
    allreduce, reduce, broadcast = collectives.allreduce, collectives.reduce, collectives.broadcast
    scatter, gather, allgather = collectives.scatter, collectives.gather, collectives.allgather
    odd, n, x = comm.rank == 1, comm.size, np.ones(6)
    locked = np.ones(6)
    locked.flags.writeable = False
    found = {}
    for name, words, other in [
        ("another length", "(6,) (5,)", x[:5]),
        ("another shape", "(6,) (2, 3)", x.reshape(2, 3)),
        ("another dtype", "float64 float32", x.astype("f")),
        ("as many bytes", "float64 int64", x.view("q")),
        ("nothing", "(6,) (0,)", x[:0]),
        ("a scalar", "(6,) ()", np.float64(1)),
    ]:
        given = np.array(other if odd else x)
        for algorithm in collectives.ALGORITHMS:
            found[f"allreduce: {name}, {algorithm}"] = words, allreduce, given, comm, algorithm
        found[f"reduce: {name}"] = words, reduce, given, comm
        found[f"broadcast: {name}"] = words, broadcast, given, comm
    root, algorithm = int(odd), ("tree", "chain")[odd]
    rows, part = np.ones((2 * n, 3)), np.empty((2, 3))
    objects = np.array([None] if odd else [1.0])
    return found | {
        "algorithm": ("tree chain", allreduce, x, comm, algorithm),
        "root of reduce": ("root=0 root=1", reduce, x, comm, root),
        "root of broadcast": ("root=0 root=1", broadcast, x, comm, root),
        "root of gather": ("root=0 root=1", gather, x, comm, root),
        "root of scatter": ("root=0 root=1", scatter, rows, comm, root, part),
        "part of scatter": ("3 2", scatter, rows, comm, 0, np.empty((2 + odd, 3))),
        "rows of scatter": ("(4,) (3,)", scatter, rows, comm, 0, np.empty((2, 3 + odd))),
        "dtype of scatter": ("float32 float64", scatter, rows, comm, 0, part.astype("df"[odd])),
        "part of gather": ("3 2", gather, rows[: 2 + odd], comm),
        "rows of gather": ("(2, 2) (2, 3)", gather, rows[:2, odd:], comm),
        "rows of allgather": ("(2, 3) (2, 2)", allgather, rows[:2, odd:], comm),
        "parts of allgather": ("2 3", allgather, rows[: 2 + odd], comm),
        "another collective": ("allreduce broadcast", broadcast if odd else allreduce, x, comm),
        "a root that one alone refuses": ("root -1", reduce, x, comm, -root),
        "an array that one alone cannot fill": ("writeable", broadcast, [x, locked][odd], comm),
        "no array for one part": ("out=", scatter, rows, comm, 0, None if odd else part),
        "objects on one rank": ("object", allgather, objects, comm),
        "out of another shape on one rank": (
            *("filled", allreduce, x, comm),
            *("ring", np.empty(6 - odd)),
        ),
    }


def every_rank_says_the_same() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    for name, (words, call, *arguments) in calls(comm).items():
        try:
            said = f"a result, {call(*arguments)}"
        except (TypeError, ValueError) as error:
            said = str(error)
        everybody = comm.allgather(said)  # too late where a call waits for ever: the test's limit
        others = [one for rank, one in enumerate(everybody) if rank != 1]
        assert len(set(others)) == 1, (name, everybody)
        refused_by_one = "alone" in name or "one" in name
        assert refused_by_one or everybody[1] == others[0], (name, everybody)
        for one in everybody:
            assert all(word in one for word in words.split()), (name, one)
        assert "rank 1" in others[0], (name, others[0])
        total = collectives.allreduce(np.arange(3.0) + comm.rank, comm)  # nothing is under way
        assert total[0] == comm.size * (comm.size - 1) / 2, name


@pytest.mark.parametrize("n", [3, *(pytest.param(n, marks=PART) for n in (2, 5))])
def test_calls_that_differ_between_ranks_raise_on_each(n):
    run_ranks(n, every_rank_says_the_same, timeout=60)
