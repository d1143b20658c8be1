"""What notebook 12 concludes: what compression costs in steps, who waits, what a batch is worth."""

from __future__ import annotations

import functools

from helpers.claims import Claim, with_defaults
from helpers.claims.ranks import ranks

LIMIT = 120  # seconds for one call on the ranks


# The best of six rates (0.005 to 0.1) for each, by the mean accuracy of seeds 0 to 3
RATES = {
    "float32": 0.02, "QSGD, s = 15": 0.02, "QSGD, s = 7": 0.02, "QSGD, s = 1": 0.01,
    "top 0.01": 0.035, "top 0.01, feedback": 0.035,
    "top 0.001": 0.05, "top 0.001, feedback": 0.02,
}  # fmt: skip


def by_name(seed: int, ours: str, rival: str, steps: int = 120) -> tuple[float, float]:
    """Accuracy after as many steps of two compressors, each at its best rate."""
    return _trained(ours, steps, seed), _trained(rival, steps, seed)


@functools.cache
def _trained(name: str, steps: int, seed: int) -> float:
    return ranks().run(_accuracy, name, steps, seed, RATES[name], timeout=LIMIT)[0]


def _accuracy(name: str, steps: int, seed: int, rate: float):
    from helpers.data_parallel import tasks
    from helpers.data_parallel.tasks import lenet, links

    settings = {"steps": steps, "batch": 8, "rate": rate, "momentum": 0.9, "seed": seed}
    comm = tasks.ranks()
    return lenet.train(lambda comm: links.scheme(name, comm), comm, **settings).accuracy


def trained_on(
    seed: int, task: str, rate: float, limit: int = 300, easy: bool = False
) -> tuple[float, float]:
    """Seconds to a target by PowerSGD and by float32: four paced hosts, 20 ms for a gradient."""
    from helpers.cluster import Network
    from helpers.data_parallel.tasks import links, text

    train, target = {
        "LeNet": (links.to_accuracy, 0.0 if easy else 0.85),
        "transformer": (text.to_loss, 99.0 if easy else 2.75),
    }[task]
    hosts = ranks(4, Network(4, rate=rate))
    how = {"limit": limit, "pace": 20e-3, "seed": seed, "timeout": 2 * LIMIT}
    seconds = []
    for name in ("PowerSGD, r = 2", "float32"):
        steps, took = hosts.run(train, name, target, **how)[0][:2]
        if steps is None:
            raise RuntimeError(f"{task} by {name} did not reach {target} in {limit} steps")
        seconds.append(took)
    return seconds[0], seconds[1]


def order_statistics(seed: int, backups: int, abandon: bool = True, steps: int = 60):
    """Seconds of a step with backup workers, measured, and by the order statistic."""
    from helpers.data_parallel.tasks import stragglers
    from helpers.data_parallel.theory.order_statistics import expected

    settings = {"least": 0.02, "mean": 0.06, "abandon": abandon, "steps": steps, "seed": seed}
    run = ranks().run(stragglers.backup, backups, timeout=LIMIT, **settings)[0]
    return run.seconds, expected(3 - backups, 3, 0.02, 0.06)


def real_backup(seed: int, neighbours: int, steps: int = 20) -> tuple[float, float]:
    """Seconds of a step with a backup worker and without, beside so many real processes.

    The two take turns three times: what else the machine does meets both.
    """
    from helpers.data_parallel.tasks import stragglers

    seconds = {1: 0.0, 0: 0.0}
    for turn in range(3):
        settings = {"neighbours": neighbours, "steps": steps, "seed": 3 * seed + turn}
        for b in seconds:
            run = ranks().run(stragglers.beside, b, timeout=LIMIT, **settings)[0]
            seconds[b] += run.seconds / 3
    return seconds[1], seconds[0]


def bias(seed: int, slow: float, steps: int = 120) -> tuple[float, float]:
    """Accuracy on the digits that only the slow worker has, with a backup and without."""
    from helpers.data_parallel.tasks import stragglers

    return tuple(
        ranks().run(stragglers.by_class, b, slow=slow, steps=steps, seed=seed, timeout=LIMIT)[0][0]
        for b in (1, 0)
    )


# The best of ten rates (0.0125 to 0.8) for each, by the mean accuracy of seeds 0 to 2
CURES = {"plain": 0.035, "constant": 0.1, "staleness": 0.14, "elastic": 0.1}


def cured(seed: int, ours: str, rival: str, share: float, gradients: int = 400):
    """Accuracy of two asynchronous ways after as many gradients, on eight ranks.

    Each has this share of its best rate.
    """
    from helpers.data_parallel.tasks import stragglers

    how = {"gradients": gradients, "seed": seed, "timeout": LIMIT}
    return tuple(
        ranks(8).run(stragglers.cure, kind, rate=share * CURES[kind], **how)[0][0]
        for kind in (ours, rival)
    )


