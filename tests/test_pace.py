"""A paced block takes its time, and never silently longer; by a clock that the test moves."""

import warnings

import pytest

from helpers import pace as module
from helpers.pace import OutpacedWarning, pace

LOOK = 1e-6  # seconds: what a look at the clock takes


class Clock:
    """Stands in for ``time``: it moves when somebody works, sleeps or looks at it."""

    now, looks, slept = 100.0, 0, 0.0

    def perf_counter(self):
        self.looks += 1
        self.now += LOOK
        return self.now

    def sleep(self, seconds):
        self.slept += seconds
        self.now += seconds

    def work(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.mark.parametrize("seconds", [1e-3, 5e-3, 20e-3])
def test_a_block_takes_its_pace_and_sleeps_but_for_the_last_moment(clock, seconds):
    begin = clock.now
    with pace(seconds) as block:
        clock.work(seconds / 10)
    assert seconds <= clock.now - begin < seconds + 10 * LOOK
    assert seconds == block.seconds <= block.took < seconds + 10 * LOOK
    assert block.work == pytest.approx(seconds / 10, abs=10 * LOOK)
    assert clock.slept == pytest.approx(0.9 * seconds - module.SLACK, abs=10 * LOOK)
    assert clock.looks < 1.2 * module.SLACK / LOOK


def test_a_sleep_that_ends_early_is_gone_on_with(clock, monkeypatch):
    monkeypatch.setattr(clock, "sleep", lambda seconds: clock.work(seconds / 2))
    begin = clock.now
    with pace(20e-3):
        pass
    assert 20e-3 <= clock.now - begin < 20e-3 + 10 * LOOK
    assert clock.looks < 1.5 * module.SLACK / LOOK  # the last of it alone is not slept


def test_work_that_takes_longer_is_not_silent(clock):
    told = r"pace\(0.01\): the work took 0.02 .* longer pace"
    with pytest.warns(OutpacedWarning, match=told), pace(0.01):
        clock.work(0.02)


def test_work_in_time_is_silent_and_an_error_comes_at_once(clock):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pace(0.01):
            pass
        begin = clock.now
        with pytest.raises(KeyError), pace(30):
            raise KeyError
        with pytest.raises(KeyError), pace(1e-6):
            raise KeyError(clock.work(1e-3))
    assert clock.now - begin < 2e-3


def test_by_the_real_clock_it_takes_no_less():
    import time

    begin = time.perf_counter()
    with pace(5e-3):
        pass
    assert time.perf_counter() - begin >= 5e-3


@pytest.mark.parametrize("seconds", [0, float("nan"), float("inf"), "1", True])
def test_what_is_no_pace_is_named(seconds):
    with pytest.raises(ValueError, match=r"^pace\(.*\): expected a number of seconds above 0"):
        pace(seconds)
