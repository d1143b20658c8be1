"""A traced communicator behaves as mpi4py's own, tells what it is doing, and records it."""

import faulthandler
import functools
import inspect
import pickle
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks

RANKS = [2, 3, pytest.param(5, marks=PART)]
pytestmark = pytest.mark.mpi


def traced():
    from mpi4py import MPI

    from helpers.tracing.communicator import TracedComm

    comm = TracedComm(MPI.COMM_WORLD)
    comm.recorder.start()
    return comm


def rows(comm):
    """(call, peer, tag, bytes) of what was recorded."""
    return [(r[0], r[3], r[4], r[5]) for r in comm.recorder.stop()]


def everything(folder):
    """Return what this rank makes of all that is tried on so many: they start once."""
    from mpi4py import MPI

    made = {each: each() for each in (point_to_point, collectives, families, requests)}
    if MPI.COMM_WORLD.size == 2:
        made |= {each: each() for each in (every_method, full, failing, windows)}
        made |= {each: each(folder) for each in (both_stacks, watched)}
    return made


@functools.cache
def started(n):
    with tempfile.TemporaryDirectory() as folder:
        return run_ranks(n, everything, folder)


def found(n, function):
    """What each rank returned of it."""
    return [mine[function] for mine in started(n)]


def point_to_point():
    comm = traced()
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    answer = {}
    for send, tag in (("Issend", 2), ("Rsend", 3)):
        inbox, out = np.zeros(3), np.full(3, float(rank))
        request = comm.Irecv(inbox, source=left, tag=tag)
        comm.Barrier()  # a ready send needs its receive posted
        sender = getattr(comm, send)(out, dest=right, tag=tag)
        request.Wait()
        if sender is not None:
            sender.Wait()
        answer[send] = inbox.tolist() == [float(left)] * 3
    request = comm.isend({"rank": rank}, dest=right, tag=4)
    answer["recv"] = comm.recv(source=left, tag=4) == {"rank": left}
    request.wait()
    answer["sendrecv"] = comm.sendrecv("x" * rank, right, sendtag=5, source=left) == "x" * left
    box = np.array([float(rank)])
    comm.Sendrecv_replace(box, right, source=left)
    answer["Sendrecv_replace"] = box[0] == left
    box = np.empty(2, "i4")
    comm.Sendrecv(np.array([rank, 7], "i4"), dest=right, recvbuf=box, source=left)
    answer["Sendrecv"] = box.tolist() == [left, 7]
    request = comm.Isendrecv(np.array([rank, 8], "i4"), right, 0, box, left)
    request.Wait()
    answer["Isendrecv"] = box.tolist() == [left, 8]
    from mpi4py import MPI

    comm.Send(np.zeros(4), MPI.PROC_NULL)
    answer["PROC_NULL"] = comm.recv(source=MPI.PROC_NULL) is None
    answer["clean"] = comm.recorder.current is None
    return answer, rows(comm)


@pytest.mark.parametrize("n", RANKS)
def test_point_to_point_arrives_and_is_recorded(n):
    for rank, (answer, recorded) in enumerate(found(n, point_to_point)):
        right, left = (rank + 1) % n, (rank - 1) % n
        assert all(answer.values()), answer
        for expected in (
            ("Irecv", left, 2, 24),
            ("Issend", right, 2, 24),
            ("Rsend", right, 3, 24),
            ("isend", right, 4, len(pickle.dumps({"rank": rank}, protocol=5))),
            ("recv", left, 4, len(pickle.dumps({"rank": left}, protocol=5))),
            ("sendrecv", right, 5, len(pickle.dumps("x" * rank, protocol=5))),
            ("Sendrecv_replace", right, 0, 8),
            ("Sendrecv", right, 0, 8),
            ("Isendrecv", right, 0, 8),
            ("Send", "PROC_NULL", 0, 32),
            ("recv", "PROC_NULL", -1, 0),
            ("Barrier", "all", None, 0),
        ):
            assert expected in recorded, f"{expected} not in {recorded}"


def collectives():
    from mpi4py import MPI

    plain, comm = MPI.COMM_WORLD, traced()
    n, rank = comm.size, comm.rank
    mine = np.arange(n, dtype="f8") + rank
    differing = []

    def compare(name, call):
        got, expected = call(comm), call(plain)
        if not np.array_equal(np.asarray(got), np.asarray(expected)):
            differing.append((name, got, expected))

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
    return differing, rows(comm), comm.recorder.current


def _alltoallv(c, mine, counts):
    box = np.zeros(len(counts))
    c.Alltoallv([mine, (counts, range(len(counts)))], [box, (counts, range(len(counts)))])
    return box


@pytest.mark.parametrize("n", RANKS)
def test_collectives_equal_those_of_mpi4py(n):
    for differing, recorded, current in found(n, collectives):
        assert differing == []
        assert current is None
        for expected in (
            ("Allreduce", "all", None, 8 * n),
            ("Iallreduce", "all", None, 8 * n),
            ("Bcast", n - 1, None, 8 * n),
            ("Gather", n - 1, None, 8),
            ("Alltoallv", "all", None, 8 * n),
            ("allreduce", "all", None, 5),
            ("Ibarrier", "all", None, 0),
        ):
            assert expected in recorded


def families():
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
    return rows(comm)


