"""helpers.collectives.schedule: what the model says, and that traces of real runs say the same."""

import math
from collections import Counter

import numpy as np
import pytest

from helpers import tracing
from helpers.collectives import ALGORITHMS, cost, schedule
from helpers.collectives.parts import FIRST_TAG
from helpers.collectives.recording import cuttable, record, schedules, sent
from helpers.collectives.schedule import COLLECTIVES, Transfer, dry_run, from_trace, model
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks

ALLREDUCES = [name for name, each in ALGORITHMS.items() if not each.knows_hosts]
SCALES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 33)


@pytest.mark.parametrize("ranks", SCALES)
@pytest.mark.parametrize("pieces", [1, 3])
def test_every_collective_ends_with_what_its_name_says(ranks, pieces):
    everybody = frozenset(range(ranks))
    for name in COLLECTIVES:
        final = model(name, ranks, pieces).states()[-1]
        chunks = len(final[0])
        owner = [chunk * ranks // chunks for chunk in range(chunks)]
        for rank in range(ranks):
            for chunk in range(chunks):
                expected = {
                    "broadcast": {0},
                    "broadcast_chain": {0},
                    "scatter": {0} if rank in (0, owner[chunk]) else set(),
                    "gather": {owner[chunk]} if rank in (0, owner[chunk]) else set(),
                    "allgather": {owner[chunk]},
                    "reduce": everybody if rank == 0 else None,
                    "reduce_chain": everybody if rank == 0 else None,
                    "reduce_scatter": everybody if rank == owner[chunk] else None,
                }.get(name, everybody)
                assert expected is None or final[rank][chunk] == expected, (name, rank, chunk)


@pytest.mark.parametrize("ranks", SCALES)
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("algorithm", ALLREDUCES)
def test_steps_and_bytes_equal_the_formulas(algorithm, ranks, pieces):
    K = 3 * math.lcm(*range(1, 17)) * 33  # divides by every number of ranks and pieces
    plan = model(algorithm, ranks, pieces)
    assert plan.steps == cost.steps(algorithm, ranks, pieces)
    assert max(plan.sent(K)) == pytest.approx(cost.sent(algorithm, ranks) * K, rel=1e-12)


@pytest.mark.parametrize("ranks", SCALES[1:])
@pytest.mark.parametrize("algorithm", ALLREDUCES)
def test_the_path_sends_and_adds_what_a_step_takes(algorithm, ranks):
    plan, path = model(algorithm, ranks), ALGORITHMS[algorithm].path(ranks, 1)
    sent = added = 0  # chunks
    for step, held in enumerate(plan.states()[:-1], start=1):
        here = plan.at(step)
        # what contains all that its receiver has takes its place; the rest is added
        adds = [t for t in here if not held[t.source][t.chunk] > held[t.dest][t.chunk]]
        sent += max(Counter(t.source for t in here).values())
        added += max(Counter(t.dest for t in adds).values(), default=0)
    assert sent / plan.chunks == pytest.approx(path.sent)
    assert added / plan.chunks == pytest.approx(path.added)


def test_a_rank_sends_and_receives_one_message_a_step():
    for name in COLLECTIVES:
        plan = model(name, 7, 4)
        messages = {(t.step, t.source, t.dest) for t in plan.transfers}
        senders = [(step, source) for step, source, _ in messages]
        receivers = [(step, dest) for step, _, dest in messages]
        assert len(set(senders)) == len(senders)
        assert len(set(receivers)) == len(receivers)


def test_ring_of_four_as_drawn_in_every_lecture():
    first = model("ring", 4).at(1)
    assert first == [Transfer(1, r, (r + 1) % 4, (r - 1) % 4) for r in range(4)]


def test_double_counting_is_refused():
    held = ((frozenset({0, 1}),), (frozenset({1, 2}),))
    wrong = schedule.Schedule("wrong", 2, 1, 1, (Transfer(1, 0, 1, 0),), held, "model")
    with pytest.raises(ValueError, match=r"step 1: rank 0 sends \[0, 1\].*rank 1.*\[1, 2\]"):
        wrong.states()


def test_deadlock_is_refused():
    one = np.ones(1)

    def both_receive_first(comm):
        other = 1 - comm.Get_rank()
        comm.Recv(one, other, FIRST_TAG)
        comm.Send(one, other, FIRST_TAG)

    def only_one_receives(comm):
        if comm.Get_rank() == 0:
            comm.Recv(one, 1, FIRST_TAG)

    def only_one_sends(comm):
        if comm.Get_rank() == 1:
            comm.Send(one, 0, FIRST_TAG)

    for function, ranks in (
        (both_receive_first, r"\[0, 1\]"),
        (only_one_receives, r"\[0\]"),
        (only_one_sends, r"\[1\]"),
    ):
        with pytest.raises(ValueError, match=f"ranks {ranks} never end"):
            from_trace("tree", dry_run(function, 2))


@pytest.mark.parametrize(("ranks", "pieces"), [(0, 1), (-2, 1), (3, 0)])
def test_bad_numbers(ranks, pieces):
    with pytest.raises(ValueError, match=f"ranks={ranks}, pieces={pieces}"):
        model("ring", ranks, pieces)


@pytest.mark.mpi
def test_a_traced_run_has_the_schedule_of_the_model():
    sizes, cuts = (1, 2, 3, 4, 5), (1, 3)
    assert {"scatter", "gather"} <= {name for name in COLLECTIVES if not cuttable(name)}
    traced = schedules(run_ranks(5, record, list(COLLECTIVES), sizes, cuts))
    assert [(plan.ranks, plan.name, plan.pieces) for plan in traced] == [
        (n, name, pieces)
        for n in sizes
        for name in COLLECTIVES
        for pieces in (cuts if cuttable(name) else (1,))
    ]
    for plan in traced:
        expected = model(plan.name, plan.ranks, plan.pieces)
        assert (plan.origin, expected.origin) == ("trace", "model")
        assert plan.transfers == expected.transfers, plan.name
        assert plan.states() == expected.states()
        assert (plan.pieces, plan.chunks) == (expected.pieces, expected.chunks)


def recording_too_much():
    with pytest.raises(ValueError, match=r"\(2, 9\) on a cluster that has 2"):
        record(["ring"], (2, 9))
    with pytest.raises(ValueError, match="'star'"):
        record(["star"], (2,))


@pytest.mark.mpi
def test_recording_what_cannot_be():
    run_ranks(2, recording_too_much)


def whole_trace():
    from mpi4py import MPI

    with tracing.record(MPI.COMM_WORLD) as comm:
        comm.bcast("not ours")
        ALGORITHMS["ring"].perform(comm, 1)
        comm.barrier()
    return tracing.gather(comm)


@pytest.mark.mpi
def test_a_trace_with_other_calls_in_it():
    trace = run_ranks(4, whole_trace)[0]
    plan = schedule.from_trace("ring", trace)
    assert plan.transfers == model("ring", 4).transfers
    assert list(trace.bytes_sent().values()) == [8 * part for part in plan.sent(4)]


@pytest.mark.mpi
@pytest.mark.parametrize("N", [3, *(pytest.param(n, marks=PART) for n in (1, 2, 4, 5))])
def test_bytes_counted_from_traces_equal_the_formulas(N):
    K = 240_000  # bytes: divides by 4 · N
    counted = run_ranks(N, sent, ALLREDUCES, K)
    for algorithm in ALLREDUCES:
        messages, sizes = zip(*(rank[algorithm] for rank in counted), strict=True)
        assert max(sizes) == round(cost.sent(algorithm, N) * K)
        assert list(sizes) == model(algorithm, N).sent(K)
        if algorithm == "ring":
            assert set(sizes) == {2 * (N - 1) * K // N}
            assert set(messages) == {2 * (N - 1)}
