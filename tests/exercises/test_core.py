"""helpers.exercises.core: what a check prints, when it raises, and that it never hangs."""

import sys
import time

import numpy as np
import pytest

from helpers.exercises.core import (
    CORRECT,
    WRONG,
    NotAttempted,
    WrongAnswer,
    call,
    close,
    equal,
    exercise,
    unattempted,
    wrong,
)
from helpers.exercises.predictions import Predictions


@exercise
def twice(answer):
    for x in (1, 20):
        equal(call(answer, x), 2 * x, f"twice({x})")


def stub(x): ...


@pytest.mark.parametrize(
    ("answer", "start"),
    [
        (None, "twice: not attempted\n"),
        (..., "twice: not attempted\n"),
        (stub, "twice: not attempted: stub(1) returned None"),
        (lambda x: 2 * x, "twice: correct\n"),
        (
            lambda x: 2 if x == 1 else None,
            "twice: wrong: <lambda>(20) returned None, after answers",
        ),
        (lambda x: np.array([2 * x]), "twice: wrong: twice(1): array([2]) is not right"),
        (lambda x: x + 1, "twice: wrong: twice(20): 21 is not right"),
        (7, "twice: wrong: expected a function, got 7"),
        (lambda: 2, "twice: wrong: <lambda>(1) raised TypeError: "),
    ],
)
def test_verdict_goes_to_stdout_and_nothing_to_stderr(answer, start, capsys, monkeypatch):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    assert twice(answer) is None
    printed = capsys.readouterr()
    assert printed.out.startswith(start)
    assert printed.out.count("\n") == 1
    assert printed.err == ""


@exercise
def product(first, second):
    equal(first * second, 6, "the product")


@pytest.mark.parametrize("stage", ["autograde", "validate"])
@pytest.mark.parametrize(
    ("check", "missing", "false", "true"),
    [
        (twice, (None,), (lambda x: 0,), (lambda x: 2 * x,)),
        (twice, (stub,), (lambda x: 2,), (lambda x: x + x,)),
        (product, (2, None), (2, 4), (2, 3)),
    ],
    ids=["a function", "a stub", "two parts"],
)
def test_nbgrader_sees_a_failure(stage, check, missing, false, true, monkeypatch, capfd):
    monkeypatch.setenv("NBGRADER_EXECUTION", stage)
    with pytest.raises(NotAttempted, match=f"{check.title}: not attempted"):
        check(*missing)
    with pytest.raises(WrongAnswer, match=f"{check.title}: wrong: .* is not right"):
        check(*false)
    assert check(*true) is None
    assert capfd.readouterr() == (f"{check.title}: correct\n", "")


def test_what_answers_print_stays_off_stderr_and_their_line_is_named(capsys):
    def noisy(x):
        print("loud", file=sys.stderr)
        return x / 0

    twice(noisy)
    printed = capsys.readouterr()
    assert printed.out.startswith(
        "loud\ntwice: wrong: noisy(1) raised ZeroDivisionError: division by"
    )
    assert "return x / 0)" in printed.out
    assert printed.err == ""


def test_many_numbers_do_not_stand_before_the_error():
    @exercise
    def total(answer):
        call(answer, np.ones((3, 4)), np.arange(30.0), 0.5, keep=True)

    def raises(*given, keep):
        raise ValueError("no")

    shown = "(array (3, 4), array (30,), 0.5, keep=True)"
    assert total.examine(raises).message.startswith(f"raises{shown} raised ValueError: no (line")
    assert total.examine(stub_of_all).message == f"stub_of_all{shown} returned None"


def stub_of_all(*given, **more): ...


def test_an_endless_answer_ends():
    @exercise(time_limit=0.2)
    def patience(answer):
        call(answer)

    def forever():
        while True:
            time.sleep(0.01)

    verdict = patience.examine(forever)
    assert (verdict.status, "0.2 s" in verdict.message) == (WRONG, True)


def test_an_answer_that_was_just_examined_is_not_examined_for_every_use():
    seen = []

    @exercise
    def positive(answer):
        seen.append(answer())
        if seen[-1] <= 0:
            wrong("not positive")

    def three():
        return 3

    def none_of_it():
        return -1

    assert [positive.passed(three) for _ in range(4)] == [True] * 4
    assert [positive.passed(none_of_it) for _ in range(4)] == [False] * 4
    assert seen == [3, -1]
    assert positive.passed(three)
    assert positive.examine(three).status == CORRECT  # asked for the verdict, it examines
    assert seen == [3, -1, 3, 3]
    assert not positive.passed(None)


def test_an_answer_of_a_strange_kind_is_wrong_not_a_crash():
    assert product.examine("no number", 2).message.startswith("the product: 'no numberno number'")
    assert product.examine(np.array([1, 2]), 3).status == WRONG
    assert product.examine({}, 2).message.startswith("cannot use {}, 2: TypeError")


def test_unattempted():
    assert all(map(unattempted, (None, ..., [None] * 4, {"a": None}, (None, [None]))))
    assert not any(map(unattempted, (0, "", [], [None, 0], np.zeros(3))))


SQUARES = np.arange(5.0) ** 2


@pytest.mark.parametrize(
    ("refuse", "got", "want", "says"),
    [
        (close, [0, 1, 4], SQUARES, r"shape \(3,\), expected \(5,\)"),
        (
            close,
            [0, 1, 4, 9, 17],
            SQUARES,
            "1 of 5 values are not right, the first at index 4: yours is 17",
        ),
        (
            close,
            [0, 1, np.nan, 9, 16],
            SQUARES,
            r"at index 2: yours is nan \(there are NaN or infinite val",
        ),
        (close, "words", SQUARES, "expected numbers, got 'words'"),
        (close, 3.5, 2.0, "x: 3.5 is too large"),
        (close, 1.5, 2.0, "x: 1.5 is too small"),
        (close, float("nan"), 2.0, "x: nan is not a number"),
        (equal, [1, 2, 3], [1, 2], "has 3 items, expected 2"),
        (equal, [1, 3], [1, 2], "item 1 of"),
        (equal, [1, 3], np.array([1, 2]), "index 1: yours is 3"),
        (equal, "abc", [1], "'abc' is not right"),
    ],
)
def test_what_is_refused_is_shown_and_never_what_is_right(refuse, got, want, says):
    with pytest.raises(WrongAnswer, match=says) as caught:
        refuse(got, want, "x")
    assert "16" not in str(caught.value)


def test_close_and_equal_accept():
    close(np.arange(5, dtype=np.float32) ** 2, SQUARES, "in single precision")
    close(1.0 + 1e-9, 1.0, "nearly one")
    equal([1, 2], (1, 2), "a tuple for a list")
    equal(np.arange(3), np.arange(3), "arrays")


def test_a_prediction_is_kept_and_answered(capsys):
    guess = Predictions(speed=4)
    guess["who"], guess["left open"] = "rank 0", ...
    for name, result in {"speed": 1.9, "who": "rank 3", "left open": 199.8}.items():
        guess.answer(name, result)
    assert capsys.readouterr().out.splitlines() == [
        "speed: you predicted 4; it is 1.9, 0.475 times your number",
        "who: you predicted rank 0; it is rank 3: no",
        "left open: you predicted nothing; it is 200",
    ]
    with pytest.raises(KeyError, match=r"'speed'.*got 'speed-up'"):
        guess.answer("speed-up", 2)
