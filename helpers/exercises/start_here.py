"""Checks of notebook 00: how a check answers, and the time and the shares of ranks on cores."""

from __future__ import annotations

import math

from helpers.exercises.answers import number, whole_number, whole_numbers
from helpers.exercises.core import call, close, equal, exercise, wrong


@exercise
def cores(answer):
    """The number of cores that this Python may use, as the table of the machine says."""
    from helpers.machine import usable_cores

    what = "the number of cores in the table above"
    equal(whole_number(answer, what), usable_cores(), what)


@exercise
def at_least(answer):
    """answer(ranks, cores, alone) -> least seconds in which ranks that take turns are done."""
    for ranks, cores, alone in (
        (4, 2, 1.0),
        (4, 4, 0.2),
        (3, 2, 1.0),
        (2, 8, 0.5),
        (5, 2, 3),
        (1, 1, 4),
    ):
        what = f"{ranks} ranks on {cores} cores, each {alone} s when alone: the least seconds"
        close(call(answer, ranks, cores, alone), max(1, ranks / cores) * alone, what)


@exercise
def shares(answer):
    """answer(items, ranks) -> list of the number of items for each rank, as even as can be."""
    for items, ranks in ((8, 4), (10, 4), (7, 3), (2, 4), (0, 3), (5, 1), (11, 4)):
        what = f"{items} items on {ranks} ranks"
        parts = whole_numbers(call(answer, items, ranks), what)
        if len(parts) != ranks:
            wrong(f"{what}: {parts} is not one number for each rank")
        if sum(parts) != items:
            wrong(f"{what}: {parts} adds up to {sum(parts)}")
        if max(parts) - min(parts) > 1:
            wrong(f"{what}: {parts} is not even; the rank with most makes the others wait")


@exercise
def squares(answer, power=2):
    """The value of ``mine`` on each rank, in rank order: the rank's square as a share of all."""
    if not isinstance(answer, list) or not answer:
        wrong(f"expected what cluster.run returned, one value for each rank, got {answer!r}")
    parts = [number(value, f"mine on rank {rank}") for rank, value in enumerate(answer)]
    if not math.isclose(sum(parts), 1):
        wrong(f"the ranks' values of mine add up to {sum(parts):.6g}; shares of a sum add up to 1")
    whole = sum(rank**power for rank in range(len(parts)))
    for rank, part in enumerate(parts):
        close(part, rank**power / whole, f"mine on rank {rank}")
