"""on_ranks: an answer that hangs, raises or ends a rank becomes words; the ranks live."""

import pytest

from helpers.exercises.core import (
    CORRECT,
    NOT_ATTEMPTED,
    WRONG,
    equal,
    exercise,
)
from helpers.exercises.on_ranks import on_ranks

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def cluster():
    from helpers.cluster import Cluster

    with Cluster(n=2) as ranks:
        yield ranks


def asked(answer, greeting):
    """What the check runs on every rank."""
    from mpi4py import MPI

    return answer(greeting, MPI.COMM_WORLD)


@exercise
def greet(answer, cluster):
    for rank, returned in enumerate(on_ranks(cluster, asked, answer, "hello")):
        equal(returned, f"hello {1 - rank}", f"what rank {rank} returned")


def swap(greeting, comm):
    return comm.sendrecv(f"{greeting} {comm.Get_rank()}", 1 - comm.Get_rank())


def receive_first(greeting, comm):
    received = comm.recv(source=1 - comm.Get_rank(), tag=5)
    comm.send(greeting, 1 - comm.Get_rank(), tag=5)
    return received


def one_raises(greeting, comm):
    if comm.Get_rank():
        raise KeyError("no such rank")
    return comm.recv(source=1)


def one_ends(greeting, comm):
    import os

    if comm.Get_rank():
        os._exit(7)
    return comm.recv(source=1)


def one_raises_and_one_computes(greeting, comm):
    if comm.Get_rank():
        raise KeyError("no such rank")
    while True:
        pass


def drops_its_request(greeting, comm):
    comm.isend(greeting, dest=-1)  # to nobody, so that the test after finds nothing
    raise RuntimeError("copy_iovs(224).........: process_vm_readv failed (errno 14)")


def uses_the_worlds_rank(greeting, comm):
    return comm.sendrecv(f"{greeting} {rank}", 1 - comm.Get_rank())  # noqa: F821


def forgets_to_return(greeting, comm):
    swap(greeting, comm)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            receive_first,
            ["no end after 2 s", "among 2 ranks", "recv", "rank 1", "tag", "in a circle"],
        ),
        (one_raises, ["on rank 1 it raised KeyError: 'no such rank'"]),
        (
            one_raises_and_one_computes,
            ["on rank 1 it raised KeyError: 'no such rank'; no end after 2 s on the others.\n"],
        ),
        (one_ends, ["Rank 1 died"]),
        (
            drops_its_request,
            ["process_vm_readv failed (errno 14). It begins a send and never waits for"],
        ),
        (uses_the_worlds_rank, ["'rank' from outside", "comm.Get_rank()"]),
        (forgets_to_return, ["what rank 0 returned: None is not right"]),
        (7, ["expected a function, got 7"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_goes_wrong_is_said_and_the_ranks_live(answer, words, cluster, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(on_ranks.__kwdefaults__, "limit", 2.0)
        verdict = greet.examine(answer, cluster=cluster)
    assert verdict.status == WRONG
    missing = [word for word in words if word not in verdict.message]
    assert not missing, verdict.message
    assert "\x1b" not in verdict.message
    assert greet.examine(swap, cluster=cluster).status == CORRECT


def test_a_stub_is_not_attempted(cluster):
    assert greet.examine(lambda greeting, comm: None, cluster=cluster).status == NOT_ATTEMPTED
    assert greet.examine(lambda greeting, comm: ..., cluster=cluster).status == NOT_ATTEMPTED


GRID = """
from helpers.exercises import mpi_basics as check

def grid_sums(value, comm):
    rank = comm.Get_rank()
    return comm.Split(rank // 2).allreduce(value), comm.Split(rank % 2).allreduce(value)

check.grid_sums(grid_sums, cluster=cluster)
"""


RAISES = """
def meet(values, comm, step, period):
    if step == 2:
        values[:] = comm.nothing

local_sgd.meet(meet, cluster=cluster)
"""


def test_a_check_says_which_line_of_the_cell_raised_on_a_rank():
    from tests.cluster.kernel import Kernel

    with Kernel() as kernel:
        kernel("from helpers.exercises import local_sgd\nfrom helpers.cluster import Cluster")
        kernel("cluster = Cluster(n=2)")
        shown = kernel(RAISES)
        kernel("cluster.stop()")
    assert "no attribute 'nothing' (line 3: values[:] = comm.nothing)" in shown.text


def test_a_check_that_starts_more_ranks_says_one_thing():
    from tests.cluster.kernel import Kernel

    with Kernel() as kernel:
        kernel("from helpers.cluster import Cluster\ncluster = Cluster(n=4)")
        shown = kernel(GRID)
        kernel("cluster.stop()")
    assert (shown.text, shown.error) == ("grid sums: correct\n", "")
