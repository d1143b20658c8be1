"""Traces of known message patterns: matched, counted, on one clock, exported and read back."""

import functools
import json
import pickle
import time

import numpy as np
import pytest

from helpers import tracing as traces
from helpers.tracing.activity import RECEIVE, SEND
from helpers.tracing.clock import Clock
from helpers.tracing.matching import assemble
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks

RANKS = [2, 4, pytest.param(5, marks=PART)]


@functools.cache
def on(n):
    """Return what each of n ranks made of all that is recorded on so many: they start once."""
    return run_ranks(n, everything)


def everything():
    from mpi4py import MPI

    patterns = [chain, star, ring, scatter_by_hand]
    others = {
        2: [
            errors,
            unmatched,
            late_sender,
            late_receiver,
            late_to_a_collective,
            many,
            own_clock,
            shifted_clock,
        ],
        4: [in_groups],
    }
    found = {each.__name__: pattern(each.__name__) for each in patterns}
    return found | {each.__name__: each() for each in others.get(MPI.COMM_WORLD.size, [])}


def pattern(name):
    from mpi4py import MPI

    with traces.record(MPI.COMM_WORLD) as comm:
        globals()[name](comm)
    return traces.gather(comm)


def chain(comm):
    if comm.rank > 0:
        comm.recv(source=comm.rank - 1, tag=1)
    if comm.rank < comm.size - 1:
        comm.send(comm.rank, comm.rank + 1, tag=1)


def star(comm):
    """Rank 0 receives from anyone, by requests."""
    if comm.rank == 0:
        from mpi4py import MPI

        boxes = [np.zeros(10) for _ in range(comm.size - 1)]
        MPI.Request.Waitall([comm.Irecv(box) for box in boxes])
    else:
        comm.Isend(np.ones(10), 0, tag=comm.rank).Wait()


