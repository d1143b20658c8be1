"""helpers.timing: samples, warm-up, limits and bad input."""

from __future__ import annotations

import time

import pytest
from scipy import stats

from helpers.timing import Timing, measure, seconds, student


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
    ("value", "text"), [(2.5, "2.5 s"), (0.00123, "1.23 ms"), (4e-6, "4 µs"), (5e-8, "0.05 µs")]
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