def large(seed: int, task: str, ours: tuple, rival: tuple, epochs: float = 8):
    """Accuracy of two (batch, optimizer, rate, epochs of warm-up) after as many samples."""
    from helpers.data_parallel.large_batch import search

    made = search.TASKS[task]()
    return tuple(
        search.trained(made, batch, name, rate, epochs=epochs, seed=seed, warm_up=warm).accuracy
        for batch, name, rate, warm in (ours, rival)
    )


# SGD's best of nine rates at 64 samples, by the training loss (seed 0)
BASE = {"digits": 10**-1.5, "descriptions": 10**-0.5}


# A tenth of the best rate was added when the best rate had failed at k = 16: is it the rule, or the
# rate that k·λ comes to?
PARTS = (1, 10)


def by_factor(names: tuple[str, str], scaled: tuple[bool, bool], warm: int, parts: tuple) -> dict:
    """Settings for both tasks at k times 64 samples, by two optimizers at k times the rate or not.

    Each warms up for so many epochs, from the best rate or from a part of it.
    """
    found = {}
    for task, best in BASE.items():
        for part in parts:
            for k in (4, 16):
                ours, rival = (
                    (64 * k, name, best / part * (k if times else 1), warm)
                    for name, times in zip(names, scaled, strict=True)
                )
                setting = f"{task}, k = {k}" + (f", λ ÷ {part}" if part > 1 else "")
                found[setting] = {"task": task, "ours": ours, "rival": rival}
    return found


# The best rate of each at larger batches: its place among the nine of search.RATES
BEST = {
    ("digits", 1024): {"SGD": 2, "LARS": 3, "Adam": 3, "LAMB": 4},
    ("digits", 4096): {"SGD": 2, "LARS": 3, "Adam": 3, "LAMB": 4},
    ("descriptions", 1024): {"SGD": 4, "LARS": 4, "Adam": 5, "LAMB": 4},
    ("descriptions", 4096): {"SGD": 5, "LARS": 5, "Adam": 5, "LAMB": 5},
}


def tuned(ours: str, rival: str) -> dict:
    """Settings for both tasks: two optimizers at their best rates, without warm-up."""
    from helpers.data_parallel.large_batch.search import RATES

    found = {}
    for (task, batch), best in BEST.items():
        sides = [(batch, name, RATES[name][best[name]], 0) for name in (ours, rival)]
        samples = "all samples" if batch == 4096 else f"{batch} samples"
        found[f"{task}, {samples}"] = {"task": task, "ours": sides[0], "rival": sides[1]}
    return found


SHORT = {"steps": 3}
FIVE, EIGHT = range(5), range(1, 9)  # seed 0 chose the rates of large batches
BRIEF = {"epochs": 1}


def _cures(ours: str, rival: str) -> dict[str, dict]:
    rates = {"each at its best rate": 1.0, "at half of it": 0.5}
    return {name: {"ours": ours, "rival": rival, "share": share} for name, share in rates.items()}


_cure = with_defaults(
    seeds=range(3, 13), axis="the rate", unit="accuracy", smallest={"gradients": 8}
)
OTHERS = range(4, 12)  # seeds that chose no rate

