"""A traced communicator behaves as mpi4py's own, tells what it is doing, and records it."""

import faulthandler
import inspect
import pickle
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cluster.ways import PART
from tests.mpi.several import on_ranks

RANKS = [2, 3, pytest.param(5, marks=PART)]
pytestmark = pytest.mark.mpi


def traced():
    from mpi4py import MPI

    from helpers.tracing.communicator import TracedComm

    comm = TracedComm(MPI.COMM_WORLD)
    comm.recorder.start()
    return comm


def rows(comm):
    """Return (call, peer, tag, bytes) of what was recorded; nothing is going on any more."""
    assert comm.recorder.current is None
    return [(r[0], r[3], r[4], r[5]) for r in comm.recorder.stop()]


def pickled(value):
    return len(pickle.dumps(value, protocol=5))


def point_to_point():
    """What is sent arrives, and is recorded."""
    comm = traced()
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    for send, tag in (("Issend", 2), ("Rsend", 3)):
        inbox, out = np.zeros(3), np.full(3, float(rank))
        request = comm.Irecv(inbox, source=left, tag=tag)
        comm.Barrier()  # a ready send needs its receive posted
        sender = getattr(comm, send)(out, dest=right, tag=tag)
        request.Wait()
        if sender is not None:
            sender.Wait()
        assert inbox.tolist() == [float(left)] * 3
    request = comm.isend({"rank": rank}, dest=right, tag=4)
    assert comm.recv(source=left, tag=4) == {"rank": left}
    request.wait()
    assert comm.sendrecv("x" * rank, right, sendtag=5, source=left) == "x" * left
    box = np.array([float(rank)])
    comm.Sendrecv_replace(box, right, source=left)
    assert box[0] == left
    box = np.empty(2, "i4")
    comm.Sendrecv(np.array([rank, 7], "i4"), dest=right, recvbuf=box, source=left)
    assert box.tolist() == [left, 7]
    request = comm.Isendrecv(np.array([rank, 8], "i4"), right, 0, box, left)
    request.Wait()
    assert box.tolist() == [left, 8]
    from mpi4py import MPI

    comm.Send(np.zeros(4), MPI.PROC_NULL)
    assert comm.recv(source=MPI.PROC_NULL) is None
    missing = {
        ("Irecv", left, 2, 24),
        ("Issend", right, 2, 24),
        ("Rsend", right, 3, 24),
        ("isend", right, 4, pickled({"rank": rank})),
        ("recv", left, 4, pickled({"rank": left})),
        ("sendrecv", right, 5, pickled("x" * rank)),
        ("Sendrecv_replace", right, 0, 8),
        ("Sendrecv", right, 0, 8),
        ("Isendrecv", right, 0, 8),
        ("Send", "PROC_NULL", 0, 32),
        ("recv", "PROC_NULL", -1, 0),
        ("Barrier", "all", None, 0),
    } - {*rows(comm)}
    assert not missing, missing


def collectives():
    """They equal mpi4py's own, and are recorded."""
    from mpi4py import MPI

    plain, comm = MPI.COMM_WORLD, traced()
    n, rank = comm.size, comm.rank
    mine = np.arange(n, dtype="f8") + rank

    def compare(name, call):
        got, expected = call(comm), call(plain)
        assert np.array_equal(np.asarray(got), np.asarray(expected)), (name, got, expected)

    def into(box, name, *arguments, **keywords):
        """Compare what a call leaves in a copy of a box, which stands where ``...`` does."""

        def call(c):
            filled = np.array(box, "f8")
            given = [filled if each is ... else each for each in arguments]
            result = getattr(c, name)(*given, **keywords)
            if isinstance(result, MPI.Request):
                result.Wait()
            return filled

        compare(name, call)

    counts, empty = [1] * n, np.zeros(n)
    for name in ("Allreduce", "Scan", "Exscan", "Alltoall"):
        into(empty, name, mine, ...)
        into(empty, "I" + name.lower(), mine, ...)
    into(empty, "Allgather", mine[:1], ...)
    into([0], "Reduce_scatter", mine, ..., counts)
    for root in range(n):
        into(mine, "Bcast", ..., root)
        into(empty, "Reduce", mine, ..., root=root)
        into(empty, "Ireduce", mine, ..., root=root)
        into(empty, "Gather", mine[:1], ..., root=root)
        into([0], "Scatter", mine, ..., root=root)
        compare("bcast", lambda c, root=root: c.bcast([rank, "a"], root=root))
        compare("gather", lambda c, root=root: c.gather(rank, root) or 0)
        compare("scatter", lambda c, root=root: c.scatter(list(range(n)), root=root))
        compare("reduce", lambda c, root=root: c.reduce(rank, op=MPI.MAX, root=root) or 0)
    compare("Alltoallv", lambda c: _alltoallv(c, mine, counts))
    compare("allgather", lambda c: c.allgather(rank))
    compare("alltoall", lambda c: c.alltoall([rank * 10 + i for i in range(n)]))
    compare("allreduce", lambda c: c.allreduce(rank, op=lambda a, b: a + b))
    compare("scan", lambda c: c.scan(rank))
    comm.barrier()
    comm.Ibarrier().Wait()
    missing = {
        ("Allreduce", "all", None, 8 * n),
        ("Iallreduce", "all", None, 8 * n),
        ("Bcast", n - 1, None, 8 * n),
        ("Gather", n - 1, None, 8),
        ("Alltoallv", "all", None, 8 * n),
        ("allreduce", "all", None, 5),
        ("Ibarrier", "all", None, 0),
    } - {*rows(comm)}
    assert not missing, missing


