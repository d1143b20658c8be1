"""Two calls in turns: how often, in which order, by which clock; claims with habits."""

import time

import pytest

from helpers.claims import Claim, in_turn, with_defaults


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
    assert asleep < 0.05
    awake, _ = in_turn(lambda: time.sleep(0.05), lambda: None, rounds=1, threads=None)
    assert awake >= 0.05


def test_a_claim_gives_what_its_notebook_does_not():
    claim = with_defaults(seeds=range(3), unit="s", scale="ratio")
    settings = {"a": {"n": 1}, "b": {"n": 2}}
    given = ("00-name", "A sentence.", lambda seed, n: (1.0, 2.0), settings, "holds", 0.1, "x", "y")
    made = claim(*given, larger=False, unit="bytes")
    assert isinstance(made, Claim)
    assert (made.seeds, made.scale, made.unit, made.larger) == (range(3), "ratio", "bytes", False)
    assert (made.ours, made.rival, made.margin, made.settings) == ("x", "y", 0.1, settings)
    with pytest.raises(TypeError):
        claim(*given[:-1])
