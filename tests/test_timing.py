"""helpers.timing: samples, warm-up, limits and bad input; who had the cores."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from scipy import stats

import helpers.timing
from helpers.timing import Others, Spent, Timing, measure, seconds, student


def test_counts_warmup_and_repeats():
    calls = []
    timing = measure(lambda: calls.append(1), repeats=4, warmup=3)
    assert len(calls) == 7
    assert len(timing.samples) == 4


def test_median_best_and_spread():
    timing = Timing((1.0, 2.0, 3.0, 4.0, 100.0))
    assert (timing.median, timing.best, timing.spread) == (3.0, 1.0, 2.0)


def test_time_limit_keeps_one_sample():
    timing = measure(lambda: time.sleep(0.02), repeats=1000, warmup=0, time_limit=0.01)
    assert len(timing.samples) == 1


@pytest.mark.parametrize("bad", [{"repeats": 0}, {"warmup": -1}, {"min_time": -1.0}])
def test_bad_input_is_repeated_back(bad):
    name, value = next(iter(bad.items()))
    with pytest.raises(ValueError, match=f"{name}={value}"):
        measure(lambda: None, **bad)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.5, "2.5 s"),
        (0.00123, "1.23 ms"),
        (4e-6, "4 µs"),
        (5e-8, "0.05 µs"),
        (9.996e-4, "1 ms"),  # not 1e+03 µs
        (1234.5, "1234 s"),
    ],
)
def test_seconds(value, text):
    assert seconds(value) == text


def test_the_interval_is_students():
    gaps = [-0.3, 0.9, 1.4, 0.3, 1.2]
    interval = stats.ttest_1samp(gaps, 0).confidence_interval(0.95)
    assert student(gaps) == pytest.approx((0.7, interval.low, interval.high))
    assert student([0.25, 0.25, 0.25]) == (0.25, 0.25, 0.25)  # no width


def test_nothing_has_no_mean():
    with pytest.raises(ValueError, match=r"one value at least; got \[\]"):
        student([])


# Seconds of two cores during a second: what this program had, what all had, what nobody had.
@pytest.mark.parametrize(
    ("spent", "percent"),
    [
        (Spent(2.0, 2.0, 0.0), 0),  # two ranks alone
        (Spent(0.0, 2.0, 0.0), 100),  # two other programs, while this one sleeps
        (Spent(1.5, 2.0, 0.0), 25),
        (Spent(1.85, 2.0, 0.0), 0),  # 7 % is no news
        (Spent(1.0, 1.5, 0.5), 0),  # what they had was free
        (Spent(1.0, 1.8, 0.2), 40),
        (Spent(1.1, 1.0, 1.0), 0),  # clocks that tick
        (Spent(0.0, 0.0, 0.0), 0),  # a machine that tells nothing
    ],
)
def test_others_disturb_if_they_had_cores_that_were_not_idle(monkeypatch, spent, percent):
    others = watched(monkeypatch, Spent(7.0, 9.0, 5.0), plus(Spent(7.0, 9.0, 5.0), spent))
    assert others.disturb == (percent > 0)
    assert (f" {percent} % of the cores" in str(others)) == (percent > 0)


def plus(a, b):
    return Spent(*(x + y for x, y in zip(a, b, strict=True)))


def watched(monkeypatch, *readings, took=1.0):
    """What is found if the clocks show these readings, ``took`` seconds apart."""
    values, clock = iter(readings), iter(took * i for i in range(len(readings)))
    monkeypatch.setattr(helpers.timing, "_spent", lambda: next(values))
    monkeypatch.setattr(helpers.timing.time, "perf_counter", lambda: next(clock))
    others = Others()
    for _ in range(len(readings) // 2):
        with others:
            pass
    monkeypatch.undo()
    return others


def test_several_blocks_are_added_up_and_what_lies_between_is_not(monkeypatch):
    readings = Spent(0, 0, 0), Spent(2, 2, 0), Spent(2, 90, 0), Spent(3, 92, 0)
    others = watched(monkeypatch, *readings)
    assert others.spent == (3, 4, 0)
    assert others.share == 0.25


def test_nothing_is_said_of_an_instant_nor_where_no_clock_tells(monkeypatch, capsys):
    for found in (
        watched(monkeypatch, Spent(0, 0, 0), Spent(0, 2, 0), took=0.1),
        watched(monkeypatch, None, None),
    ):
        found.say()
        assert not found.disturb
    assert capsys.readouterr().out == ""
    watched(monkeypatch, Spent(0, 0, 0), Spent(0, 2, 0)).say()
    assert capsys.readouterr().out.startswith("BUSY MACHINE: ")


COMPUTE = """
import time
input()
while time.process_time() < 0.3:
    pass
print(flush=True)
input()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="macOS drops the time of ended children")
def test_children_alive_and_ended_are_own():
    command = [sys.executable, "-I", "-S", "-c", COMPUTE]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as alive:
        with Others() as others:
            with subprocess.Popen(command, **pipes) as ended:
                ended.communicate(b"\n\n")
            alive.stdin.write(b"\n")
            alive.stdin.flush()
            alive.stdout.readline()
        alive.communicate(b"\n")
    assert others.spent.own > 0.5
