"""helpers.waiting: until something is ready, late or given up; asleep while others compute."""

import contextlib
import time
from pathlib import Path

import pytest

from helpers.machine.waiting import ClosedError, Yielding, until
from helpers.waiting import at_most, doze, meet
from tests.mpi.runner import run_ranks


def after(looks):
    """Return a function that is false for so many looks."""
    left = iter(range(looks))
    return lambda: next(left, None) is None


def never():
    return False


class Announced:
    made, begun, renewed, ended = 0, 0, 0, 0

    def __init__(self):
        type(self).made += 1

    def __enter__(self):
        type(self).begun += 1
        return self

    def renew(self):
        type(self).renewed += 1

    def __exit__(self, *error):
        type(self).ended += 1


def late():
    return TimeoutError("rank 1 sent nothing")


def soon():
    return time.monotonic() + 0.05


@pytest.fixture
def announced():
    return type("Fresh", (Announced,), {})


def test_what_is_ready_soon_is_not_announced(announced):
    until(after(59), time.monotonic() + 60, late, announced)
    assert announced.made == 0


def test_a_longer_wait_is_announced_again_and_again_and_moves_messages(announced):
    moved = []
    until(after(60 + 100), time.monotonic() + 60, late, announced, progress=lambda: moved.append(1))
    assert (announced.begun, announced.renewed, announced.ended) == (1, 100, 1)
    assert len(moved) == 100 // 16


def test_late_and_closed_are_raised_and_end_the_announcement(announced):
    with pytest.raises(TimeoutError, match="rank 1 sent nothing"):
        until(never, soon(), late, announced)
    with pytest.raises(ClosedError, match="destroyed"):
        until(never, time.monotonic() + 60, late, announced, closed=lambda: "destroyed")
    assert (announced.begun, announced.ended) == (2, 2)


def test_what_comes_at_the_deadline_is_not_late():
    until(lambda: True, time.monotonic() - 1, late, spins=0)


def test_naps_have_the_length_that_was_asked_for(monkeypatch):
    naps = []
    monkeypatch.setattr(time, "sleep", naps.append)
    until(after(3), time.monotonic() + 60, late, spins=0, yield_for=0.0, nap=0.25)
    assert naps == [0.25] * 3


def test_a_core_that_strangers_use_is_left_asleep(monkeypatch):
    clock, naps = iter([10.0, 10.5, 10.9]), []
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(time, "sleep", naps.append)
    monkeypatch.setattr("os.sched_yield", lambda: None)
    yielding = Yielding()
    yielding.leave(9.0)  # back after a whole second
    assert naps == []
    yielding.leave(10.05)
    assert len(naps) == 1
    yielding.leave(10.4)  # the second yield: that is forgotten, and 0.1 s is long again
    assert len(naps) == 1


class Others:
    """A communicator whose other ranks come after so many looks."""

    def __init__(self, looks):
        self.Test = after(looks)

    def Ibarrier(self):  # noqa: N802 (as in mpi4py)
        return self

    def Get_size(self):  # noqa: N802
        return 3


def test_who_dozes_sleeps_between_any_two_looks(monkeypatch):
    naps = []
    monkeypatch.setattr(time, "sleep", naps.append)
    doze(Others(4), interval=0.5)
    assert naps == [0.5] * 4
    with pytest.raises(TimeoutError, match="not all 3 ranks were there within 0 s"):
        doze(Others(10**9), timeout=0)


def gather_at(last, folder):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.Get_rank() == last:
        time.sleep(0.5)
        Path(folder, "last").touch()
    doze(comm)
    return Path(folder, "last").exists()


def forever():
    while True:
        time.sleep(0.001)


def test_a_block_that_never_ends_is_ended():
    with (
        pytest.raises(TimeoutError, match="too long"),
        at_most(0.05, lambda: TimeoutError("too long")),
    ):
        forever()
    with at_most(0.05, never):
        pass
    time.sleep(0.1)  # its alarm does not ring any more


def test_the_earlier_of_two_alarms_rings_and_the_outer_one_goes_on():
    inner, outer = (lambda: TimeoutError("inner")), (lambda: TimeoutError("outer"))
    with pytest.raises(TimeoutError, match="outer"), at_most(0.1, outer), at_most(5, inner):
        forever()


def test_what_is_left_of_the_outer_alarm_is_kept():
    def both():
        with at_most(0.2, lambda: TimeoutError("outer")):
            with contextlib.suppress(TimeoutError), at_most(0.05, lambda: TimeoutError("inner")):
                forever()
            forever()

    begin = time.monotonic()
    with pytest.raises(TimeoutError, match="outer"):
        both()
    assert time.monotonic() - begin > 0.15


def on_ranks(folder):
    """Return whether the last had come when this rank went on, and when it met the others."""
    from mpi4py import MPI

    all_there, found = gather_at(1, folder), []
    for meeting in range(5):
        time.sleep(0.01 * MPI.COMM_WORLD.rank * meeting)  # they come one after the other
        came = time.monotonic()
        meet(MPI.COMM_WORLD, pause=0.005)
        found.append((came, time.monotonic()))
    return all_there, found


@pytest.mark.mpi
def test_who_dozes_or_meets_goes_on_after_the_last_has_come(tmp_path):
    """How near to each other they go on, `make bench` measures."""
    all_there, meetings = zip(*run_ranks(3, on_ranks, str(tmp_path)), strict=True)
    assert all_there == (True,) * 3
    for meeting in zip(*meetings, strict=True):
        came, went = zip(*meeting, strict=True)
        assert min(went) >= max(came)
