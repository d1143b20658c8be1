"""What notebook 02 concludes: what an update is worth, what asynchrony costs."""

from __future__ import annotations

import functools

from helpers.claims import Claim, Share
from helpers.claims.ranks import ranks

LIMIT = 120  # seconds for one call on the ranks
PLAIN = {"rate": 0.05, "momentum": 0.0}  # out of step
TAUGHT = {"rate": 0.02, "momentum": 0.9}  # in step


@functools.cache
def _trained(scheme: str, seed: int, steps: int, settings: tuple, options: tuple = ()):
    """The history of one training of LeNet by a scheme's name; "alone" is one process."""
    from helpers.data_parallel import runs, schemes

    given = {"steps": steps, "batch": 8, "seed": seed, **dict(settings)}
    if scheme == "alone":
        return ranks().run(runs.alone, timeout=LIMIT, **given)[0]
    made = getattr(schemes, scheme)
    made = functools.partial(made, **dict(options)) if options else made
    return ranks().run(runs.train, made, timeout=LIMIT, **given)[0]


def _history(scheme: str, seed: int, steps: int, options: tuple = (), **settings):
    return _trained(scheme, seed, steps, tuple(sorted(settings.items())), options)


# ---------------------------------------------------------------- gradients add; sum and mean


def rounding_only(seed: int, steps: int = 40, **settings) -> Share:
    """Whether four replicas of B end with the parameters of one process of 4·B."""
    import numpy as np

    four = _history("MPIAllreduce", seed, steps, **settings)
    one = ranks().run(
        _one_of_four_batches, timeout=LIMIT, steps=steps, batch=32, seed=seed, **settings
    )[0]
    return Share(int(np.abs(four.weights - one.weights).max() < 1e-4), 1)


def _one_of_four_batches(**settings):
    from helpers.data_parallel import runs

    return runs.alone(**settings)


def rounding_in_double(seed: int, steps: int = 40, **settings) -> Share:
    """The same with all numbers in double precision, to within 1e-12."""
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

    from helpers.data_parallel import Replica, runs, train
    from helpers.data_parallel.sampling import batches
    from helpers.data_parallel.scheme import Scheme
    from helpers.data_parallel.schemes import MPIAllreduce
    from helpers.models.lenet import LeNet

    rank, data = runs.world().Get_rank(), runs.digits()
    if rank >= n:
        return None
    made = MPIAllreduce(MPI.COMM_WORLD) if n > 1 else Scheme(MPI.COMM_SELF)
    model = LeNet(seed=seed + rank).double()
    optimizer = SGD(model.parameters(), lr=rate, momentum=momentum)
    images = data.train_images.astype("float64")
    mine = batches(images, data.train_labels, batch, rank, n, seed)
    return train(Replica(model, cross_entropy, optimizer), mine, made, steps=steps).weights


def parted_by_kinks(seed: int, rate: float, momentum: float, steps: int = 40) -> Share:
    """Whether the two stay within 1e-6 until a rectifier or a maximum decides differently."""
    import torch
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.sampling import batches
    from helpers.datasets import mnist
    from helpers.models.lenet import LeNet

    torch.set_num_threads(1)
    digits = mnist.load()
    data = digits.train_images, digits.train_labels
    nets = [LeNet(seed=seed) for _ in range(2)]
    sgds = [torch.optim.SGD(net.parameters(), lr=rate, momentum=momentum) for net in nets]
    four, farthest = [batches(*data, 8, part, 4, seed) for part in range(4)], 0.0
    for _ in range(steps):
        parts = [next(each) for each in four]
        x, y = (torch.cat(column) for column in zip(*parts, strict=True))
        one, other = (_decisions(net, x) for net in nets)
        if any(not a.equal(b) for a, b in zip(one, other, strict=True)):
            break
        for net, sgd, cut in zip(nets, sgds, (parts, [(x, y)]), strict=True):
            sgd.zero_grad()
            for images, labels in cut:
                (cross_entropy(net(images), labels) / len(cut)).backward()
            sgd.step()
        pairs = zip(*(net.parameters() for net in nets), strict=True)
        farthest = max(farthest, *((a - b).abs().max().item() for a, b in pairs))
    return Share(int(farthest < 1e-6), 1)


def _decisions(net, x) -> list:
    """What LeNet's rectifiers and maxima decide: which are on, and which of four numbers is it."""
    import torch
    from torch.nn.functional import max_pool2d, relu

    found = []
    with torch.no_grad():
        for layer in (net.first, net.second):
            x, places = max_pool2d(relu(layer(x)), 2, return_indices=True)
            found.append(torch.where(x > 0, places, -1))  # where all four are off, none counts
        x = x.flatten(1)
        for layer in (net.third, net.fourth):
            x = relu(layer(x))
            found.append(x > 0)
    return found


