"""What every check behind an exercise does: say "not attempted", "correct", or what is wrong.

    @exercise
    def left_neighbour(answer):
        "answer(rank, size) -> rank of the left neighbour on a ring."
        for size in (1, 2, 5):
            for rank in range(size):
                equal(call(answer, rank, size), (rank - 1) % size, f"rank {rank} of {size}")

    left_neighbour(my_function)   # prints: left neighbour: correct

A check never gives the answer away and writes to stdout only (nbgrader takes stderr for a failure).
While nbgrader grades or validates, it sets NBGRADER_EXECUTION: then a missing or wrong answer
raises, so that the cell fails.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn

from helpers import board, progress
from helpers.waiting import at_most

NOT_ATTEMPTED, WRONG, CORRECT = "not attempted", "wrong", "correct"
TIME_LIMIT = 30.0  # seconds for one check: an endless loop in an answer must not freeze a class


_answered: ContextVar[list] = ContextVar("_answered")  # who returned something in this examination


class NotAttempted(AssertionError):  # noqa: N818 - a reader reads this name, not a programmer
    """The exercise is still as it was handed out."""

    after_answers = False  # whether it was no stub that returned nothing


class WrongAnswer(AssertionError):  # noqa: N818
    """The answer is wrong; the message says what about it, never what would be right."""


@dataclass(frozen=True)
class Verdict:
    """What a check found."""

    status: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.status}: {self.message}" if self.message else self.status


class Exercise:
    """A check, made by :func:`exercise`: call it with the reader's answer."""

    def __init__(self, function: Callable[..., None], time_limit: float = TIME_LIMIT) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.time_limit = time_limit
        self.title = function.__name__.replace("_", " ")
        self._last: tuple[tuple[object, ...], str] = ((), NOT_ATTEMPTED)  # answer, status

    def __call__(self, *answer: object, **context: object) -> None:
        """Print the verdict on ``answer``; under NBGRADER_EXECUTION raise unless it is correct."""
        verdict = self.examine(*answer, **context)
        if os.environ.get("NBGRADER_EXECUTION") and verdict.status != CORRECT:
            error = NotAttempted if verdict.status == NOT_ATTEMPTED else WrongAnswer
            raise error(f"{self.title}: {verdict}")
        print(f"{self.title}: {verdict}")
        if verdict.status == CORRECT:
            progress.solved(self.title)
            board.solved(self.title)

    def examine(self, *answer: object, **context: object) -> Verdict:
        """Judge an answer."""
        verdict = self._verdict(*answer, **context)
        self._last = answer, verdict.status
        return verdict

    def passed(self, *answer: object, **context: object) -> bool:
        """Tell whether an answer is correct; the one examined last is not examined again.

        So a cell may ask at every use, also of an answer whose examination takes its whole time.
        """
        last, status = self._last
        if len(last) == len(answer) and all(map(operator.is_, last, answer)):
            return status == CORRECT
        return self.examine(*answer, **context).status == CORRECT

    def _late(self) -> WrongAnswer:
        return WrongAnswer(
            f"no result within {self.time_limit:g} s: does a loop or a receive never end, "
            "or does the answer do very much more than it must?"
        )

    def _verdict(self, *answer: object, **context: object) -> Verdict:
        if any(unattempted(part) for part in answer):
            return Verdict(NOT_ATTEMPTED)
        begun = _answered.set([])
        try:
            with contextlib.redirect_stderr(sys.stdout), at_most(self.time_limit, self._late):
                self.function(*answer, **context)
        except NotAttempted as error:
            if error.after_answers:
                return Verdict(WRONG, f"{error}, after answers to other cases")
            return Verdict(NOT_ATTEMPTED, str(error))
        except WrongAnswer as error:
            return Verdict(WRONG, str(error))
        except Exception as error:  # an answer of a kind that the check did not foresee
            shown = ", ".join(short(part) for part in answer)
            return Verdict(WRONG, f"cannot use {shown}: {type(error).__name__}: {error}")
        finally:
            _answered.reset(begun)
        return Verdict(CORRECT)


def exercise(function: Callable[..., None] | None = None, *, time_limit: float = TIME_LIMIT) -> Any:
    """Make a check of a function, as a decorator: it returns, or calls :func:`wrong`.

    Its positional parameters are parts of the reader's answer.
    """
    if function is None:
        return functools.partial(Exercise, time_limit=time_limit)
    return Exercise(function, time_limit)


