"""Cluster: results, errors, time limits, deaths, interrupts, restarts and bad input, on real ranks.

Functions for the ranks are made by exec in a module called ``__main__``, as a notebook makes them.
"""

import gc
import os
import signal
import sys
import threading
import time
import weakref

import ipyparallel
import numpy
import psutil
import pytest

from helpers.cluster import (
    Cluster,
    ClusterError,
    Mpiexec,
    RankDiedError,
    RankError,
    RanksInterrupted,
    RankTimeoutError,
    StartError,
)
from helpers.cluster.kernel import calls
from helpers.cluster.start import forked
from tests.cluster.ways import PART, WAYS

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module", params=WAYS)
def cluster(request):
    with Cluster(3, start=request.param) as cluster:
        yield cluster


def notebook_function(source: str):
    """Return the function ``f`` that ``source`` defines, as if a notebook's cell had done so."""
    namespace = {"__name__": "__main__"}
    exec(compile(source, "/tmp/ipykernel_0/1.py", "exec"), namespace)
    return namespace["f"]


def on_ranks(cluster, body: str, *args, **options) -> list:
    """Run ``body`` (lines with a return) as a function on the ranks."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return cluster.run(notebook_function(f"def f(*args):\n{lines}"), *args, **options)


def test_results_come_in_rank_order_and_large_arrays_come_back(cluster):
    array = numpy.arange(300_000.0)
    results = on_ranks(cluster, "return rank, size, comm.allreduce(rank), args[0] * rank", array)
    for rank, (mine, size, total, product) in enumerate(results):
        assert (mine, size, total) == (rank, 3, 3)
        numpy.testing.assert_array_equal(product, array * rank)
    assert cluster.run(max, 1, 2, key=lambda x: -x) == [1] * 3  # an imported function


def test_a_rank_that_raises_keeps_everyones_variables_and_output(cluster, capsys):
    before = cluster.pids
    with pytest.raises(RankError, match="by zero") as caught:
        on_ranks(cluster, "print('before', rank)\nreturn 1 // (rank - 1)")
    assert capsys.readouterr().out == "[0] before 0\n[1] before 1\n[2] before 2\n"
    assert list(caught.value.tracebacks) == [1]
    assert "are kept" in str(caught.value)
    assert cluster.pids == before
    assert on_ranks(cluster, "return rank") == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "name"),
    [("comm.sendrcv", "MPI.Intracomm"), ("comm.irecv(source=rank).wiat", "MPI.Request")],
)
def test_an_error_names_mpis_classes_and_not_those_that_watch_them(cluster, call, name):
    with pytest.raises(RankError) as caught:
        on_ranks(cluster, f"{call}()")
    assert f"'{name}' object has no attribute" in str(caught.value)
    assert "Traced" not in str(caught.value)


@pytest.mark.parametrize(
    ("stuck", "call", "who"),
    [
        ("comm.Barrier()", "Barrier", "Ranks 0 and 2"),
        ("if rank == 2: pair.recv()", "recv", "Rank 2"),
    ],
)
def test_siblings_stuck_in_mpi_are_restarted_and_the_message_says_why(cluster, stuck, call, who):
    body = f"pair = comm.Split(rank > 0)\nif rank == 1:\n    1 / 0\n{stuck}"
    with pytest.raises(RankError) as caught:
        on_ranks(cluster, body, timeout=60)
    text = str(caught.value)
    assert f"{who} waited inside MPI for a rank that had failed" in text
    assert call in text
    assert "variables are gone" in text
    assert on_ranks(cluster, "return rank") == [0, 1, 2]


def test_definitions_that_hang_on_new_ranks_are_left_out(cluster, monkeypatch):
    monkeypatch.setattr(calls, "DEFAULT_TIMEOUT", 1.0)
    cluster.remember("class Never:\n    one = comm.recv()")
    cluster.restart()
    assert on_ranks(cluster, "return rank") == [0, 1, 2]
    assert not cluster._defining


def test_siblings_that_compute_are_waited_for(cluster):
    before = cluster.pids
    with pytest.raises(RankError, match="are kept"):
        on_ranks(cluster, "import time\nif rank == 1:\n    1 / 0\ntime.sleep(1.5)")
    assert cluster.pids == before


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ("from mpi4py import MPI as M\nif rank == 0: M.COMM_WORLD.Barrier()", "Barrier"),
        pytest.param("if rank == 0: comm.irecv(source=1).wait()", "wait(irecv)", marks=PART),
        pytest.param(
            "w = MPI.Win.Allocate(8, comm=comm)\nif rank == 0: w.Fence()", "Win.Fence", marks=PART
        ),
    ],
)
def test_waits_are_seen_however_mpi_is_reached(cluster, body, call):
    with pytest.raises(RankTimeoutError) as caught:
        on_ranks(cluster, body, timeout=2)
    (wait,) = caught.value.waits
    assert (wait.rank, wait.call) == (0, call)
    assert "rank 0" in str(caught.value)


def test_an_endless_loop_in_python_is_interrupted_and_variables_are_kept(cluster):
    on_ranks(cluster, "return rank")
    before = cluster.pids
    with pytest.raises(RankTimeoutError, match="interrupted in their own code"):
        on_ranks(cluster, "while True: pass", timeout=1)
    assert cluster.pids == before
    assert on_ranks(cluster, "return rank") == [0, 1, 2]


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("comm.Barrier() if rank else __import__('time').sleep(60)", False),
        ("__import__('time').sleep(60)", True),
    ],
)
def test_an_interrupt_comes_back_and_the_next_call_works(cluster, body, kept):
    before = on_ranks(cluster, "import os; return os.getpid()")
    threading.Timer(0.6, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(RanksInterrupted, match="are kept" if kept else "Interrupted"):
        on_ranks(cluster, body, timeout=60)
    assert on_ranks(cluster, "return comm.allreduce(1)") == [3, 3, 3]
    assert (cluster.pids == before) == kept


def test_a_value_that_does_not_pickle_is_an_error_of_that_rank(cluster):
    with pytest.raises(RankError, match="pickle"):
        on_ranks(cluster, "import threading; return threading.Lock()")
    assert on_ranks(cluster, "return rank") == [0, 1, 2]


def test_a_call_while_another_runs_is_refused(cluster):
    thread = threading.Thread(target=on_ranks, args=(cluster, "import time; time.sleep(1.5)"))
    thread.start()
    while not cluster._lock.locked():
        time.sleep(0.01)
    with pytest.raises(ClusterError, match="busy"):
        on_ranks(cluster, "return rank")
    thread.join()


def test_memory_of_the_client_does_not_grow_with_calls(cluster):
    for _ in range(20):
        on_ranks(cluster, "return bytes(1000)")
    client = cluster.client  # may hold what belongs to the last call or two, not one for each
    assert len(client.results) < 20
    assert len(client.metadata) < 20


def test_bad_calls(cluster):
    for timeout in (0, -1, float("nan"), float("inf"), "soon", None):
        with pytest.raises(ValueError, match="timeout="):
            cluster.run(max, 1, 2, timeout=timeout)
    with pytest.raises(TypeError, match="expects a function"):
        cluster.run(3)


@pytest.mark.parametrize(
    ("name", "values"),
    [("n", [0, -1, 65, 10**9, 1.5, "4", None, True]), ("threads", [0, -1, 1.5, None])],
)
def test_bad_numbers(name, values):
    for value in values:
        with pytest.raises(ValueError, match=f"{name}={value!r}"):
            Cluster(**{"n": 1, name: value})


@pytest.mark.parametrize("start", WAYS)
def test_one_rank_and_stop_twice(start, caplog):
    before = set(psutil.Process().children(recursive=True))
    cluster = Cluster(1, start=start)
    folder = cluster._processes.folder
    assert cluster.run(os.getpid) == cluster.pids
    below = set(psutil.Process().children(recursive=True)) - before
    assert len(below) >= 2
    assert caplog.text == ""  # such as that messages are not signed: CurveZMQ authenticates them
    cluster.stop()
    cluster.stop()
    _, alive = psutil.wait_procs(below, timeout=10)
    assert alive == []
    assert not folder.exists()
    with pytest.raises(ClusterError, match="was stopped"):
        cluster.run(os.getpid)


def test_no_mpiexec(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartError, match="no mpiexec beside"):
        Cluster(2, start=Mpiexec())


@PART
@pytest.mark.parametrize(
    ("script", "seconds", "why"),
    [
        # each process finds itself alone in its world, as with an mpiexec of the wrong MPI
        (
            'shift 2; for i in 1 2; do env -u PMI_RANK "$@" & done; wait',
            60,
            r"communicators of size \[1\].*another MPI",
        ),
        ("echo no hosts available; exit 3", 60, "no hosts available"),
        ("sleep 300", 3, r"0 of 2 ranks registered within 3 s"),
    ],
)
def test_an_mpiexec_that_starts_no_world(monkeypatch, tmp_path, script, seconds, why):
    path = tmp_path / "mpiexec"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr("helpers.cluster.start.guarded.find_mpiexec", lambda: str(path))
    with pytest.raises(StartError, match=why):
        Cluster(2, start=Mpiexec(), start_timeout=seconds)
    for process in psutil.process_iter(["cmdline"]):
        assert str(tmp_path) not in " ".join(process.info["cmdline"] or [])


@PART
def test_a_rank_of_which_the_controller_hears_no_more_counts_as_dead(monkeypatch):
    monkeypatch.setattr("helpers.cluster.start.guarded.HEARTBEAT_MISSES", 10)  # one second
    with Cluster(2, start=Mpiexec()) as cluster:
        body = "import os, signal, time\nif rank: os.kill(os.getpid(), signal.SIGSTOP)\nreturn rank"
        with pytest.raises(RankDiedError, match="Rank 1 died, or is stopped") as caught:
            on_ranks(cluster, body, timeout=25)
        assert caught.value.rank == 1
        assert on_ranks(cluster, "return comm.allreduce(rank)") == [1, 1]
        os.kill(cluster.pids[0], signal.SIGSTOP)
        time.sleep(3)
        with pytest.raises(RankDiedError, match="Rank 0 died, or is stopped"):
            cluster.run(int)
        assert on_ranks(cluster, "return comm.allreduce(rank)") == [1, 1]


def test_a_rank_that_is_asked_to_end_does_so_at_once_and_waits_for_no_other(cluster):
    asked = psutil.Process(cluster.pids[0])
    asked.terminate()
    asked.wait(30)  # not for ever, for the others' MPI_Finalize
    with pytest.raises(RankDiedError, match=r"Rank 0 died, killed by signal 15"):
        cluster.run(int)
    cluster.run(int)
    body = "import time\nif rank == 1: comm.recv(source=0)\ntime.sleep(60)"
    terminate = threading.Timer(0.6, psutil.Process(cluster.pids[1]).terminate)
    terminate.start()  # while C code waits, in which no handler of Python's would be heard
    with pytest.raises(RankDiedError, match=r"Rank 1 died, killed by signal 15") as caught:
        on_ranks(cluster, body, timeout=30)
    assert caught.value.rank == 1
    assert on_ranks(cluster, "return comm.allreduce(rank)") == [3] * 3


@pytest.mark.parametrize("start", WAYS)
def test_a_client_that_is_told_of_no_rank_asks(monkeypatch, start):
    """What the controller publishes while a client connects is lost."""
    monkeypatch.setattr(ipyparallel.Client, "_register_engine", lambda self, message: None)
    with Cluster(2, start=start, start_timeout=20) as cluster:
        assert cluster.run(max, 1, 2) == [2, 2]
        if start is None:
            cluster.restart()
            assert cluster.run(max, 1, 2) == [2, 2]


def test_nothing_keeps_the_client_of_a_controller_that_was_renewed(monkeypatch):
    """A cache of ipyparallel's did: 5 MB of the kernel's memory for each fifty restarts."""
    monkeypatch.setattr(forked, "RENEW_AFTER", 1)
    with Cluster(2) as cluster:
        clients = [weakref.ref(cluster.client)]
        for _ in range(3):
            cluster.restart()
            assert cluster.run(max, 1, 2) == [2, 2]
            clients.append(weakref.ref(cluster.client))
        gc.collect()
        assert [client() is not None for client in clients] == [False, False, False, True]
