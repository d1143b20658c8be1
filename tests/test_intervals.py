"""Intervals against SciPy's."""

import math

import pytest
from scipy import stats

from helpers.intervals import student


def test_the_interval_is_students():
    mean, low, high = student([1.0, 2.0, 3.0])
    assert mean == 2
    assert high - mean == pytest.approx(4.302653 / math.sqrt(3))
    assert mean - low == pytest.approx(high - mean)


def test_a_gap_that_is_always_the_same_has_no_width():
    assert student([0.25, 0.25, 0.25]) == (0.25, 0.25, 0.25)


def test_zero_lies_outside_exactly_when_the_t_test_tells_the_two_apart():
    for shift in (0.0, 0.4, 0.6, 0.7, 0.8, 1.2):
        gaps = [shift + noise for noise in (-1.0, 0.2, 0.7, -0.4, 0.5)]
        _, low, high = student(gaps)
        assert (low > 0 or high < 0) == (stats.ttest_1samp(gaps, 0).pvalue < 0.05)


def test_nothing_has_no_mean():
    with pytest.raises(ValueError, match=r"one value at least; got \[\]"):
        student([])