def ring(comm):
    """A ring allreduce's messages: 2(N-1) rounds of 1/N of 1200 bytes."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    out, box = np.zeros(1200 // comm.size, "u1"), np.zeros(1200 // comm.size, "u1")
    for _ in range(2 * (comm.size - 1)):
        comm.Sendrecv(out, right, recvbuf=box, source=left)


def scatter_by_hand(comm):
    if comm.rank == 0:
        for peer in range(1, comm.size):
            comm.Send(np.zeros(8), peer)
    else:
        comm.Recv(np.zeros(8), 0)


@pytest.mark.mpi
@pytest.mark.parametrize("n", RANKS)
def test_chain_takes_one_round_for_each_link(n):
    trace = on(n)[0]["chain"]
    assert trace.ranks == tuple(range(n))
    assert [(m.source, m.dest, m.tag) for m in trace.messages] == [
        (r, r + 1, 1) for r in range(n - 1)
    ]
    assert trace.steps() == n - 1
    assert trace.unmatched_sends == trace.unmatched_receives == ()
    slack = 2 * max(trace.clock_uncertainty) + 1e-9
    for message in trace.messages:
        assert message.end > message.begin - slack
        assert message.bytes == trace.events[message.send].bytes > 0
    assert trace.bytes_sent()[0] == sum(m.bytes for m in trace.messages if m.dest == 1)


@pytest.mark.mpi
@pytest.mark.parametrize("n", RANKS)
def test_receives_from_anyone_find_their_senders(n):
    trace = on(n)[0]["star"]
    assert sorted((m.source, m.dest, m.tag, m.bytes) for m in trace.messages) == [
        (r, 0, r, 80) for r in range(1, n)
    ]
    assert trace.steps() == n - 1  # one port: they come one after another
    waits = [e for e in trace.of(0) if e.call == "Waitall"]
    assert len(waits[0].completes) == n - 1
    assert len({message.completed_in for message in trace.messages}) == 1


@pytest.mark.mpi
@pytest.mark.parametrize("n", RANKS)
def test_ring_sends_the_formulas_bytes_in_the_formulas_rounds(n):
    trace = on(n)[0]["ring"]
    assert trace.steps() == 2 * (n - 1)
    assert set(trace.bytes_sent().values()) == {2 * (n - 1) * 1200 // n}
    assert len(trace.messages) == 2 * n * (n - 1)


@pytest.mark.mpi
def test_one_rank_sends_once_in_a_round():
    assert on(4)[0]["scatter_by_hand"].steps() == 3


def unmatched():
    from mpi4py import MPI

    with traces.record(MPI.COMM_WORLD) as comm:
        if comm.rank == 0:
            sent = comm.isend("nobody asked", 1, tag=5)
        else:
            pending = comm.irecv(source=0, tag=6)
    trace = traces.gather(comm)
    if comm.rank == 0:
        comm.send("now", 1, tag=6)
        sent.wait()
    else:
        pending.wait()
        comm.recv(source=0, tag=5)
    return trace


@pytest.mark.mpi
def test_messages_without_another_side_are_listed():
    trace = on(2)[0]["unmatched"]
    assert [trace.events[i].tag for i in trace.unmatched_sends] == [5]
    assert [trace.events[i].tag for i in trace.unmatched_receives] == [6]
    assert trace.messages == ()
    assert "1 unmatched sends" in repr(trace)
    assert "1 unmatched receives" in repr(trace)


def late_sender(nbytes=10_000_000):
    """Rank 1 begins 0.3 s after rank 0; then rank 0 receives late."""
    from mpi4py import MPI

    with traces.record(MPI.COMM_WORLD) as comm:
        box = np.zeros(nbytes, "u1")
        MPI.COMM_WORLD.Barrier()
        if comm.rank == 0:
            comm.Recv(box, 1)
            comm.Barrier()
            time.sleep(0.3)
            comm.Recv(box, 1)
        else:
            time.sleep(0.3)
            comm.Send(box, 0)
            comm.Barrier()
            comm.Send(box, 0)
    return traces.gather(comm)


@pytest.mark.mpi
def test_waiting_is_told_from_transfer():
    trace = on(2)[0]["late_sender"]
    early, late = [e for e in trace.of(0) if e.call == "Recv"]
    prompt, stuck = [e for e in trace.of(1) if e.call == "Send"]
    assert early.waiting == pytest.approx(prompt.begin - early.begin)
    assert stuck.waiting == pytest.approx(late.begin - stuck.begin)
    assert 0.1 < early.waiting < early.duration
    assert 0.1 < stuck.waiting <= stuck.duration  # ten megabytes are not copied away
    assert prompt.waiting == late.waiting == 0
    assert trace.waiting()[0] == pytest.approx(sum(event.waiting for event in trace.of(0)))


def late_receiver():
    """Rank 1 receives, 0.3 s late, what rank 0 sends without blocking; then something small."""
    from mpi4py import MPI

    box = np.zeros(10_000_000, "u1")
    with traces.record(MPI.COMM_WORLD) as comm:
        MPI.COMM_WORLD.Barrier()
        if comm.rank == 0:
            comm.Isend(box, 1).Wait()
            comm.Send(box[:100], 1)
        else:
            time.sleep(0.3)
            comm.Recv(box, 0)
            comm.Recv(box, 0)
    return traces.gather(comm)


@pytest.mark.mpi
def test_the_wait_of_a_send_waits_and_not_the_call_that_began_it():
    trace = on(2)[0]["late_receiver"]
    begun, waited, small = trace.of(0)
    assert (begun.call, waited.call, small.call) == ("Isend", "Wait", "Send")
    assert begun.waiting == small.waiting == 0
    assert 0.1 < waited.waiting <= waited.duration


def test_a_small_send_waits_for_nobody():
    """However long it takes: 100 bytes are copied away, 10 kB or a synchronous send are not."""

    def waiting(call, size):
        send = (call, SEND, "world", 1, 0, size, 0, 100, None, None)
        receive = ("Recv", RECEIVE, "world", 0, 0, size, 50, 200, None, None)
        events, *_ = assemble({0: [send], 1: [receive]}, {0: Clock(), 1: Clock()})
        return events[0].waiting

    assert waiting("Send", 100) == 0
    assert waiting("Send", 10_000) == waiting("Ssend", 100) == pytest.approx(50e-9)


def late_to_a_collective():
    """Rank 1 comes 0.3 s late to an allreduce that does not block."""
    from mpi4py import MPI

    with traces.record(MPI.COMM_WORLD) as comm:
        mine, total = np.full(10, float(comm.rank + 1)), np.empty(10)
        comm.Barrier()
        if comm.rank == 1:
            time.sleep(0.3)
        request = comm.Iallreduce(mine, total)
        request.Wait()
    assert total.tolist() == [3.0] * 10
    return traces.gather(comm)


@pytest.mark.mpi
def test_the_wait_for_a_collective_waits_and_not_the_call_that_began_it():
    trace = on(2)[0]["late_to_a_collective"]
    begun, waited = trace.of(0)[-2:]
    assert (begun.call, waited.call) == ("Iallreduce", "Wait")
    assert begun.waiting == 0
    assert begun.done == waited.end
    assert 0.1 < waited.waiting <= waited.duration
    assert trace.of(1)[-1].waiting == 0


def in_groups():
    from mpi4py import MPI

    with traces.record(MPI.COMM_WORLD) as comm:
        half = comm.Split(comm.rank % 2)
        if half.rank == 0 and half.size > 1:
            half.send("first", 1)
        elif half.rank == 1:
            half.recv(source=0)
        if comm.rank == 0:
            comm.send("world", 2)
        elif comm.rank == 2:
            comm.recv(source=0)
    return traces.gather(comm)


@pytest.mark.mpi
def test_messages_of_different_communicators_do_not_mix():
    trace = on(4)[0]["in_groups"]
    found = {(m.source, m.dest, trace.communicators[m.comm]) for m in trace.messages}
    assert found == {(0, 2, (0, 2)), (1, 3, (1, 3)), (0, 2, (0, 1, 2, 3))}


def many(calls=50):
    from mpi4py import MPI

    with traces.record(MPI.COMM_WORLD) as comm:
        for k in range(calls):
            comm.bcast(k)
        with traces.record(comm) as again:
            again.barrier()
        inner = traces.gather(again)
        comm.barrier()
    return traces.gather(comm), inner


@pytest.mark.mpi
def test_a_recording_within_a_recording_belongs_to_both():
    outer, inner = on(2)[0]["many"]
    assert [e.call for e in inner.of(0)] == ["barrier"]
    assert [e.call for e in outer.of(0)] == ["bcast"] * 50 + ["barrier"] * 2


def errors():
    from mpi4py import MPI

    from helpers.tracing.communicator import TracedComm

    with traces.record(MPI.COMM_SELF) as comm:
        pass
    empty = traces.gather(comm)
    for other in (MPI.COMM_WORLD, TracedComm(MPI.COMM_WORLD)):
        with pytest.raises(ValueError, match="nothing was recorded"):
            traces.gather(other)
    with pytest.raises(ValueError, match="9"):
        empty.of(9)
    with pytest.raises(TypeError, match=r"expects an MPI\.Intracomm; got 7"):
        TracedComm(7)
    return len(empty.events), empty.duration, empty.steps()


@pytest.mark.mpi
def test_an_empty_trace_and_none_at_all():
    assert on(2)[0]["errors"] == (0, 0.0, 0)


SHIFT = 5_000_000_000


def shifted_clock():
    from mpi4py import MPI

    from helpers.tracing import clock

    if MPI.COMM_WORLD.rank == 1:
        real = time.perf_counter_ns
        time.perf_counter_ns = lambda: real() + SHIFT
    try:
        return clock.measure_offset(MPI.COMM_WORLD)
    finally:
        if MPI.COMM_WORLD.rank == 1:
            time.perf_counter_ns = real


def own_clock():
    from mpi4py import MPI

    from helpers.tracing import clock

    return clock.measure_offset(MPI.COMM_WORLD)


@pytest.mark.mpi
def test_a_shifted_clock_is_found_out_and_one_clock_is_one():
    assert (on(2)[1]["own_clock"].offset, on(2)[1]["own_clock"].uncertainty) == (0, 0)
    clock = on(2)[1]["shifted_clock"]
    assert abs(clock.offset - SHIFT) <= clock.uncertainty
    assert abs(clock.to_root(10 * SHIFT) - 9 * SHIFT) <= clock.uncertainty


def test_a_drift_between_two_measurements_is_spread_evenly():
    clock = Clock(((1_000_000, 500, 10),)) + Clock(((2_000_000, 1500, 10),))
    assert clock.to_root(1_500_000) == 1_500_000 - 1000
    assert clock.to_root(0) == -500  # not extrapolated
    assert clock.uncertainty == 10
    # a difference within the uncertainty is no drift: the better reading counts
    blurred = Clock(((0, 500, 600),)) + Clock(((1_000_000, 900, 10),))
    assert blurred.to_root(500_000) == 500_000 - 900


def test_records_without_clocks_are_taken_to_share_one():
    send = ("send", "send", "c", 1, 0, 100, 1000, 2000, None, None)
    receive = ["irecv", "receive", "c", 0, 0, 100, 1500, 1600, 3000, None]
    wait = ("wait", "wait", "c", 0, 0, 100, 1700, 3000, None, (receive,))
    trace = traces.build({0: [send], 1: pickle.loads(pickle.dumps([receive, wait]))})
    (message,) = trace.messages
    assert (message.begin, message.end) == (0.0, pytest.approx(2e-6))
    assert trace.events[message.completed_in].call == "wait"
    assert trace.events[2].completes == (1,)
    assert traces.build({0: None, 1: []}).events == ()


@pytest.mark.mpi
def test_trace_survives_pickle_and_exports_to_chrome(tmp_path):
    trace = on(2)[0]["ring"]
    assert pickle.loads(pickle.dumps(trace)) == trace
    chrome = json.loads(traces.save_chrome(trace, tmp_path / "trace.json").read_text())[
        "traceEvents"
    ]
    boxes = [item for item in chrome if item["ph"] == "X"]
    assert len(boxes) == len(trace.events)
    starts = {item["id"]: item for item in chrome if item["ph"] == "s"}
    ends = {item["id"]: item for item in chrome if item["ph"] == "f"}
    assert len(starts) == len(trace.messages)
    assert starts.keys() == ends.keys()
    for item in (*starts.values(), *ends.values()):  # each end of an arrow lies in a box
        assert any(
            box["tid"] == item["tid"] and box["ts"] <= item["ts"] <= box["ts"] + box["dur"]
            for box in boxes
        )
    threads = {item["args"]["name"] for item in chrome if item["name"] == "thread_name"}
    assert threads == {"rank 0", "rank 1"}