CLAIMS = [
    Claim(
        id="12-feedback-at-best",
        sentence="Without error feedback top-k is less accurate after 120 steps, each at its best "
        "rate.",
        experiment=by_name,
        seeds=OTHERS,
        settings={
            f"top {share}": {"ours": f"top {share}", "rival": f"top {share}, feedback"}
            for share in ("0.01", "0.001")
        },
        verdict="open",
        margin=0.05,
        larger=False,
        ours="without",
        rival="with feedback",
        unit="accuracy",
        smallest=SHORT,
    ),
    Claim(
        id="12-quantised-at-best",
        sentence="Quantised gradients train as well as exact ones in 120 steps, each at its best "
        "rate.",
        experiment=by_name,
        seeds=OTHERS,
        settings={
            f"s = {s}": {"ours": f"QSGD, s = {s}", "rival": "float32"} for s in ("15", "7", "1")
        },
        verdict="depends on the levels",
        margin=0.03,
        larger=True,
        axis="the levels",
        ours="QSGD",
        rival="float32",
        unit="accuracy",
        smallest=SHORT,
    ),
    Claim(
        id="12-link-training",
        sentence="PowerSGD trains to the target in less than half the seconds of float32.",
        experiment=trained_on,
        seeds=FIVE,
        settings={
            f"{link}, {task}": {"task": task, "rate": rate}
            for link, rate in (("10 Mbit/s", 10e6), ("1 Gbit/s", 1e9))
            for task in ("LeNet", "transformer")
        },
        verdict="depends on the link",
        margin=1.0,
        scale="ratio",
        larger=False,
        axis="the link",
        ours="PowerSGD",
        rival="float32",
        unit="s",
        smallest={"limit": 10, "easy": True},
    ),
    Claim(
        id="12-order-statistics",
        sentence="A step with backup workers takes longer than the order statistic says.",
        experiment=order_statistics,
        seeds=FIVE,
        settings={
            "b = 1, late ones drop theirs": {"backups": 1},
            "b = 1, late ones finish": {"backups": 1, "abandon": False},
            "b = 2, late ones finish": {"backups": 2, "abandon": False},
        },
        verdict="depends on what late workers do",
        margin=0.15,
        scale="ratio",
        axis="what late workers do",
        ours="measured",
        rival="predicted",
        unit="s",
        smallest={"steps": 4},
    ),
    Claim(
        id="12-real-backup",
        sentence="Where real processes share one worker's core, a backup worker makes steps "
        "shorter.",
        experiment=real_backup,
        seeds=FIVE,
        settings={"three processes": {"neighbours": 3}, "six processes": {"neighbours": 6}},
        verdict="holds",
        margin=0.1,
        scale="ratio",
        larger=False,
        ours="b = 1",
        rival="b = 0",
        unit="s",
        smallest={"neighbours": 1, "steps": 2},
    ),
    Claim(
        id="12-backup-bias",
        sentence="Where a slow worker's gradients are dropped, the model is less accurate on the "
        "digits that only this worker has.",
        experiment=bias,
        seeds=FIVE,
        settings={"6 times slower": {"slow": 0.06}, "3 times slower": {"slow": 0.03}},
        verdict="holds",
        margin=0.05,
        larger=False,
        axis="the slowness",
        ours="b = 1",
        rival="b = 0",
        unit="accuracy",
        smallest=SHORT,
    ),
    _cure(
        id="12-staleness-at-best",
        sentence="Dividing the rate by each gradient's staleness is better than dividing every "
        "rate by the mean staleness.",
        experiment=cured,
        margin=0.03,
        settings=_cures("staleness", "constant"),
        verdict="open",
        ours="λ ÷ τ",
        rival="λ ÷ mean τ",
    ),
    _cure(
        id="12-elastic-at-best",
        sentence="Elastic averaging is more accurate than pushing each gradient, after as many "
        "gradients.",
        experiment=cured,
        margin=0.03,
        settings=_cures("elastic", "plain"),
        verdict="depends on the rate",
        ours="elastic",
        rival="plain",
    ),
    Claim(
        id="12-linear-rule",
        sentence="With k times the batch, k times the rate (after an epoch of warm-up) is more "
        "accurate after eight epochs than the old rate.",
        experiment=large,
        seeds=EIGHT,
        settings=by_factor(("SGD", "SGD"), (True, False), 1, PARTS),
        verdict="depends on task, k and rate",
        margin=0.02,
        axis="task, k and rate",
        ours="k·λ",
        rival="λ",
        unit="accuracy",
        smallest=BRIEF,
    ),
    Claim(
        id="12-momentum-correction",
        sentence="While the rate rises to k times, corrected momentum makes training more accurate "
        "than momentum that keeps the old rate in it.",
        experiment=large,
        seeds=EIGHT,
        settings=by_factor(("SGD, corrected", "SGD, rate in the momentum"), (True, True), 2, (1,)),
        verdict="open",
        margin=0.02,
        axis="task and k",
        ours="corrected",
        rival="not corrected",
        unit="accuracy",
        smallest=BRIEF,
    ),
    Claim(
        id="12-lars",
        sentence="At its best rate LARS is more accurate than SGD at its own, after eight epochs.",
        experiment=large,
        seeds=EIGHT,
        settings=tuned("LARS", "SGD"),
        verdict="depends on task and batch",
        margin=0.02,
        axis="task and batch",
        ours="LARS",
        rival="SGD",
        unit="accuracy",
        smallest=BRIEF,
    ),
    Claim(
        id="12-lamb",
        sentence="At its best rate LAMB is more accurate than Adam at its own, after eight epochs.",
        experiment=large,
        seeds=EIGHT,
        settings=tuned("LAMB", "Adam"),
        verdict="fails",
        margin=0.02,
        axis="task and batch",
        ours="LAMB",
        rival="Adam",
        unit="accuracy",
        smallest=BRIEF,
    ),
]
