"""helpers.exercises.core: what a check prints, when it raises, and that it never hangs."""

import importlib
import sys
import time

import numpy as np
import pytest

from helpers.exercises.core import (
    CORRECT,
    NOT_ATTEMPTED,
    WRONG,
    Exercise,
    NotAttempted,
    WrongAnswer,
    call,
    close,
    equal,
    exercise,
    unattempted,
    wrong,
)


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


def test_what_answers_print_stays_off_stderr(capsys):
    def noisy(x):
        print("loud", file=sys.stderr)
        return 2 * x

    twice(noisy)
    printed = capsys.readouterr()
    assert printed.out == "loud\nloud\ntwice: correct\n"
    assert printed.err == ""


def test_the_readers_line_is_named():
    def answer(x):
        return x / 0

    verdict = twice.examine(answer)
    assert verdict.status == WRONG
    assert "raised ZeroDivisionError: division by zero" in verdict.message
    assert "return x / 0)" in verdict.message


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
    @exercise
    def half(answer):
        if answer % 2:
            wrong("odd")

    assert half.examine("no number").status == WRONG
    assert "'no number'" in half.examine("no number").message
    assert half.examine(np.array([1, 2])).status == WRONG
    assert half.examine(4).status == CORRECT


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *(
            (None, True),
            (..., True),
            ([None] * 4, True),
            ({"a": None}, True),
            ((None, [None]), True),
        ),
        *((0, False), ("", False), ([], False), ([None, 0], False), (np.zeros(3), False)),
    ],
)
def test_unattempted(value, expected):
    assert unattempted(value) is expected


@exercise
def five_squares(answer):
    close(answer, np.arange(5.0) ** 2, "the squares")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([0, 1, 4], r"shape (3,), expected (5,)"),
        ([0, 1, 4, 9, 17], "1 of 5 values are not right, the first at index 4: 17"),
        ([0, 1, float("nan"), 9, 16], "at index 2: nan (there are NaN or infinite values)"),
        ("words", "expected numbers, got 'words'"),
    ],
)
def test_close_says_where_never_what(answer, says):
    verdict = five_squares.examine(answer)
    assert verdict.status == WRONG
    assert says in verdict.message
    assert "16" not in verdict.message


def test_close_and_equal_accept():
    assert five_squares.examine(np.arange(5, dtype=np.float32) ** 2).status == CORRECT
    close(1.0 + 1e-9, 1.0, "nearly one")
    equal([1, 2], (1, 2), "a tuple for a list")
    equal(np.arange(3), np.arange(3), "arrays")


@pytest.mark.parametrize(
    ("got", "want", "says"),
    [
        (3.5, 2.0, "x: 3.5 is too large"),
        (1.5, 2.0, "x: 1.5 is too small"),
        (float("nan"), 2.0, "x: nan is not a number"),
        (float("inf"), 2.0, "x: inf is too large"),
    ],
)
def test_close_on_one_number(got, want, says):
    with pytest.raises(WrongAnswer, match=says):
        close(got, want, "x")


@pytest.mark.parametrize(
    ("got", "want", "says"),
    [
        ([1, 2, 3], [1, 2], "has 3 items, expected 2"),
        ([1, 3], [1, 2], "item 1 of"),
        ([1, 3], np.array([1, 2]), "index 1: 3"),
        ("abc", [1], "'abc' is not right"),
    ],
)
def test_equal_says_which(got, want, says):
    with pytest.raises(WrongAnswer, match=says):
        equal(got, want, "x")


def test_parts_of_an_answer():
    @exercise
    def both(first, second):
        equal(first + second, 3, "the sum")

    assert both.examine(1, None).status == NOT_ATTEMPTED
    assert both.examine(1, 2).status == CORRECT


@pytest.mark.parametrize("topic", ["cuda", "cuda_attention", "cuda_memory", "cuda_products"])
def test_kernels_are_given_the_time_to_compile_on_a_busy_machine(topic):
    for name, check in vars(importlib.import_module(f"helpers.exercises.{topic}")).items():
        if isinstance(check, Exercise) and "compiled" in check.function.__code__.co_names:
            assert check.time_limit >= 120, name