def _alltoallv(c, mine, counts):
    box = np.zeros(len(counts))
    c.Alltoallv([mine, (counts, range(len(counts)))], [box, (counts, range(len(counts)))])
    return box


def families():
    """Communicators made from it are traced, and name ranks of the world."""
    from mpi4py import MPI

    from helpers.tracing.communicator import TracedComm, traced_class

    comm = traced()
    rank, n = comm.rank, comm.size
    half = comm.Split(rank % 2, key=-rank)  # ranks reversed
    last = half.size - 1  # the lowest world rank of this half
    half.Barrier()
    if half.rank == 0 and half.size > 1:
        half.send("hello", last, tag=3)
    if half.rank == last and half.size > 1:
        half.recv(source=MPI.ANY_SOURCE)
    kinds = [type(half)]
    for other in (
        half.Dup(),
        half.Clone(),
        half.Create(half.Get_group()),
        comm.Split_type(MPI.COMM_TYPE_SHARED),
    ):
        kinds.append(type(other))
        assert other.allreduce(1) == other.size
        other.Free()
    grid = comm.Create_cart([n], periods=[True])
    assert isinstance(grid, traced_class(MPI.Cartcomm))
    assert grid.neighbor_allgather(rank)[1] == (rank + 1) % n
    nobody = comm.Split(MPI.UNDEFINED)
    assert nobody == MPI.COMM_NULL
    assert all(kind is TracedComm for kind in kinds)
    assert isinstance(comm, MPI.Intracomm)
    assert comm == MPI.COMM_WORLD
    made = [row[:3] for row in rows(comm)]  # peers are ranks of the world
    first, other = rank % 2, rank % 2 + (half.size - 1) * 2
    if half.rank == 0 and half.size > 1:
        assert ("send", first, 3) in made
    if half.rank == last and half.size > 1:
        assert ("recv", other, 3) in made


def drain(MPI, wait, requests):
    """Complete both requests by the call named ``wait``; return what the first received."""
    got, pending = None, list(requests)
    while pending:
        if wait == "wait":
            messages, finished = [r.wait() for r in pending], range(len(pending))
        elif wait == "test":
            flag, message = pending[0].test()
            messages, finished = [message], [0] if flag else []
        elif wait == "testall":
            flag, messages = MPI.Request.testall(pending)
            finished = range(len(pending)) if flag else []
        elif wait.endswith("any"):
            result = getattr(MPI.Request, wait)(pending)
            messages, finished = result[-1:], [i for i in result[:1] if i != MPI.UNDEFINED]
        else:
            finished, messages = getattr(MPI.Request, wait)(pending)
            finished = finished or []
        for index, message in zip(finished, messages or [], strict=False):
            if pending[index] is requests[0]:
                got = message
        pending = [r for i, r in enumerate(pending) if i not in finished]
    return got


