"""What notebook 10 concludes: how far replicas drift, what talking less costs, what threads do."""

from __future__ import annotations

import functools

from helpers.claims import Claim, with_defaults
from helpers.claims.ranks import ranks

LIMIT = 300  # seconds for one call on the ranks
NEVER = 0
MOST = 300  # epochs at most, for the curve


def _scheme(name: str, options: tuple):
    from helpers.data_parallel import schemes
    from helpers.data_parallel.schemes.averaged import patient_average

    waits = {} if name in ("Ring", "Gossip") else {"average": patient_average}
    return functools.partial(getattr(schemes, name), **waits, **dict(options))


# ------------------------------------------------------------------------- the source's curve


@functools.cache
def _fitted(name: str, options: tuple, seed: int, most: int, rate: float) -> tuple[float, float]:
    """Epochs to a loss of 0.05 (``most`` if it was never reached), and the loss on other points."""
    from helpers.data_parallel.tasks import curve

    settings = {"seed": seed, "most": most, "rate": rate}
    run = ranks().run(curve.fit, _scheme(name, options), timeout=LIMIT, **settings)[0]
    return min(run.epochs, float(most)), run.loss


def _gradients(every: int) -> tuple:
    """The source averages parameters every 200 of 4 000 to 8 000 epochs; every 5 of ours."""
    return "SometimesAveraged", (("gradients", every), ("parameters", 20))


def epochs_by(seed: int, rate: float, every: int, most: int = MOST) -> tuple[float, float]:
    """Epochs to the loss with gradients averaged now and then, and in every step."""
    now_and_then, always = (
        _fitted(*_gradients(interval), seed, most, rate)[0] for interval in (every, 1)
    )
    return now_and_then, always


# ------------------------------------------------------------------------------------- digits


@functools.cache
def _digits(name: str, options: tuple, seed: int, steps: int, follow: int, more: tuple):
    """Accuracy, test loss, and the consensus distance before the scheme acts, at each look."""
    import numpy as np

    from helpers.data_parallel.tasks import perceptron
    from helpers.data_parallel.theory.drift import consensus

    settings = {"seed": seed, "steps": steps, "follow": follow, **dict(more)}
    runs = ranks().run(perceptron.train, _scheme(name, options), timeout=LIMIT, **settings)
    apart = consensus(np.array([run.path.before for run in runs]))
    return runs[0].accuracy, runs[0].loss, apart, runs[0].history.weights


def _local(period: int, seed: int, steps: int = 160, follow: int = 8, **more):
    options = (("period", period),)
    return _digits("LocalSGD", options, seed, steps, follow, tuple(sorted(more.items())))


