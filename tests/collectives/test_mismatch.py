"""Ranks that call a collective differently: the same error on each, and no message is sent."""

import numpy as np
import pytest

from helpers import collectives
from tests.mpi.runner import run_ranks

pytestmark = pytest.mark.mpi


def calls(comm) -> dict:
    """Return calls of which rank 1 makes another than the others, each with what it must name."""
    from mpi4py import MPI

    odd, x = comm.rank == 1, np.ones(6)
    locked = np.ones(6)
    locked.flags.writeable = False
    shapes = {
        "another length": x[:5],
        "another shape": x.reshape(2, 3),
        "another dtype": x.astype("f"),
        "as many bytes": x.view("q"),
        "nothing": x[:0],
        "a scalar": np.float64(1),
    }
    of_arrays = {
        name: (words, [shapes[name] if odd else x])
        for name, words in {
            "another length": "(6,) (5,)",
            "another shape": "(6,) (2, 3)",
            "another dtype": "float64 float32",
            "as many bytes": "float64 int64",
            "nothing": "(6,) (0,)",
            "a scalar": "(6,) ()",
        }.items()
    }
    found = {}
    for name, (words, args) in of_arrays.items():
        for algorithm in collectives.ALGORITHMS:
            found[f"allreduce: {name}, {algorithm}"] = (
                words,
                lambda a=args, algorithm=algorithm: collectives.allreduce(
                    *a, comm, algorithm=algorithm
                ),
            )
        for algorithm in ("tree", "chain"):
            for function in (collectives.reduce, collectives.broadcast):
                found[f"{function.__name__}: {name}, {algorithm}"] = (
                    words,
                    lambda a=args, f=function, algorithm=algorithm: f(
                        np.array(*a), comm, algorithm=algorithm
                    ),
                )
        found[f"reduce_scatter: {name}"] = (
            words if name != "a scalar" else "(6,) (1,)",
            lambda a=args: collectives.reduce_scatter(*a, comm),
        )
    root, op, algorithm = int(odd), (MPI.SUM, MPI.MAX)[odd], ("tree", "chain")[odd]
    rows = np.ones((2 * comm.size, 3))
    return found | {
        "op": ("MPI.SUM MPI.MAX", lambda: collectives.allreduce(x, comm, op)),
        "op of reduce": ("MPI.SUM MPI.MAX", lambda: collectives.reduce(x, comm, op)),
        "op of reduce_scatter": ("SUM MAX", lambda: collectives.reduce_scatter(x, comm, op)),
        "algorithm": ("tree chain", lambda: collectives.allreduce(x, comm, None, algorithm)),
        "of reduce": ("tree chain", lambda: collectives.reduce(x, comm, algorithm=algorithm)),
        "pieces": ("1 2", lambda: collectives.allreduce(x, comm, pieces=root + 1)),
        "hosts": (
            "hosts",
            lambda: collectives.allreduce(
                x, comm, None, "two_level", hosts=None if odd else (0,) * comm.size
            ),
        ),
        "root of reduce": ("root=0 root=1", lambda: collectives.reduce(x, comm, root=root)),
        "root of broadcast": ("root=0 root=1", lambda: collectives.broadcast(x, comm, root)),
        "root of gather": ("root=0 root=1", lambda: collectives.gather(x, comm, root)),
        "root of scatter": (
            "root=0 root=1",
            lambda: collectives.scatter(rows, comm, root, out=np.empty((2, 3))),
        ),
        "part of scatter": (
            "3 2",
            lambda: collectives.scatter(rows, comm, out=np.empty((3 if odd else 2, 3))),
        ),
        "rows of scatter": (
            "(4,) (3,)",
            lambda: collectives.scatter(rows, comm, out=np.empty((2, 3 + odd))),
        ),
        "dtype of scatter": (
            "float32 float64",
            lambda: collectives.scatter(rows, comm, out=np.empty((2, 3), "df"[odd])),
        ),
        "part of gather": ("3 2", lambda: collectives.gather(rows[: 3 if odd else 2], comm)),
        "rows of gather": ("(2,) (3,)", lambda: collectives.gather(rows[:2, odd:], comm)),
        "counts of gather": (
            "5 2",
            lambda: collectives.gather(rows[:2], comm, counts=[2, 5, *[2] * (comm.size - 2)]),
        ),
        "counts of allgather": (
            "counts",
            lambda: collectives.allgather(
                rows[:2], comm, [2, 2, *[2 + odd] * (comm.size - 2)] if comm.size > 2 else None
            ),
        ),
        "rows of allgather": ("(3,) (2,)", lambda: collectives.allgather(rows[:2, odd:], comm)),
        "parts of allgather": ("2 3", lambda: collectives.allgather(rows[: 2 + odd], comm)),
        "counts of reduce_scatter": (
            "counts",
            lambda: collectives.reduce_scatter(
                x, comm, counts=[6, *[0] * (comm.size - 1)][:: -1 if odd else 1]
            ),
        ),
        "another collective": (
            "allreduce broadcast",
            lambda: collectives.broadcast(x, comm) if odd else collectives.allreduce(x, comm),
        ),
        "what one alone refuses": (
            "pieces 0",
            lambda: collectives.allreduce(x, comm, pieces=0 if odd else 1),
        ),
        "a root that one alone refuses": (
            "root -1",
            lambda: collectives.reduce(x, comm, root=-1 if odd else 0),
        ),
        "an array that one alone cannot fill": (
            "read-only",
            lambda: collectives.broadcast(locked if odd else x.copy(), comm),
        ),
        "no array for one part": (
            "out=",
            lambda: collectives.scatter(rows, comm, out=None if odd else np.empty((2, 3))),
        ),
        "objects on one rank": (
            "object",
            lambda: collectives.allgather(np.array([None] if odd else [1.0]), comm),
        ),
        "out of another shape on one rank": (
            "out",
            lambda: collectives.allreduce(x, comm, out=np.empty(5 + (not odd))),
        ),
    }


def every_rank_says_the_same() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    for name, (words, call) in calls(comm).items():
        if name == "counts of allgather" and comm.size == 2:
            continue
        try:
            said = f"a result, {call()}"
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


@pytest.mark.parametrize("n", [2, 3, pytest.param(5, marks=pytest.mark.part(of="cluster"))])
def test_calls_that_differ_between_ranks_raise_on_each(n):
    run_ranks(n, every_rank_says_the_same, timeout=60)