def requests():
    """They are completed and recorded, whoever waits, and by mpi4py's own names."""
    from mpi4py import MPI

    from helpers.tracing.communicator import install, uninstall

    world = MPI.COMM_WORLD
    comm = traced()
    install(comm.recorder)
    try:
        assert world == MPI.COMM_WORLD
        assert MPI.COMM_WORLD is not world
        assert pickle.loads(pickle.dumps(MPI.COMM_WORLD)) is MPI.COMM_WORLD
        n, rank = comm.size, comm.rank
        right, left = (rank + 1) % n, (rank - 1) % n
        for wait in ("Waitall", "waitall"):
            inbox = np.zeros(1)
            pair = [MPI.COMM_WORLD.Irecv(inbox), MPI.COMM_WORLD.Isend(np.ones(1) * rank, right)]
            getattr(MPI.Request, wait)(pair)
            assert inbox[0] == left
            assert not any(pair)
        for wait in ("waitany", "waitsome", "testany", "testsome", "testall", "test", "wait"):
            pair = [comm.irecv(source=left, tag=9), comm.isend(rank, right, tag=9)]
            assert drain(MPI, wait, pair) == left, wait
            MPI.COMM_WORLD.Barrier()
        assert isinstance(MPI.REQUEST_NULL, MPI.Request)
        assert not isinstance(MPI.REQUEST_NULL, MPI.Message)
        MPI.Request.Waitall([MPI.REQUEST_NULL, MPI.Request()])
        # matched probes
        request = comm.isend([rank], right, tag=11)
        message = comm.mprobe(source=left, tag=11)
        assert message.recv() == [left]
        request.wait()
        request = comm.Isend(np.full(1, float(rank)), right, tag=12)
        while (message := comm.Improbe(tag=12)) is None:
            pass
        message.Irecv(inbox).Wait()
        assert inbox[0] == left
        request.Wait()
        recorded = rows(comm)
        assert recorded[:3] == [  # the source of a receive from anywhere is filled in
            ("Irecv", left, 0, 8),
            ("Isend", right, 0, 8),
            ("Waitall", (("ANY_SOURCE", right)), "ANY_TAG", 16),
        ]
        assert ("Irecv", left, 12, 8) in recorded
        assert ("recv", left, 11, pickled([left])) in recorded
    finally:
        uninstall()
        assert MPI.COMM_WORLD is world


def failing():
    """Errors pass through and leave no current call."""
    from mpi4py import MPI

    comm = traced()
    for call in (
        lambda: comm.Send(np.ones(1), dest=comm.size + 5),
        lambda: comm.Isend(np.ones(1), comm.size + 5),
        lambda: comm.send(lambda: 0, 0),  # cannot be pickled
        lambda: comm.Recv(np.ones(1), source=comm.size + 5),
        lambda: comm.bcast(1, root=comm.size + 5),
        lambda: comm.Send("text", 0),
        lambda: comm.Split("colour"),
        lambda: comm.Send(),
    ):
        kinds = set()
        for recording in (True, False):
            if recording:
                comm.recorder.start()
            with pytest.raises(Exception) as caught:
                call()
            kinds.add(caught.type)
            assert rows(comm) == []
        assert len(kinds) == 1
    assert MPI.COMM_WORLD.allreduce(1) == comm.size


def watched(folder):
    """Rank 0 looks at itself from a thread while it waits for rank 1, which waits for the look."""
    from mpi4py import MPI

    from helpers.tracing.communicator import TracedComm

    comm = TracedComm(MPI.COMM_WORLD)
    seen = []

    def look():
        deadline = time.perf_counter() + 30
        while comm.recorder.current is None and time.perf_counter() < deadline:
            time.sleep(0.001)
        seen.append(comm.recorder.current)
        Path(folder, f"{len(seen)}").touch()

    for tag in (7, 8):
        if comm.rank == 0:
            thread = threading.Thread(target=look)
            request = comm.irecv(source=1, tag=8) if tag == 8 else None
            thread.start()
            request.wait() if request else comm.recv(tag=7)
            thread.join()
        else:
            while not Path(folder, f"{tag - 6}").exists():
                time.sleep(0.001)
            comm.send("now", 0, tag=tag)
        MPI.COMM_WORLD.Barrier()
    if comm.rank == 0:
        found = [(call[:3], call[4]) for call in seen]
        assert found == [(("recv", "ANY_SOURCE", 7), (0, 1)), (("wait(irecv)", 1, 8), (0, 1))]


