"""A chain with less memory than results: forget some, compute them again when they are needed.

The gradient of a chain x₀ → x₁ → ... → xₙ walks it backwards, and at step i needs xᵢ₋₁. To keep all
of them takes n units of memory. Two ways to keep fewer:

- *segments*: keep the first of each block of m; when the walk comes to a block, compute it again
  from there. n/m + m − 1 units, least near m = √n, for less than one more pass forward
  (Chen et al. 2016, "Training deep nets with sublinear memory cost").
- *binomial*: with c units for x's, keep the one at the best place, and treat both parts in the same
  way with what is left. No schedule does with fewer steps (Griewank and Walther 2000, "revolve").

A schedule is a list of actions; :func:`cost` executes it by counting and says what it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import comb, isqrt
from typing import Any


@dataclass(frozen=True)
class Action:
    """One thing to do to x_step.

    "forward": compute it from x_(step−1); "backward": the gradient with respect to x_(step−1) from
    that of x_step, reading x_(step−1); "forget" it.
    """

    kind: str
    step: int


@dataclass(frozen=True)
class Cost:
    """What a schedule takes."""

    peak: int  # the most x's held at one time; x₀ counts
    forwards: int  # steps forward, the first pass included


def cost(steps: int, schedule: Iterable[Action]) -> Cost:
    """Return what a schedule of a chain of n ``steps`` takes, by counting.

    ValueError if an action reads something forgotten, or the walk back is not n, n − 1, ..., 1.
    """
    held, peak, forwards, expected = {0}, 1, 0, steps
    for action in schedule:
        if action.kind == "forget":
            held.remove(action.step)
            continue
        if action.step - 1 not in held:
            raise ValueError(f"{action} expects x_{action.step - 1}; got {sorted(held)}")
        if action.kind == "forward":
            held.add(action.step)
            forwards += 1
        elif action.step == expected:
            expected -= 1
        else:
            raise ValueError(f"a schedule expects backward {expected} next; got {action}")
        peak = max(peak, len(held))
    if expected:
        raise ValueError(f"a schedule expects to go back to 1; got to {expected + 1}")
    return Cost(peak, forwards)


def run_chain(
    schedule: Iterable[Action],
    x: Any,
    g: Any,
    forward: Callable[[int, Any], Any],
    backward: Callable[[int, Any, Any], Any],
) -> Any:
    """Execute a schedule for real; return the gradient with respect to x₀.

    ``x`` is x₀, and ``g`` the gradient with respect to xₙ. ``forward(i, x)``: x_(i−1) → x_i;
    ``backward(i, x, g)``: x_(i−1) and the gradient with respect to x_i → that to x_(i−1).
    """
    held = {0: x}
    for action in schedule:
        if action.kind == "forward":
            held[action.step] = forward(action.step, held[action.step - 1])
        elif action.kind == "backward":
            g = backward(action.step, held[action.step - 1], g)
        else:
            del held[action.step]
    return g


def keep_all(steps: int) -> list[Action]:
    """Keep every x: one pass forward, one back. n units of memory, n − 1 steps forward."""
    return _there_and_back(0, steps)


def in_segments(steps: int, segments: int | None = None) -> list[Action]:
    """Keep the first x of each segment, and compute each segment again on the way back.

    Without a number there are ⌊√n⌋ segments. It takes segments + n / segments − 1 units of memory
    where that comes out even, and less than 2 n steps forward.
    """
    segments = isqrt(steps) if segments is None else segments
    if not 1 <= segments <= steps:
        raise ValueError(f"in_segments expects 1 to {steps} segments; got {segments}")
    starts = [steps * i // segments for i in range(segments + 1)]
    schedule = _walk(0, starts[-2], keep=set(starts))
    for start, stop in reversed(list(pairwise(starts))):
        schedule += _there_and_back(start, stop)
    return schedule


def optimal(steps: int, units: int) -> list[Action]:
    """Return the schedule of the fewest steps forward that a number of units allows.

    ``units`` are x's kept, x₀ among them; a walk forward holds two more, what it reads and makes.
    """
    if units < 1:
        raise ValueError(f"optimal expects 1 unit or more; got {units}")
    schedule: list[Action] = []
    todo: list[tuple[int, int, int] | Action] = [(0, steps, units)]
    while todo:
        part = todo.pop()
        if isinstance(part, Action):
            schedule.append(part)
            continue
        start, stop, left = part
        if stop - start == 1:
            schedule.append(Action("backward", stop))
        else:  # with one unit there is no place to keep: each step back starts from the beginning
            middle = start + (best_place(stop - start, left) if left > 1 else stop - start - 1)
            schedule += _walk(start, middle, keep={start})
            # from the end of the list: the right part, what it started from, the left part
            todo += [
                (start, middle, left),
                Action("forget", middle),
                (middle, stop, max(left - 1, 1)),
            ]
    return schedule


def fewest_forwards(steps: int, units: int) -> int:
    """Return how many steps forward the best schedule takes that keeps ``units`` x's, x₀ among
    them.

    With r the least number for which C(units + r, units) ≥ steps, no step is taken more than r
    times, and the total is r · steps − C(units + r, r − 1) (Griewank and Walther 2000, eq. 2).
    """
    repeats = 0
    while comb(units + repeats, units) < steps:
        repeats += 1
    return repeats * steps - comb(units + repeats, repeats - 1) if repeats else 0


def best_place(steps: int, units: int) -> int:
    """Return where in a chain of 2 or more steps the next of 2 or more units is best spent."""

    def forwards(m: int) -> int:
        return m + fewest_forwards(steps - m, units - 1) + fewest_forwards(m, units)

    low, high = 1, steps - 1
    while low < high:  # convex in m: go down until it stops falling
        m = (low + high) // 2
        low, high = (m + 1, high) if forwards(m + 1) < forwards(m) else (low, m)
    return low


def _walk(start: int, stop: int, keep: set[int]) -> list[Action]:
    """Compute x_stop from x_start, keeping only some on the way."""
    actions = []
    for step in range(start + 1, stop + 1):
        actions.append(Action("forward", step))
        if step - 1 not in keep:
            actions.append(Action("forget", step - 1))
    return actions


def _there_and_back(start: int, stop: int) -> list[Action]:
    """Keep everything between x_start and x_stop, walk back, forget it."""
    actions = [Action("forward", step) for step in range(start + 1, stop)]
    for step in range(stop, start, -1):
        actions += [Action("backward", step), Action("forget", step - 1)]
    return actions[:-1] if start == 0 else actions
