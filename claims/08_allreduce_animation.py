"""What notebook 08 concludes: what an allreduce costs."""

from __future__ import annotations

import functools

from helpers.claims import Claim
from helpers.claims.ranks import ranks

LIMIT = 120  # seconds for one call on the ranks
ALL = ("chain", "tree", "recursive_doubling", "ring")


@functools.cache
def _times(seed: int, sizes: tuple, repeats: int, n: int = 4) -> dict:
    """Seconds of all algorithms and of MPI's own, in turns; of the fits made just before."""
    from helpers.collectives import cost, measure

    cluster = ranks()
    gamma = max(cluster.run(measure.addition, timeout=LIMIT))
    alone = cluster.run(measure.ping_pong, timeout=LIMIT)[0]
    together = cluster.run(measure.ring_steps, timeout=LIMIT)[0]
    names = [*ALL, "MPI_Allreduce"]
    found = cluster.run(measure.allreduce_times, names, list(sizes), repeats, n, timeout=LIMIT)[0]
    fits = {
        "ping-pong": cost.fit(alone, "ping-pong", gamma),
        "ring step": cost.fit(together, "ring step", gamma),
    }
    return {"seconds": found, "fits": fits}


SIZES = (1_024, 4_194_304)


def measured_and_predicted(
    seed: int, algorithm: str, nbytes: int, fit: str = "ring step", repeats: int = 9
) -> tuple[float, float]:
    """Seconds as measured, and by the model with one of the two fits."""
    from helpers.collectives import cost

    found = _times(seed, SIZES, repeats)
    guess = cost.allreduce(algorithm, 4, found["fits"][fit]).at(nbytes)
    return found["seconds"][algorithm][SIZES.index(nbytes)], guess


MB = 1_048_576
BETWEEN = ("tree", "recursive_doubling", "ring", "two_level")


@functools.cache
def _links(seed: int, rate: float) -> dict:
    """α and β between two of four hosts and within one, from ping-pongs just before."""
    from helpers.cluster import Network
    from helpers.collectives import cost, measure

    hosts = ranks(8, Network(4, rate=rate))
    wire = hosts.run(measure.ping_pong, measure.LINK_SIZES, 5, None, 2, timeout=LIMIT)[0]
    memory = hosts.run(measure.ping_pong, measure.SIZES, 5, timeout=LIMIT)[0]
    return {"between": cost.fit(wire), "inside": cost.fit(memory[1:])}


@functools.cache
def _on_hosts(
    seed: int,
    rate: float,
    nbytes: int,
    repeats: int,
    placement: str = "block",
) -> dict:
    """Seconds of the algorithms on four hosts with two ranks each, in turns."""
    from helpers.cluster import Network
    from helpers.collectives import measure

    hosts = ranks(8, Network(4, rate=rate, placement=placement))
    found = hosts.run(measure.allreduce_times, list(BETWEEN), [nbytes], repeats, timeout=LIMIT)[0]
    return {name: times[0] for name, times in found.items()}


def two_levels(seed: int, rate: float, nbytes: int, repeats: int = 5) -> tuple[float, float]:
    """Seconds by two levels, and by one ring through all ranks."""
    found = _on_hosts(seed, rate, nbytes, repeats)
    return found["two_level"], found["ring"]


def between_hosts(
    seed: int, algorithm: str, rate: float, nbytes: int, repeats: int = 5
) -> tuple[float, float]:
    """Seconds as measured, and by the schedule with α and β of a ping-pong."""
    from helpers.cluster import Network
    from helpers.collectives import placement

    places = Network(4, rate=rate).places(8)
    (said,) = placement.seconds(algorithm, [nbytes], places, **_links(seed, rate))
    return _on_hosts(seed, rate, nbytes, repeats)[algorithm], said


def dealt_out(seed: int, rate: float, nbytes: int, repeats: int = 5) -> tuple[float, float]:
    """Seconds of the ring with the ranks dealt out to hosts in turn, and side by side."""
    dealt = _on_hosts(seed, rate, nbytes, repeats, "cyclic")
    return dealt["ring"], _on_hosts(seed, rate, nbytes, repeats)["ring"]


TIMED = range(5)
SHORT = {"repeats": 1}
SMALL = {**SHORT, "nbytes": 16_384}


def _sizes(**more) -> dict:
    return {"1 KB": {"nbytes": 1_024, **more}, "4 MB": {"nbytes": 4_194_304, **more}}


CLAIMS = [
    Claim(
        id="08-ping-pong",
        sentence="Predicted by a ping-pong of two ranks, a ring takes longer than it should.",
        experiment=measured_and_predicted,
        seeds=TIMED,
        settings=_sizes(algorithm="ring", fit="ping-pong"),
        verdict="holds",
        margin=0.5,
        scale="ratio",
        axis="the size",
        ours="measured",
        rival="predicted",
        unit="s",
        smallest=SHORT,
    ),
    Claim(
        id="08-two-levels",
        sentence="Between hosts with two ranks each, two levels take less time than one ring.",
        experiment=two_levels,
        seeds=TIMED,
        settings={
            "16 KB, 100 Mbit/s": {"nbytes": 16_384, "rate": 100e6},
            "1 MB, 100 Mbit/s": {"nbytes": 1_048_576, "rate": 100e6},
            "1 MB, 1 Gbit/s": {"nbytes": 1_048_576, "rate": 1e9},
        },
        verdict="depends on the size",
        margin=0.1,
        larger=False,
        scale="ratio",
        axis="the size",
        ours="two levels",
        rival="one ring",
        unit="s",
        smallest=SHORT,
    ),
    Claim(
        id="08-hosts-model",
        sentence="1 MB between hosts takes longer than schedule, α and β say.",
        experiment=between_hosts,
        seeds=TIMED,
        settings={
            f"{algorithm}, {name}": {"algorithm": algorithm, "rate": rate, "nbytes": 1_048_576}
            for name, rate in (("100 Mbit/s", 100e6), ("1 Gbit/s", 1e9))
            for algorithm in BETWEEN
        },
        verdict="depends on the algorithm and the rate",
        margin=0.15,
        scale="ratio",
        axis="the algorithm and the rate",
        ours="measured",
        rival="predicted",
        unit="s",
        smallest=SMALL,
    ),
    Claim(
        id="08-placement",
        sentence="With ranks dealt out to hosts in turn a ring takes longer than side by side.",
        experiment=dealt_out,
        seeds=TIMED,
        settings={
            f"{name}, 100 Mbit/s": {"nbytes": nbytes, "rate": 100e6}
            for name, nbytes in (("256 KB", 262_144), ("1 MB", 1_048_576))
        },
        verdict="holds",
        margin=0.5,
        scale="ratio",
        axis="the size",
        ours="dealt out",
        rival="side by side",
        unit="s",
        smallest=SMALL,
    ),
]
