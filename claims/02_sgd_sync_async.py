"""What notebook 02 concludes: replicas as one process, when they pay, what asynchrony costs."""

from __future__ import annotations

import functools

from helpers.claims import Claim
from helpers.claims.ranks import ranks

LIMIT = 120  # seconds for one call on the ranks
DIVERGED = 2.5  # a loss that is larger (guessing has 2.3), or no number


@functools.cache
def _trained(scheme: str, seed: int, steps: int, settings: tuple):
    """The history of one training of LeNet by a scheme's name; "alone" is one process."""
    from helpers.data_parallel import schemes
    from helpers.data_parallel.tasks import lenet

    given = {"steps": steps, "batch": 8, "seed": seed, **dict(settings)}
    if scheme == "alone":
        return ranks().run(lenet.alone, timeout=LIMIT, **given)[0]
    return ranks().run(lenet.train, getattr(schemes, scheme), timeout=LIMIT, **given)[0]


def _history(scheme: str, seed: int, steps: int, **settings):
    return _trained(scheme, seed, steps, tuple(sorted(settings.items())))


# ------------------------------------------------------------------------- rates


def one_process(seed: int, rate: float, gradients: int) -> tuple[float, float]:
    """Accuracy after as many gradients, of one process and of four replicas at one rate."""
    how = {"rate": rate, "momentum": 0.9}
    return tuple(
        _history(name, seed, steps, **how).accuracy
        for name, steps in (("alone", gradients), ("MPIAllreduce", gradients // 4))
    )


# ------------------------------------------------------------------------------- asynchrony


def stale_update(seed: int, rate: float, updates: int, steps: int = 400) -> tuple[float, float]:
    """The loss after as many of the updates of a run: asynchronous, and of one process."""
    runs = (
        _history(name, seed, steps, rate=rate, momentum=0.0) for name in ("Asynchronous", "alone")
    )
    losses = (float(run.smooth(60)[min(updates, steps) - 1]) for run in runs)
    return tuple(min(loss, DIVERGED) if loss == loss else DIVERGED for loss in losses)


# ------------------------------------------------------------------------------------ links


@functools.cache
def _alone(seed: int, rate: float, batches: int, pace: float) -> float:
    """Seconds of one paced rank, on the hosts on which others will work beside it."""
    return _paced(1, rate, batches, pace)


def _paced(n: int, rate: float, batches: int, pace: float) -> float:
    from helpers.cluster import Network
    from helpers.data_parallel.tasks import curve

    hosts = ranks(8, Network(8, rate=rate))
    return hosts.run(curve.speed, n, batches, pace, repeats=1, timeout=LIMIT)[0]


def speed_on_links(
    seed: int, n: int, rate: float, batches: int = 40, pace: float = 10e-3
) -> tuple[float, float]:
    """How many times faster n paced replicas are than one: measured, and by R / (1 + ratio)."""
    from helpers.cluster import Network
    from helpers.data_parallel.theory import time_model

    sync = time_model.link_time(16_401, n, Network(8, rate=rate).payload)
    how = rate, batches, pace
    return _alone(seed, *how) / _paced(n, *how), n / (1 + sync / pace)


FEW = range(5)
EIGHT = range(8)

CLAIMS = [
    Claim(
        id="02-own-best-rate",
        sentence="After as many gradients, one process with B = 8 is more accurate than four "
        "replicas, each at its best rate.",
        experiment=one_process,
        seeds=EIGHT,
        settings={f"{n} gradients": {"gradients": n} for n in (600, 1200)},
        grid=(0.0025, 0.005, 0.01, 0.02, 0.04, 0.08),
        least=False,
        verdict="open",
        margin=0.02,
        axis="the gradients",
        ours="one process",
        rival="four replicas",
        unit="accuracy",
        smallest={"gradients": 8},
    ),
    Claim(
        id="02-stale-best-rate",
        sentence="After as many updates, the asynchronous loss is higher than that of one "
        "process, each at its best rate.",
        experiment=stale_update,
        seeds=EIGHT,
        settings={f"{n} updates": {"updates": n} for n in (200, 400)},
        grid=(0.0125, 0.025, 0.05, 0.1, 0.2),
        verdict="holds",
        margin=0.05,
        axis="the updates",
        ours="asynchronous",
        rival="one process",
        unit="loss",
        smallest={"steps": 2},
    ),
    Claim(
        id="02-link-speed",
        sentence="The speed-up of paced replicas on a link is the one predicted from T_sync and "
        "T_comp.",
        experiment=speed_on_links,
        seeds=FEW,
        settings={
            f"{n} replicas, {name}": {"n": n, "rate": rate}
            for n in (2, 4, 8)
            for name, rate in (("10 Mbit/s", 10e6), ("100 Mbit/s", 100e6), ("1 Gbit/s", 1e9))
        }
        | {
            f"8 replicas, {name}, 80 ms": {"n": 8, "rate": rate, "pace": 80e-3}
            for name, rate in (("100 Mbit/s", 100e6), ("1 Gbit/s", 1e9))
        },
        verdict="depends on replicas, link and pace",
        margin=0.15,
        scale="ratio",
        axis="replicas, link and pace",
        ours="measured",
        rival="predicted",
        unit="speed-up",
        smallest={"batches": 8},
    ),
]