def every_method():
    """No communicating method is left unwatched."""
    from helpers.tracing.communicator import FAMILIES, traced_class

    local = {"Abort", "Call_errhandler", "Get_parent", "Join", "Create_from_group"}
    missing = []
    for plain in FAMILIES:
        cls = traced_class(plain)
        for name in dir(plain):
            if name.startswith("_") or not callable(getattr(plain, name)):
                continue
            if getattr(cls, name) is not getattr(plain, name):
                if inspect.signature(getattr(cls, name)) != inspect.signature(getattr(plain, name)):
                    missing.append(f"signature of {name}")
            elif not name.startswith(
                ("Get_", "Set_", "Is_", "Ack_", "Attach_", "Detach_", "Create_keyval", "Delete_")
            ):
                missing.append(f"{plain.__name__}.{name}")
    unwatched = {name.split(".")[-1] for name in missing if not name.endswith("_init")}
    assert unwatched <= local | {
        "Cart_map", "Graph_map", "Compare", "Create_errhandler", "Create_from_groups",
        "Flush_buffer", "Free_keyval", "Idup", "Idup_with_info", "Iflush_buffer", "Ishrink",
        "Revoke", "Shift", "f2py", "free", "fromhandle", "fromint", "py2f", "toint", "tohandle",
        "is_inter", "is_intra", "is_topo",
    }  # fmt: skip


class Dumped:
    """Writes the stack of the thread that pickles it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        with open(self.path, "a") as file:
            faulthandler.dump_traceback(file, all_threads=False)
        return Dumped, (self.path,)


def both_stacks(folder):
    """A dumped stack names the MPI call."""
    from mpi4py import MPI

    from helpers.tracing import TracedComm

    path = Path(folder, f"stack{MPI.COMM_WORLD.rank}")
    comm = TracedComm(MPI.COMM_SELF)
    for recording in (False, True):
        if recording:
            comm.recorder.start()
        path.write_text("")
        comm.allgather(Dumped(path))
        comm.isend(Dumped(path), 0).Cancel()
        lines = [line for line in path.read_text().splitlines() if "<traced " in line]
        assert {line.split('"')[1] for line in lines} == {"<traced allgather>", "<traced isend>"}
        assert {line.split()[-1] for line in lines} == {"allgather", "isend"}


def full():
    """A full list only counts."""
    from mpi4py import MPI

    from helpers.tracing import activity
    from helpers.tracing.communicator import TracedComm

    comm, before = TracedComm(MPI.COMM_SELF), activity.LIMIT
    comm.recorder.start()
    activity.LIMIT = 3
    for _ in range(5):
        comm.barrier()
    activity.LIMIT = before
    assert (comm.recorder.dropped, len(comm.recorder.stop())) == (2, 3)


def windows():
    """What a window waits for is told."""
    from mpi4py import MPI

    from helpers.tracing import communicator as traced
    from helpers.tracing.activity import Recorder

    class Seen(Recorder):
        def __setattr__(self, name, value):
            if name == "current" and value is not None:
                calls.append(value[:2])
            super().__setattr__(name, value)

    calls = []
    recorder = Seen()
    traced.install(recorder)
    try:
        comm = MPI.COMM_WORLD
        pair = comm.Split(0, key=-comm.rank)  # the other way round
        other = comm.Get_group().Incl([1 - comm.rank])
        win = MPI.Win.Allocate(8, comm=pair)
        calls.clear()
        win.Fence()
        win.Lock(0)
        win.Flush(rank=0)
        win.Unlock(0)
        win.Lock_all()
        win.Unlock_all()
        win.Post(other)
        win.Start(other)
        win.Complete()
        win.Wait()
        win.Free()
        MPI.Win.Create(bytearray(8), comm=traced.PLAIN["COMM_SELF"]).Free()  # not watched
    finally:
        traced.uninstall()
    assert type(MPI.Win.Create(bytearray(8))) is MPI.Win  # plain again
    theirs = ("Win.Lock", 1), ("Win.Flush", 1), ("Win.Unlock", 1)  # rank 0 of the pair is 1
    everyone = ("Win.Lock_all", "all"), ("Win.Unlock_all", "all")
    others = (1 - comm.rank,)
    matched = [("Win.Post", "all"), ("Win.Start", others), ("Win.Complete", others)]
    rest = [*matched, ("Win.Wait", others), ("Win.Free", "all")]
    assert calls == [("Win.Fence", "all"), *theirs, *everyone, *rest]


@pytest.mark.parametrize("n", RANKS)
def test_calls_do_what_mpi4pys_do_and_are_recorded(n):
    on_ranks(n, (point_to_point,), (collectives,), (families,), (requests,))


def test_what_two_ranks_show(tmp_path):
    folder = str(tmp_path)
    on_ranks(2, (every_method,), (full,), (failing,), (windows,), (both_stacks, folder),
             (watched, folder))  # fmt: skip
