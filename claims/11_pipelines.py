"""What notebook 11 concludes: equal to one process, bubbles, memory, balance, stale gradients."""

from __future__ import annotations

import functools

from helpers.claims import Claim, Share, with_defaults
from helpers.claims.ranks import ranks

ROUNDING = 1e-9  # relative, in float64: a thousand times what summing in another order does
LIMIT = 120  # seconds for one call on the ranks
FOUR = ("GPipe", "1F1B", "interleaved", "zero-bubble")
PART = 20e-3  # seconds: the pace of a forward pass, and of each part of a backward pass


def as_one_process(seed: int, p: int, m: int) -> Share:
    """How many of four schedules give losses and gradients of one process, to 1e-12 in float64."""
    from helpers.pipeline import families, runs

    good = 0
    for name in FOUR:
        worst = max(
            ranks().run(runs.difference, families.FAMILIES[name](p, m), seed, timeout=LIMIT)
        )
        good += worst < 1e-12
    return Share(good, len(FOUR))


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


def two_memories(seed: int, ours: str, rival: str, p: int, m: int, again: bool = False):
    """Bytes kept on the rank that keeps most."""
    from helpers.pipeline import families, runs

    def most(name: str, recompute: bool) -> int:
        made = families.FAMILIES[name](p, m)
        found = ranks().run(runs.bytes_kept, made, recompute, timeout=LIMIT)
        return max(kept for kept, _ in found)

    return float(most(ours, again)), float(most(rival, False))


def nearest_model(seed: int, stash: bool, m: int) -> tuple[float, float]:
    """How far a gradient of PipeDream is from that of the nearest model, relatively; and 0."""
    from helpers.pipeline import families, following

    found = ranks(3).run(
        following.follow_updates, families.pipedream(3, m), stash, seed, timeout=LIMIT
    )
    return found[0]["nearest"], 0.0


def of_no_model(seed: int, stash: bool, m: int) -> Share:
    """Whether PipeDream's gradient differs from every model's by more than rounding."""
    return Share(int(nearest_model(seed, stash, m)[0] > ROUNDING), 1)


def balanced_and_equal(seed: int, layers: int, p: int) -> tuple[float, float]:
    """The dearest stage over the mean, for layers of random costs cut in two ways."""
    import numpy as np

    from helpers.pipeline import partition

    costs = np.random.default_rng([seed, layers]).uniform(1, 4, layers).tolist()
    mean = sum(costs) / p
    ours = partition.dearest(costs, partition.balanced(costs, p)) / mean
    return ours, partition.dearest(costs, partition.equal(layers, p)) / mean


SEEDS = range(4)
FRESH = range(10, 18)  # not looked at before the margins were fixed
TIMED = {"p=4, m=8": {"p": 4, "m": 8}, "p=2, m=4": {"p": 2, "m": 4}}
KEPT = {"p=4, m=8": {"p": 4, "m": 8}, "p=4, m=16": {"p": 4, "m": 16}}

_kept = with_defaults(
    seeds=range(2), unit="B", scale="ratio", larger=False, smallest={"p": 2, "m": 4}
)
_step = with_defaults(seeds=FRESH, unit="s", scale="ratio", larger=False, smallest={"p": 2, "m": 2})

CLAIMS = [
    Claim(
        id="11-as-one-process",
        sentence="GPipe, 1F1B, interleaved and zero-bubble give the losses and gradients of one "
        "process, to 1e-12 in float64.",
        experiment=as_one_process,
        seeds=range(3),
        settings={"p=4, m=8": {"p": 4, "m": 8}, "p=2, m=4": {"p": 2, "m": 4}},
        verdict="holds",
        margin=0.0,
        ours="schedules that do",
        rival="half",
        rival_share=0.5,
        unit="1",
        smallest={"p": 2, "m": 2},
    ),
    Claim(
        id="11-bubble",
        sentence="The idle share of paced ranks is (p − 1) / (m + p − 1), within 0.05, under GPipe "
        "as under 1F1B.",
        experiment=idle_and_formula,
        seeds=SEEDS,
        settings={
            "GPipe, p=4, m=8": {"name": "GPipe", "p": 4, "m": 8},
            "1F1B, p=4, m=8": {"name": "1F1B", "p": 4, "m": 8},
            "GPipe, p=2, m=4": {"name": "GPipe", "p": 2, "m": 4},
        },
        verdict="ties",
        margin=0.05,
        ours="recorded",
        rival="formula",
        unit="1",
        smallest={"p": 2, "m": 2},
    ),
    _kept(
        id="11-one-by-one-keeps-less",
        sentence="1F1B keeps fewer bytes for backward passes than GPipe.",
        experiment=functools.partial(two_memories, ours="1F1B", rival="GPipe"),
        settings=KEPT,
        verdict="holds",
        margin=0.1,
        ours="1F1B",
        rival="GPipe",
    ),
    _kept(
        id="11-recompute",
        sentence="GPipe with recomputation keeps fewer bytes than 1F1B without.",
        experiment=functools.partial(two_memories, ours="GPipe", rival="1F1B", again=True),
        settings=KEPT,
        verdict="holds",
        margin=0.1,
        ours="GPipe, recomputed",
        rival="1F1B",
        axis="m",
    ),
    _step(
        id="11-interleaved",
        sentence="A step is shorter with two chunks on each rank than with one, under 1F1B.",
        experiment=functools.partial(two_times, ours="interleaved", rival="1F1B"),
        settings=TIMED,
        verdict="holds",
        margin=0.02,
        ours="interleaved",
        rival="1F1B",
    ),
    _step(
        id="11-zero-bubble",
        sentence="A step is shorter with the backward pass in two parts than under 1F1B.",
        experiment=functools.partial(two_times, ours="zero-bubble", rival="1F1B"),
        settings=TIMED,
        verdict="holds",
        margin=0.02,
        ours="zero-bubble",
        rival="1F1B",
    ),
    Claim(
        id="11-balance",
        sentence="Cut by dynamic programming, unequal layers make a dearest stage that is cheaper "
        "than with equal numbers of layers.",
        experiment=balanced_and_equal,
        seeds=range(10),
        settings={"16 layers, 4 stages": {"layers": 16, "p": 4},
                  "24 layers, 8 stages": {"layers": 24, "p": 8}},
        verdict="holds",
        margin=0.05,
        ours="balanced",
        rival="equal numbers",
        unit="1",
        scale="ratio",
        larger=False,
    ),
    Claim(
        id="11-no-stash",
        sentence="Without stashing PipeDream follows the gradient of no model that can be put "
        "together from versions of its stages' weights.",
        experiment=functools.partial(of_no_model, stash=False),
        seeds=FRESH,
        settings={"6 batches": {"m": 6}, "4 batches": {"m": 4}},
        verdict="holds",
        margin=0.0,
        ours="runs where it differs from all",
        rival="half",
        rival_share=0.5,
        unit="1",
        smallest={"m": 4},
    ),
    Claim(
        id="11-stash",
        sentence="With stashing it is the gradient of such a model, to 1e-12.",
        experiment=functools.partial(nearest_model, stash=True),
        seeds=SEEDS,
        settings={"6 batches": {"m": 6}, "4 batches": {"m": 4}},
        verdict="ties",
        margin=1e-12,
        ours="the nearest model's distance",
        rival="none",
        unit="1",
        smallest={"m": 4},
    ),
]  # fmt: skip