def _add_up(model) -> None:
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def sum_against_mean(seed: int, of_sum: float, steps: int = 100) -> tuple[float, float]:
    """Accuracy with the gradients' sum at a rate, and with their mean at 0.05."""
    options = (("function", _add_up),)
    summed = _history("ByFunction", seed, steps, options, rate=of_sum, momentum=0.9)
    mean = _history("MPIAllreduce", seed, steps, rate=0.05, momentum=0.9)
    return summed.accuracy, mean.accuracy


def same_data(seed: int, steps: int = 375, **settings) -> tuple[float, float]:
    """Accuracy when all ranks see the same batches, and when each has a part of its own."""
    same = _history("MPIAllreduce", seed, steps, divide=False, **settings)
    return same.accuracy, _history("MPIAllreduce", seed, steps, **settings).accuracy


# --------------------------------------------- what an update is worth: rate, batch, staleness


def _loss(history, updates: int = 200, gradients: int = 60) -> float:
    """The mean loss of the last gradients before an update."""
    each = max(1, round(history.gradients / history.updates))
    return float(history.smooth(max(1, gradients // each))[min(updates, history.updates) - 1])


def loss_by(seed: int, ours: tuple, rival: tuple, steps: int = 200) -> tuple[float, float]:
    """The loss after as many updates of two (scheme, settings)."""
    return tuple(_loss(_history(name, seed, steps, **dict(how))) for name, how in (ours, rival))


def accuracy_by(seed: int, ours: tuple, rival: tuple, gradients: int = 1500):
    """The accuracy after as many gradients of two (scheme, settings)."""
    found = []
    for name, how in (ours, rival):
        steps = gradients // 4 if name == "MPIAllreduce" else gradients
        found.append(_history(name, seed, steps, **dict(how)).accuracy)
    return tuple(found)


def _how(rate: float, momentum: float) -> dict:
    return {"rate": rate, "momentum": momentum}


def aware(seed: int, rate: float, steps: int = 500) -> tuple[float, float]:
    """Accuracy with the rate divided by the staleness, and with the rate as it is."""
    return tuple(
        _history(name, seed, steps, rate=rate, momentum=0.0).accuracy
        for name in ("StalenessAware", "Asynchronous")
    )


# --------------------------------------------------------------------- speed, stragglers, faults


class _Slow(dict):
    """{3: factor}, hashable, so that a run with it can be told from another."""

    def __init__(self, factor: float = 1.0):
        super().__init__({3: factor})

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self[3])


def staleness_of_the_slow(seed: int, factor: float, updates: int = 150) -> tuple[float, float]:
    """Mean staleness of rank 3's gradients and of the others', rank 3 slower by a factor."""
    import numpy as np

    history = _history("Asynchronous", seed, updates, slow=_Slow(factor), **PLAIN)
    stale, slow = np.array(history.staleness), np.array(history.workers) == 3
    return float(stale[slow].mean()), float(stale[~slow].mean())


def mean_staleness(seed: int, factor: float, updates: int = 150) -> tuple[float, float]:
    """The mean staleness of all gradients against W − 1 = 2."""
    history = _history("Asynchronous", seed, updates, slow=_Slow(factor), **PLAIN)
    return sum(history.staleness) / len(history.staleness), 2.0


def mixed(seed: int, same_source: bool, gradients: int = 20) -> Share:
    """How many gradients of three workers hold layers of more than one of them."""
    count = ranks().run(_mix, same_source, gradients, timeout=LIMIT)[0]
    return Share(count, 3 * gradients)


def _mix(same_source: bool, gradients: int) -> int:
    """On every rank: workers push four layers of their own number; the server counts mixtures."""
    import time

    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    workers, layer = comm.size - 1, np.zeros(2)
    if comm.rank:
        for _ in range(4 * gradients):
            comm.Send(np.full(2, float(comm.rank)), dest=0)
            time.sleep(0.001)  # the backward pass of one layer
        return 0
    found, status = 0, MPI.Status()
    for _ in range(workers * gradients):
        sources = set()
        for number in range(4):
            known = same_source and number
            comm.Recv(layer, status.Get_source() if known else MPI.ANY_SOURCE, 0, status)
            sources.add(layer[0])
        found += len(sources) > 1
    return found


FEW, MANY, TIMED = range(5), range(12), range(4)
SHORT = {"steps": 2}
COUNTED: dict = {
    "ours": "runs that do",
    "rival": "half of them",
    "rival_share": 0.5,
    "unit": "1",
    "smallest": SHORT,
}


@functools.cache
def _alone(seed: int, rate: float, batches: int, pace: float, cores: int) -> float:
    """Seconds of one paced rank, on the hosts on which others will work beside it."""
    return _paced(1, rate, batches, pace, cores)


def _paced(n: int, rate: float, batches: int, pace: float, cores: int) -> float:
    from helpers.cluster import Network

    hosts = ranks(8, Network(8, rate=rate))
    return hosts.run(_on_cores, n, batches, pace, cores, timeout=LIMIT)[0]


def _on_cores(n: int, batches: int, pace: float, cores: int) -> float | None:
    """On every rank: the seconds, with its main thread on so many of the cores; 0 for all."""
    import os

    from helpers.data_parallel import curve_runs

    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[: cores or None])
    try:
        return curve_runs.speed(n, batches, pace, repeats=1)
    finally:
        os.sched_setaffinity(0, before)


def _sync(n: int, rate: float) -> float:
    """Seconds of an average over n replicas, by bytes and rate."""
    from helpers.cluster import Network
    from helpers.data_parallel import local_runs

    return local_runs.link_time(16_401, n, Network(8, rate=rate).payload)


def speed_on_links(
    seed: int, n: int, rate: float, batches: int = 40, pace: float = 10e-3
) -> tuple[float, float]:
    """How many times faster n paced replicas are than one: measured, and by R / (1 + ratio)."""
    how = rate, batches, pace, 0
    return _alone(seed, *how) / _paced(n, *how), n / (1 + _sync(n, rate) / pace)


def step_on_cores(seed: int, rate: float, n: int = 8, batches: int = 80) -> tuple[float, float]:
    """Seconds of a step of 40 ms with its average, all replicas on one core, and on two."""
    order = (1, 2) if seed % 2 else (2, 1)
    took = {cores: n * _paced(n, rate, batches, 40e-3, cores) / batches for cores in order}
    return took[1], took[2]


CLAIMS = [
    Claim(
        id="02-one-larger-batch",
        sentence="Four replicas that average gradients end with the parameters of one process with "
        "four times the batch, to within 1e-4.",
        experiment=rounding_only,
        seeds=range(8),
        settings={"λ = 0.02, μ = 0.9": TAUGHT, "λ = 0.05, μ = 0": PLAIN},
        verdict="depends on the processor",
        margin=0.0,
        **COUNTED,
    ),
    Claim(
        id="02-one-larger-batch-double",
        sentence="In double precision they do to within 1e-12.",
        experiment=rounding_in_double,
        seeds=range(8),
        settings={"λ = 0.02, μ = 0.9": TAUGHT, "λ = 0.05, μ = 0": PLAIN},
        verdict="holds",
        margin=0.0,
        **COUNTED,
    ),
    Claim(
        id="02-kinks",
        sentence="As long as every rectifier and every maximum decides alike in both, they do to "
        "within 1e-6.",
        experiment=parted_by_kinks,
        seeds=range(16),
        settings={"λ = 0.02, μ = 0.9": TAUGHT, "λ = 0.05, μ = 0": PLAIN},
        verdict="holds",
        margin=0.0,
        **COUNTED,
    ),
    Claim(
        id="02-sum-for-mean",
        sentence="With the sum of the gradients in place of their mean nothing is learned.",
        experiment=sum_against_mean,
        seeds=FEW,
        settings={"the same rate": {"of_sum": 0.05}, "a quarter of the rate": {"of_sum": 0.0125}},
        verdict="depends on the rate",
        margin=0.05,
        larger=False,
        axis="the rate",
        ours="sum",
        rival="mean",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="02-same-data",
        sentence="When all ranks see the same batches, four replicas learn less.",
        experiment=same_data,
        seeds=FEW,
        settings={"λ = 0.02, μ = 0.9": TAUGHT, "λ = 0.005, μ = 0.9": _how(0.005, 0.9)},
        verdict="holds",
        margin=0.02,
        larger=False,
        axis="the rate",
        ours="the same batches",
        rival="a part each",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="02-one-process",
        sentence="One process with B = 8 is less accurate after 1500 gradients than four replicas "
        "with the same rate and momentum.",
        experiment=accuracy_by,
        seeds=FEW,
        settings={
            name: {"ours": ("alone", how), "rival": ("MPIAllreduce", how)}
            for name, how in (
                ("λ = 0.02, μ = 0.9", _how(0.02, 0.9)),
                ("λ = 0.005, μ = 0.9", _how(0.005, 0.9)),
            )
        },
        verdict="depends on the rate",
        margin=0.02,
        larger=False,
        axis="the rate",
        ours="one process",
        rival="four replicas",
        unit="1",
        smallest={"gradients": 8},
    ),
    Claim(
        id="02-batch",
        sentence="An update with the mean of four gradients is worth more than one with a single "
        "gradient (loss after 200 updates).",
        experiment=loss_by,
        seeds=FEW,
        settings={
            name: {"ours": ("MPIAllreduce", how), "rival": ("alone", how)}
            for name, how in (
                ("λ = 0.05, μ = 0", _how(0.05, 0.0)),
                ("λ = 0.01, μ = 0.9", _how(0.01, 0.9)),
            )
        },
        verdict="holds",
        margin=0.05,
        larger=False,
        ours="4 replicas",
        rival="one process",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="02-rate",
        sentence="λ = 0.02, μ = 0.9 lowers the loss faster than λ = 0.05, μ = 0.",
        experiment=loss_by,
        seeds=FEW,
        settings={
            name: {"ours": (scheme, _how(0.02, 0.9)), "rival": (scheme, _how(0.05, 0.0))}
            for name, scheme in (("4 replicas", "MPIAllreduce"), ("one process", "alone"))
        },
        verdict="depends on the batch",
        margin=0.05,
        larger=False,
        axis="the batch",
        ours="λ = 0.02, μ = 0.9",
        rival="λ = 0.05, μ = 0",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="02-stale-update",
        sentence="A stale gradient is worth less than a fresh one: out of step the loss after 200 "
        "updates is higher than with one process.",
        experiment=loss_by,
        seeds=FEW,
        settings={
            name: {"ours": ("Asynchronous", how), "rival": ("alone", how)}
            for name, how in (
                ("λ = 0.05, μ = 0", _how(0.05, 0.0)),
                ("λ = 0.02, μ = 0", _how(0.02, 0.0)),
            )
        },
        verdict="depends on the rate",
        margin=0.05,
        axis="the rate",
        ours="out of step",
        rival="one process",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="02-async-with-momentum",
        sentence="With the settings of the run in step, training out of step is worse than one "
        "process with them (accuracy after 1500 gradients).",
        experiment=accuracy_by,
        seeds=MANY,
        settings={
            name: {"ours": ("Asynchronous", how), "rival": ("alone", how)}
            for name, how in (
                ("λ = 0.02, μ = 0.9", _how(0.02, 0.9)),
                ("λ = 0.005, μ = 0.9", _how(0.005, 0.9)),
            )
        },
        verdict="depends on the rate",
        margin=0.02,
        larger=False,
        axis="the rate",
        ours="out of step",
        rival="one process",
        unit="1",
        smallest={"gradients": 8},
    ),
    Claim(
        id="02-staleness-aware",
        sentence="Dividing the rate by the staleness helps.",
        experiment=aware,
        seeds=FEW,
        settings={"λ = 0.05": {"rate": 0.05}, "λ = 0.2": {"rate": 0.2}},
        verdict="open",
        margin=0.02,
        axis="the rate",
        ours="λ ÷ τ",
        rival="λ",
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="02-slow-is-stale",
        sentence="What the slow rank contributes is older.",
        experiment=staleness_of_the_slow,
        seeds=FEW,
        settings={"4 times slower": {"factor": 4.0}, "8 times slower": {"factor": 8.0}},
        verdict="holds",
        margin=1.0,
        ours="rank 3",
        rival="the others",
        unit="updates",
        smallest={"updates": 30},
    ),
    Claim(
        id="02-mean-staleness",
        sentence="The mean staleness is W − 1, whether or not all workers are equally fast.",
        experiment=mean_staleness,
        seeds=FEW,
        settings={"equally fast": {"factor": 1.0}, "one 4 times slower": {"factor": 4.0}},
        verdict="ties",
        margin=0.2,
        ours="measured",
        rival="W − 1",
        unit="updates",
        smallest={"updates": 12},
    ),
    Claim(
        id="02-mixed-layers",
        sentence="Layers of different workers mix when each is received from anyone.",
        experiment=mixed,
        seeds=range(3),
        settings={
            "each layer from anyone": {"same_source": False},
            "the rest from the first's source": {"same_source": True},
        },
        verdict="depends on the receive",
        margin=0.0,
        axis="the receive",
        ours="mixed gradients",
        rival="half of them",
        rival_share=0.5,
        unit="1",
        smallest={"gradients": 2},
    ),
    Claim(
        id="02-link-speed",
        sentence="Paced replicas on a link speed up as the inequality's two times say.",
        experiment=speed_on_links,
        seeds=range(5),
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
        unit="1",
        smallest={"batches": 8},
    ),
    Claim(
        id="02-link-cores",
        sentence="A step of eight paced replicas takes longer on one core than on two.",
        experiment=step_on_cores,
        seeds=range(5),
        settings={"100 Mbit/s": {"rate": 100e6}, "1 Gbit/s": {"rate": 1e9}},
        verdict="holds",
        margin=2e-3,
        ours="one core",
        rival="two cores",
        unit="s",
        smallest={"batches": 8},
    ),
]