@pytest.mark.parametrize("n", RANKS)
def test_communicators_made_from_it_are_traced_and_name_world_ranks(n):
    results = found(n, families)
    lowest_even, highest_even = 0, (n - 1) // 2 * 2
    if highest_even > lowest_even:
        sent = [(c, p, t) for c, p, t, _ in results[highest_even]]
        assert ("send", lowest_even, 3) in sent
        got = [(c, p, t) for c, p, t, _ in results[lowest_even]]
        assert ("recv", highest_even, 3) in got


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
        answers = []
        for wait in ("Waitall", "waitall"):
            inbox = np.zeros(1)
            pair = [MPI.COMM_WORLD.Irecv(inbox), MPI.COMM_WORLD.Isend(np.ones(1) * rank, right)]
            getattr(MPI.Request, wait)(pair)
            answers.append(inbox[0] == left)
            assert not any(pair)
        for wait in ("waitany", "waitsome", "testany", "testsome", "testall", "test", "wait"):
            pair = [comm.irecv(source=left, tag=9), comm.isend(rank, right, tag=9)]
            answers.append(drain(MPI, wait, pair) == left)
            MPI.COMM_WORLD.Barrier()
        assert isinstance(MPI.REQUEST_NULL, MPI.Request)
        assert not isinstance(MPI.REQUEST_NULL, MPI.Message)
        MPI.Request.Waitall([MPI.REQUEST_NULL, MPI.Request()])
        # matched probes
        request = comm.isend([rank], right, tag=11)
        message = comm.mprobe(source=left, tag=11)
        answers.append(message.recv() == [left])
        request.wait()
        request = comm.Isend(np.full(1, float(rank)), right, tag=12)
        while (message := comm.Improbe(tag=12)) is None:
            pass
        message.Irecv(inbox).Wait()
        answers.append(inbox[0] == left)
        request.Wait()
        return answers, rows(comm), comm.recorder.current
    finally:
        uninstall()
        assert MPI.COMM_WORLD is world


@pytest.mark.parametrize("n", RANKS)
def test_requests_are_completed_and_recorded(n):
    for rank, (answers, recorded, current) in enumerate(found(n, requests)):
        left, right = (rank - 1) % n, (rank + 1) % n
        assert all(answers), answers
        assert current is None
        assert recorded[:3] == [  # the source of a receive from anywhere is filled in
            ("Irecv", left, 0, 8),
            ("Isend", right, 0, 8),
            ("Waitall", (("ANY_SOURCE", right)), "ANY_TAG", 16),
        ]
        assert ("Irecv", left, 12, 8) in recorded
        assert ("recv", left, 11, len(pickle.dumps([left], protocol=5))) in recorded


def failing():
    from mpi4py import MPI

    comm = traced()
    raised = []
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
        for recording in (True, False):
            if recording:
                comm.recorder.start()
            try:
                call()
                raised.append(None)
            except Exception as error:
                raised.append(type(error).__name__)
            assert comm.recorder.current is None
            assert not comm.recorder.stop()
    assert MPI.COMM_WORLD.allreduce(1) == comm.size
    return raised


def test_errors_pass_through_and_leave_no_current_call():
    for raised in found(2, failing):
        assert None not in raised
        pairs = list(zip(raised[::2], raised[1::2], strict=True))
        assert all(a == b for a, b in pairs), pairs
        assert [a for a, _ in pairs][:2] == ["Exception", "Exception"]


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
    return [(c[:3], c[4]) for c in seen]


def test_what_a_rank_waits_for_can_be_read_from_another_thread():
    seen = found(2, watched)[0]
    assert seen[0] == (("recv", "ANY_SOURCE", 7), (0, 1))
    assert seen[1] == (("wait(irecv)", 1, 8), (0, 1))


def every_method():
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
    return sorted({m for m in missing if m.split(".")[-1] not in local})


def test_no_communicating_method_is_left_unwatched():
    missing = found(2, every_method)[0]
    unwatched = {name.split(".")[-1] for name in missing if not name.endswith("_init")}
    assert unwatched <= {
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
    from mpi4py import MPI

    from helpers.tracing import TracedComm

    path, made = Path(folder, f"stack{MPI.COMM_WORLD.rank}"), []
    comm = TracedComm(MPI.COMM_SELF)
    for recording in (False, True):
        if recording:
            comm.recorder.start()
        path.write_text("")
        comm.allgather(Dumped(path))
        comm.isend(Dumped(path), 0).Cancel()
        made.append([line for line in path.read_text().splitlines() if "<traced " in line])
    return made


def test_a_dumped_stack_names_the_mpi_call():
    for lines in found(2, both_stacks)[0]:
        assert {line.split('"')[1] for line in lines} == {"<traced allgather>", "<traced isend>"}
        assert {line.split()[-1] for line in lines} == {"allgather", "isend"}


def full():
    from mpi4py import MPI

    from helpers.tracing import activity
    from helpers.tracing.communicator import TracedComm

    comm, before = TracedComm(MPI.COMM_SELF), activity.LIMIT
    comm.recorder.start()
    activity.LIMIT = 3
    for _ in range(5):
        comm.barrier()
    activity.LIMIT = before
    return comm.recorder.dropped, len(comm.recorder.stop())


def test_a_full_list_only_counts():
    assert found(2, full)[0] == (2, 3)


def windows():
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
    return comm.rank, calls, type(MPI.Win.Create(bytearray(8))) is MPI.Win


def test_what_a_window_waits_for_is_told():
    for rank, calls, plain_again in found(2, windows):
        theirs = ("Win.Lock", 1), ("Win.Flush", 1), ("Win.Unlock", 1)  # rank 0 of the pair is 1
        everyone = ("Win.Lock_all", "all"), ("Win.Unlock_all", "all")
        others = (1 - rank,)
        matched = [("Win.Post", "all"), ("Win.Start", others), ("Win.Complete", others)]
        rest = [*matched, ("Win.Wait", others), ("Win.Free", "all")]
        assert calls == [("Win.Fence", "all"), *theirs, *everyone, *rest]
        assert plain_again
