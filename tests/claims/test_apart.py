"""An experiment in a process of its own."""

import functools
import os

import psutil
import pytest

from helpers.claims import apart


def which(seed: int, add: int = 0) -> tuple[int, int]:
    if seed < 0:
        raise ValueError(f"seed {seed}")
    return os.getpid(), seed + add


def test_each_run_has_a_process_of_its_own():
    experiment = apart(functools.partial(which, add=2))
    (first, sum1), (second, sum2) = experiment(1), experiment(seed=2)
    assert len({first, second, os.getpid()}) == 3
    assert (sum1, sum2) == (3, 4)


def test_what_it_raises_is_raised():
    with pytest.raises(ValueError, match="seed -1"):
        apart(which)(-1)


def ends(seed: int) -> None:
    os._exit(3)


def prints(seed: int) -> int:
    print("not an answer")
    return seed


def test_a_process_that_ends_without_an_answer_is_said():
    with pytest.raises(RuntimeError, match="exit status 3"):
        apart(ends)(0)


def test_what_it_prints_is_no_answer_and_no_process_stays():
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    assert apart(prints)(7) == 7
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