def wrong(message: str) -> NoReturn:
    """End the check: the answer is wrong; the message never says what would be right."""
    raise WrongAnswer(message)


def unattempted(value: object) -> bool:
    """Tell whether a value is what a stub leaves: None, ``...``, or a collection of only those."""
    if value is None or value is ...:
        return True
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, (list, tuple)) and bool(value) and all(map(unattempted, value))


def call(function: Callable, *args: object, **kwargs: object) -> Any:
    """Call the reader's function; returning None is "not attempted", raising is wrong.

    It may change its arguments: hand it copies of what the check still needs.
    """
    if not callable(function):
        wrong(f"expected a function, got {short(function)}")
    name = getattr(function, "__name__", "your function")
    shown = _given(args, kwargs)
    try:
        value = function(*args, **kwargs)
    except (NotAttempted, WrongAnswer):
        raise
    except Exception as error:
        wrong(f"{name}({shown}) raised {type(error).__name__}: {error}{line_of(error)}")
    answered = _answered.get([])
    if unattempted(value):
        nothing = NotAttempted(f"{name}({shown}) returned {short(value)}")
        nothing.after_answers = any(one is function for one in answered)
        raise nothing
    answered.append(function)
    return value


def equal(got: Any, want: Any, what: str) -> None:
    """Refuse what is not equal, item by item; the message shows only what there is."""
    import numpy as np

    if isinstance(want, np.ndarray):
        close(got, want, what, rtol=0.0, atol=0.0)
    elif type(got) in (list, tuple) and type(want) in (list, tuple):
        if len(got) != len(want):
            wrong(f"{what}: {short(got)} has {len(got)} items, expected {len(want)}")
        for index, pair in enumerate(zip(got, want, strict=True)):
            if not _same(*pair):
                wrong(f"{what}: item {index} of {short(got)} is not right")
    elif not _same(got, want):
        wrong(f"{what}: {short(got)} is not right")


def close(got: object, want: object, what: str, *, rtol: float = 1e-6, atol: float = 1e-9) -> None:
    """Refuse numbers or arrays that are not near enough."""
    import numpy as np

    try:
        if got is None or isinstance(got, (str, bytes)):  # which NumPy would read
            raise TypeError
        values, wanted = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
    except (TypeError, ValueError):
        wrong(f"{what}: expected numbers, got {short(got)}")
    if values.shape != wanted.shape:
        wrong(f"{what}: shape {values.shape}, expected {wanted.shape}")
    off = ~np.isclose(values, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if not off.any():
        return
    strange = "" if np.isfinite(values).all() else " (there are NaN or infinite values)"
    if values.ndim == 0 and not np.isnan(values):
        wrong(f"{what}: {values:g} is too {'large' if values > wanted else 'small'}{strange}")
    if values.ndim == 0:
        wrong(f"{what}: {values:g} is not a number")
    first = tuple(int(i) for i in np.argwhere(off)[0])
    place = first[0] if len(first) == 1 else first
    wrong(
        f"{what}: {int(off.sum())} of {off.size} values are not right, "
        f"the first at index {place}: yours is {values[first]:g}{strange}"
    )


def _same(got: object, want: object) -> bool:
    if getattr(got, "shape", ()) != ():  # of one number, which no later cell may be able to use
        return False
    try:
        return bool(got == want)
    except Exception:  # arrays of another shape, objects that do not compare
        return False


def short(value: object) -> str:
    """Return how a value is shown: in one line of 60 characters at most."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def counted(count: int, what: str) -> str:
    """Return a number of things in words, such as "1 step" and "2 steps"."""
    return f"{count} {what}{'s' * (count != 1)}"


def _given(args: Iterable, kwargs: Mapping[str, object]) -> str:
    """Show what a function was called with; if that is long, of arrays only the shapes."""

    def shown(each: Callable[[object], str]) -> str:
        return ", ".join([*map(each, args), *(f"{k}={each(v)}" for k, v in kwargs.items())])

    text = shown(short)
    return text if len(text) <= 60 else shown(_without_numbers)


def _without_numbers(value: object) -> str:
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or not shape:
        return short(value)
    return f"{'array' if type(value).__name__ == 'ndarray' else 'tensor'} {tuple(shape)}"


def line_of(error: Exception) -> str:
    """Name the reader's line that raised: the deepest one outside of installed packages."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        installed = "site-packages" in frame.filename or frame.filename == __file__
        if not installed and frame.line:
            return f" (line {frame.lineno}: {frame.line})"
    return ""
