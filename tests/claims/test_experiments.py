"""What experiments are made of: calls in turns, processes of their own, a notebook's habits."""

import functools
import os
import time

import psutil
import pytest

from helpers.claims import apart, in_turn, with_defaults


def test_calls_take_turns_and_the_first_round_does_not_count():
    calls = []

    def slow_at_first():
        calls.append("ours")
        if len(calls) == 1:
            time.sleep(0.2)

    ours, rival = in_turn(slow_at_first, lambda: calls.append("rival"), rounds=3, threads=None)
    assert calls == ["ours", "rival"] * 4
    assert 0 <= ours < 0.2
    assert rival >= 0


def test_one_thread_is_timed_by_its_own_time():
    asleep, _ = in_turn(lambda: time.sleep(0.05), lambda: None, rounds=1)
    awake, _ = in_turn(lambda: time.sleep(0.05), lambda: None, rounds=1, threads=None)
    assert asleep < 0.05 <= awake


def test_a_claim_gives_what_its_notebook_does_not():
    claim = with_defaults(seeds=range(3), unit="s", scale="ratio")
    settings = {"a": {"n": 1}, "b": {"n": 2}}
    given = ("00-name", "A sentence.", lambda seed, n: (1.0, 2.0), settings, "holds", 0.1, "x", "y")
    made = claim(*given, larger=False, unit="bytes")
    assert (made.seeds, made.scale, made.unit, made.larger) == (range(3), "ratio", "bytes", False)
    assert (made.ours, made.rival, made.margin, made.settings) == ("x", "y", 0.1, settings)


def which(seed: int, add: int = 0) -> tuple[int, int]:
    if seed < 0:
        raise ValueError(f"seed {seed}")
    if not seed:
        os._exit(3)
    print("not an answer")
    return os.getpid(), seed + add


def test_each_run_has_a_process_of_its_own_and_none_stays():
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    experiment = apart(functools.partial(which, add=2))
    (first, sum1), (second, sum2) = experiment(1), experiment(seed=2)
    assert len({first, second, os.getpid()}) == 3
    assert (sum1, sum2) == (3, 4)
    with pytest.raises(ValueError, match="seed -1"):
        apart(which)(-1)
    with pytest.raises(RuntimeError, match="exit status 3"):
        apart(which)(0)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
