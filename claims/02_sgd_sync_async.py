"""What notebook 02 concludes: replicas as one process, when they pay, what asynchrony costs."""

from __future__ import annotations

import functools

from helpers.claims import Claim, Share
from helpers.claims.ranks import ranks

LIMIT = 120  # seconds for one call on the ranks
PLAIN = {"rate": 0.05, "momentum": 0.0}
WITH_MOMENTUM = {"rate": 0.02, "momentum": 0.9}


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


# ------------------------------------------------------------------------- replicas as one process


def rounding_in_double(seed: int, steps: int = 40, **settings) -> Share:
    """Whether four replicas of B end with the parameters of one process of 4·B, to 1e-12."""
    import numpy as np

    given = {"steps": steps, "seed": seed, **settings}
    four, one = (
        ranks().run(_in_double, n, timeout=LIMIT, batch=32 // n, **given)[0] for n in (4, 1)
    )
    return Share(int(np.abs(four - one).max() < 1e-12), 1)


def _in_double(n: int, batch: int, steps: int, seed: int, rate: float, momentum: float):
    """On every rank: the parameters after a training of the first n, in double precision."""
    from mpi4py import MPI
    from torch.nn.functional import cross_entropy
    from torch.optim import SGD

    from helpers.data_parallel import Replica, train
    from helpers.data_parallel.scheme import Scheme
    from helpers.data_parallel.schemes import MPIAllreduce
    from helpers.data_parallel.tasks import init_distributed, lenet
    from helpers.data_parallel.tasks.sampling import batches
    from helpers.models.lenet import LeNet

    rank, data = init_distributed().Get_rank(), lenet.digits()
    if rank >= n:
        return None
    made = MPIAllreduce(MPI.COMM_WORLD) if n > 1 else Scheme(MPI.COMM_SELF)
    model = LeNet(seed=seed + rank).double()
    optimizer = SGD(model.parameters(), lr=rate, momentum=momentum)
    images = data.train_images.astype("float64")
    mine = batches(images, data.train_labels, batch, rank, n, seed)
    return train(Replica(model, cross_entropy, optimizer), mine, made, steps=steps).weights


def one_process(
    seed: int, rate: float, replicas: float, gradients: int = 1500
) -> tuple[float, float]:
    """Accuracy after as many gradients: of one process at a rate, of four replicas at theirs."""
    one = _history("alone", seed, gradients, rate=rate, momentum=0.9)
    four = _history("MPIAllreduce", seed, gradients // 4, rate=replicas, momentum=0.9)
    return one.accuracy, four.accuracy


# ------------------------------------------------------------------------------- asynchrony


def stale_update(seed: int, rate: float, steps: int = 200) -> tuple[float, float]:
    """The loss after as many updates: asynchronous, and of one process."""
    return tuple(
        float(_history(name, seed, steps, rate=rate, momentum=0.0).smooth(60)[-1])
        for name in ("Asynchronous", "alone")
    )


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
# Seeds 0 to 2 chose the best of five rates: 0.0025 to 0.04 with momentum, 0.01 to 0.2 without.
OTHERS = range(3, 8)

CLAIMS = [
    Claim(
        id="02-one-larger-batch-double",
        sentence="In double precision, four replicas that average gradients end within 1e-12 of "
        "one process with four times the batch.",
        experiment=rounding_in_double,
        seeds=range(8),
        settings={"λ = 0.02, μ = 0.9": WITH_MOMENTUM, "λ = 0.05, μ = 0": PLAIN},
        verdict="holds",
        margin=0.0,
        ours="runs within 1e-12",
        rival="half of them",
        rival_share=0.5,
        unit="1",
        smallest={"steps": 2},
    ),
    Claim(
        id="02-own-rate",
        sentence="One process with B = 8 is less accurate after 1500 gradients than four replicas.",
        experiment=one_process,
        seeds=OTHERS,
        settings={
            "both at 0.02": {"rate": 0.02, "replicas": 0.02},
            "each at its best rate": {"rate": 0.005, "replicas": 0.02},
        },
        verdict="depends on the rates",
        margin=0.02,
        larger=False,
        axis="the rates",
        ours="one process",
        rival="four replicas",
        unit="accuracy",
        smallest={"gradients": 8},
    ),
    Claim(
        id="02-stale-update",
        sentence="A stale gradient is worth less than a fresh one: after 200 updates the "
        "asynchronous loss is higher than that of one process.",
        experiment=stale_update,
        seeds=OTHERS,
        settings={"λ = 0.05, μ = 0": {"rate": 0.05}, "λ = 0.02, μ = 0": {"rate": 0.02}},
        verdict="depends on the rate",
        margin=0.05,
        axis="the rate",
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
