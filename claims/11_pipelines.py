"""What notebook 11 concludes: bubbles as recorded, and which steps are shorter."""

from __future__ import annotations

import functools

from helpers.claims import Claim, with_defaults
from helpers.claims.ranks import ranks

LIMIT = 120  # seconds for one call on the ranks
PART = 20e-3  # seconds: the pace of a forward pass, and of each part of a backward pass


@functools.cache
def _recorded(seed: int, name: str, p: int, m: int):
    """A paced step on ranks, the shortest of three."""
    from helpers.pipeline import Costs, families, runs

    schedule = families.FAMILIES[name](p, m)
    part = PART / schedule.chunks
    return ranks().run(runs.record, schedule, Costs(part, part, part), repeats=3, timeout=LIMIT)[0]


def idle_and_formula(seed: int, name: str, p: int, m: int) -> tuple[float, float]:
    """The share of idle time as recorded, and by the formula."""
    from helpers.pipeline.model import bubble

    line = _recorded(seed, name, p, m)
    return line.bubble, bubble(name, p, m, line.schedule.chunks)


def two_times(seed: int, ours: str, rival: str, p: int, m: int) -> tuple[float, float]:
    """Seconds of a step by two schedules."""
    return _recorded(seed, ours, p, m).span, _recorded(seed, rival, p, m).span


SEEDS = range(4)
FRESH = range(10, 18)  # not looked at before the margins were fixed
TIMED = {"p=4, m=8": {"p": 4, "m": 8}, "p=2, m=4": {"p": 2, "m": 4}}

_step = with_defaults(seeds=FRESH, unit="s", scale="ratio", larger=False, smallest={"p": 2, "m": 2})

CLAIMS = [
    Claim(
        id="11-bubble",
        sentence="In a pipeline of paced ranks, the idle share is (p − 1) / (m + p − 1) within "
        "0.05, under GPipe as under 1F1B.",
        experiment=idle_and_formula,
        seeds=SEEDS,
        settings={
            "GPipe, p=4, m=8": {"name": "GPipe", "p": 4, "m": 8},
            "1F1B, p=4, m=8": {"name": "1F1B", "p": 4, "m": 8},
            "GPipe, p=2, m=4": {"name": "GPipe", "p": 2, "m": 4},
        },
        verdict="equal",
        margin=0.05,
        ours="recorded",
        rival="formula",
        unit="idle share",
        smallest={"p": 2, "m": 2},
    ),
    _step(
        id="11-interleaved",
        sentence="A pipeline's step under 1F1B is shorter with two chunks on each rank than with"
        " one.",
        experiment=functools.partial(two_times, ours="interleaved", rival="1F1B"),
        settings=TIMED,
        verdict="holds",
        margin=0.02,
        ours="interleaved",
        rival="1F1B",
    ),
    _step(
        id="11-zero-bubble",
        sentence="A pipeline's step is shorter with the backward pass in two parts than under "
        "1F1B.",
        experiment=functools.partial(two_times, ours="zero-bubble", rival="1F1B"),
        settings=TIMED,
        verdict="holds",
        margin=0.02,
        ours="zero-bubble",
        rival="1F1B",
    ),
]  # fmt: skip