def apart_by_data(seed: int, period: int, steps: int = 128) -> tuple[float, float]:
    """Mean consensus distance along the last half of training: data sorted by class, and alike."""
    sorted_, alike = (
        _local(period, seed, steps, 8, sorted_share=share)[2][-steps // 16 :].mean()
        for share in (1.0, 0.0)
    )
    return float(sorted_), float(alike)


def apart_as_predicted(seed: int, way: str, steps: int = 128) -> tuple[float, float]:
    """Ξ measured, and predicted from the noise of the gradients at the end of the run."""
    import numpy as np

    from helpers.data_parallel.schemes.gossip import mixing
    from helpers.data_parallel.tasks.perceptron import noise
    from helpers.data_parallel.theory import drift

    if way == "gossip":
        _, _, apart, weights = _digits("Gossip", (), seed, steps, 1, ())
        sigma2 = noise(weights, seed=seed)
        before = drift.by_gossip(mixing(4), 0.05, sigma2) + 0.05**2 * sigma2 * 3 / 4
        return float(np.mean(apart[-steps // 2 :])), before
    period = int(way)
    _, _, apart, weights = _local(period, seed, steps, 8)
    sigma2 = noise(weights, seed=seed)
    found = [apart[k] for k in range(1, len(apart)) if 8 * k % period == 0 and 8 * k > steps // 2]
    return float(np.mean(found)), drift.after_steps(period, 0.05, sigma2, 4)


def straight(seed: int, where: str, rate: float, steps: int = 128) -> tuple[float, float]:
    """How many times as large Ξ is before an average at H = 64 as at H = 8, and 8.

    With gradients taken at each replica's own place, or all at the replicas' mean.
    """
    import numpy as np

    scheme = {"own": "LocalSGD", "mean": "AtTheMean"}[where]
    found = {}
    for period in (8, 64):
        apart = _digits(scheme, (("period", period),), seed, steps, 8, (("rate", rate),))[2]
        looks = range(1, len(apart))
        kept = [apart[k] for k in looks if 8 * k % period == 0 and 8 * k > steps // 2]
        found[period] = float(np.mean(kept))
    return found[64] / found[8], 8.0


@functools.cache
def _losses(period: int, rate: float, sorted_share: float, seed: int, most: int):
    """Steps, and the mean network's loss on test digits after them."""
    from helpers.data_parallel.tasks import perceptron

    settings = {"seed": seed, "steps": most, "follow": 4, "sorted_share": sorted_share}
    scheme = _scheme("LocalSGD", (("period", period),))
    runs = ranks().run(perceptron.train, scheme, timeout=LIMIT, rate=rate, **settings)
    return perceptron.losses(runs)


def steps_needed(
    seed: int, rate: float, period: int, sorted_share: float, target: float = 0.5, most: int = 320
) -> tuple[float, float]:
    """Steps to a loss on test digits with H and with H = 1 (``most`` if it was never reached)."""
    found = []
    for H in (period, 1):
        pairs = zip(*_losses(H, rate, sorted_share, seed, most), strict=True)
        found.append(next((float(step) for step, loss in pairs if loss <= target), float(most)))
    return found[0], found[1]


def rare_with_momentum(
    seed: int, rate: float, momentum: float, period: int, steps: int
) -> tuple[float, float]:
    """Accuracy with H and with H = 1, at λ = (1 − μ) · ``rate``: then all μ make equal steps."""
    how = {"rate": rate * (1 - momentum), "momentum": momentum}
    return _local(period, seed, steps, **how)[0], _local(1, seed, steps, **how)[0]


def early(seed: int, rate: float, rival: str, steps: int) -> tuple[float, float]:
    """Loss on test digits with most averages in the first third, and with as many elsewhere."""
    return _planned("early", seed, steps, rate), _planned(rival, seed, steps, rate)


@functools.cache
def _planned(plan: str, seed: int, steps: int, rate: float) -> float:
    period = functools.partial({"early": _early, "late": _late, "even": _even}[plan], steps)
    more = (("rate", rate), ("sorted_share", 1.0))
    return _digits("LocalSGD", (("period", period),), seed, steps, 8, more)[1]


def _early(steps: int, made: int) -> int:
    """Each step in the first third, then every 16."""
    return 1 if made < steps // 3 else 16


def _late(steps: int, made: int) -> int:
    """Every 16 steps, and each step in the last third."""
    return 16 if made < 2 * steps // 3 else 1


def _even(steps: int, made: int) -> int:
    """Three averages in 8 steps, as many as the others."""
    return {0: 2, 2: 3, 5: 3}[made % 8]


# --------------------------------------------------------------------------------- what is timed


def crowded(seed: int, processes: int, batches: int = 80) -> tuple[float, float]:
    """Seconds of the same work: a thread for every core in each process, and one in each.

    They take turns three times, and the best of each counts.
    """
    from helpers.data_parallel.tasks import curve
    from helpers.machine import usable_cores

    found: dict[int, list[float]] = {max(2, usable_cores()): [], 1: []}
    for _ in range(3):
        for threads, taken in found.items():
            call = functools.partial(curve.crowd, threads, batches)
            taken.append(ranks(processes).run(call, timeout=LIMIT)[0])
    many, one = found.values()
    return min(many), min(one)


SHORT = {"steps": 16}
RATES = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
DATA = {
    f"{data}, H = {H}, loss {target}": {"sorted_share": share, "period": H, "target": target}
    for data, share, periods in (("alike", 0.0, (4,)), ("sorted", 1.0, (2, 4, 8)))
    for H in periods
    for target in (0.5, 0.4)
}
MOMENTUM = {
    f"μ = {momentum}, {said}, {steps} steps": {"momentum": momentum, "period": H, "steps": steps}
    for momentum in (0.0, 0.9)
    for said, H in (("H = 64", 64), ("one average at the end", NEVER))
    for steps in (128, 256)
}
ELSEWHERE = {
    f"{rival}, {steps} steps": {"rival": rival, "steps": steps}
    for rival in ("late", "even")
    for steps in (96, 192)
}
RARER = {
    "every 2": {"every": 2},
    "every 4": {"every": 4},
    "every 10": {"every": 10},
    "never": {"every": NEVER},
}
PERIODS = {"H = 8": {"period": 8}, "H = 64": {"period": 64}}

_searched = with_defaults(seeds=range(13), grid=RATES)
_drift = with_defaults(seeds=range(5), scale="ratio", unit="Ξ", axis="H", smallest=SHORT)


CLAIMS = [
    _searched(
        "10-rarer-best-rate",
        "The rarer gradients are averaged, the more epochs the curve needs to a loss of 0.05, each "
        "at its best rate.",
        epochs_by, RARER, "open", 0.1, "now and then", "every step",
        grid=(0.005, 0.01, 0.02, 0.03, 0.045), seeds=range(8), scale="ratio", unit="epochs",
        axis="the interval", smallest={"most": 2},
    ),
    _drift(
        "10-drift-predicted",
        "The noise of the gradients alone predicts how far replicas drift apart, to within a "
        "quarter.",
        apart_as_predicted,
        {"H = 8": {"way": "8"}, "H = 64": {"way": "64"}, "gossip on four": {"way": "gossip"}},
        "depends on the way", 0.25, "measured", "predicted", axis="the way",
        smallest={"steps": 128},
    ),
    _drift(
        "10-drift-curvature",
        "If replicas are alone eight times as long, Ξ becomes eight times as large: Ξ before an "
        "average at H = 64 is 8 times Ξ at H = 8, to within a quarter.",
        straight,
        {
            f"{said}, λ = {rate}": {"where": where, "rate": rate}
            for where, said in (("own", "own place"), ("mean", "the mean"))
            for rate in (0.05, 0.02)
        },
        "depends on where gradients are taken", 0.25, "Ξ at 64 ÷ at 8", "predicted",
        unit="1", axis="where gradients are taken", seeds=range(10), smallest={"steps": 128},
    ),
    _drift(
        "10-drift-data", "Replicas whose data are sorted by class drift further apart.",
        apart_by_data, PERIODS, "holds", 1.0, "sorted", "alike",
    ),
    _searched(
        "10-rare-best-rate",
        "Replicas that meet every H steps need more steps to a loss than those that meet in every "
        "step, each at its best rate.",
        steps_needed, DATA, "holds", 0.1, "H", "H = 1",
        scale="ratio", unit="steps", axis="data, H and loss", smallest={"most": 16},
    ),
    _searched(
        "10-rare-momentum",
        "Replicas that meet rarely are less accurate than those that meet in every step, each at "
        "its best rate.",
        rare_with_momentum, MOMENTUM, "depends on momentum and H", 0.02, "rarely", "H = 1",
        unit="accuracy", axis="momentum and H", larger=False, least=False, smallest=SHORT,
    ),
    _searched(
        "10-early-averages",
        "Averages in the first third of the steps lower the loss less than as many elsewhere.",
        early, ELSEWHERE, "depends on the steps", 0.05, "early", "elsewhere",
        unit="loss", axis="the steps", smallest=SHORT,
    ),
    Claim(
        id="10-threads",
        sentence="Processes with a thread for every core each are slower at the same work than "
        "processes with one thread each.",
        experiment=crowded,
        seeds=range(4),
        settings={"4 processes": {"processes": 4}, "8 processes": {"processes": 8}},
        verdict="holds",
        margin=0.1,
        scale="ratio",
        axis="the number of processes",
        ours="a thread a core",
        rival="one thread",
        unit="s",
        smallest={"batches": 8},
    ),
]  # fmt: skip
