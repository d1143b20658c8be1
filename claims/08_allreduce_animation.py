"""What notebook 08 concludes: the collectives agree with MPI's, and what an allreduce costs."""

from __future__ import annotations

import functools

from helpers.claims import Claim, Share
from helpers.claims.ranks import ranks

LIMIT = 120  # seconds for one call on the ranks
ALL = ("chain", "tree", "recursive_doubling", "ring")


def as_mpi(seed: int, n: int) -> Share:
    """In how many of many calls the six collectives gave bit for bit what MPI gives."""
    found = [one for one in ranks().run(_six, seed, n, timeout=LIMIT) if one is not None]
    return Share(sum(same for same, _ in found), sum(count for _, count in found))


def _six(seed: int, n: int) -> tuple[int, int] | None:
    """On every rank: whole numbers, whose sums are exact in any order."""
    import numpy as np
    from mpi4py import MPI

    from helpers import collectives
    from helpers.waiting import doze

    world, same = MPI.COMM_WORLD, []
    comm = world.Split(0 if world.rank < n else 1)
    if world.rank < n:
        x = np.random.default_rng([seed, comm.rank]).integers(0, 1000, 24).astype(float)
        everything = np.empty(24 * n)
        comm.Allgather(x, everything)
        total = np.empty(24)
        comm.Allreduce(x, total)
        same.append(np.array_equal(collectives.allgather(x, comm), everything))
        same += [np.array_equal(collectives.allreduce(x, comm, None, a), total) for a in ALL]
        for root in range(n):
            mine = everything[24 * root : 24 * root + 24]
            same.append(np.array_equal(collectives.broadcast(x.copy(), comm, root), mine))
            whole = everything if comm.rank == root else None
            part = collectives.scatter(whole, comm, root, out=np.empty(24))
            same.append(np.array_equal(part, x))
            gathered = collectives.gather(x, comm, root=root)
            summed = collectives.reduce(x, comm, root=root)
            if comm.rank == root:
                same += [np.array_equal(gathered, everything), np.array_equal(summed, total)]
    doze(world)
    return (sum(same), len(same)) if same else None


def same_bits(seed: int, length: int) -> Share:
    """In how many of four algorithms all ranks ended with the same bits."""
    results = ranks().run(_bits, seed, length, timeout=LIMIT)
    return Share(sum(len(set(one)) == 1 for one in zip(*results, strict=True)), len(ALL))


def _bits(seed: int, length: int) -> list[bytes]:
    import numpy as np
    from mpi4py import MPI

    from helpers.collectives import allreduce

    comm = MPI.COMM_WORLD
    x = np.random.default_rng([seed, comm.rank]).normal(size=length).astype(np.float32)
    return [allreduce(x, comm, None, algorithm).tobytes() for algorithm in ALL]


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


def order_kept(seed: int, algorithm: str) -> Share:
    """Whether digits come out in the order of the ranks: the operation does not commute."""
    return Share(int(ranks().run(_append, algorithm, timeout=LIMIT)[0]), 1)


def _append(algorithm: str) -> bool:
    import numpy as np
    from mpi4py import MPI

    from helpers.collectives import chain, ring, tree
    from helpers.collectives.parts import split

    def combine(mine, theirs, theirs_first=True):  # 12 and 3 give 123
        first, then = (theirs, mine) if theirs_first else (mine, theirs)
        mine[:] = first * 10 ** np.array([len(str(n)) for n in then]) + then

    comm = MPI.COMM_WORLD
    work = np.full(4, comm.rank + 1)
    if algorithm == "ring":
        ring.reduce_scatter(work, comm, combine, split(4, comm.size))
        ring.allgather(work, comm, split(4, comm.size))
    else:
        {"tree": tree, "chain": chain}[algorithm].allreduce(work, comm, combine)
    return bool((work == 1234).all())


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
    congestion: str = "reno",
) -> dict:
    """Seconds of the algorithms on four hosts with two ranks each, in turns."""
    from helpers.cluster import Network
    from helpers.collectives import measure

    hosts = ranks(8, Network(4, rate=rate, placement=placement, congestion=congestion))
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


def by_bbr(seed: int, algorithm: str, repeats: int = 5, nbytes: int = MB) -> tuple[float, float]:
    """Seconds over 100 Mbit/s with TCP's BBR, and with its reno."""
    found = _on_hosts(seed, 100e6, nbytes, repeats, congestion="bbr")
    return found[algorithm], _on_hosts(seed, 100e6, nbytes, repeats)[algorithm]


@functools.cache
def _waiting(seed: int, rate: float, repeats: int, nbytes: int) -> dict:
    """Seconds in turns: each as it is, with waiting ranks asleep, to a child at a time."""
    from helpers.cluster import Network
    from helpers.collectives import measure, variants

    network = Network(4, rate=rate)
    places = network.places(8)
    functions = {"at once": variants.tree_at_once, "in turn": variants.tree_in_turn}
    for name in BETWEEN:
        functions[name] = functools.partial(_sum, algorithm=name, hosts=places)
        functions[f"{name}, asleep"] = variants.asleep(name, places)
    hosts = ranks(8, network)
    found = hosts.run(measure.function_times, functions, [nbytes], repeats, timeout=LIMIT)[0]
    return {name: times[0] for name, times in found.items()}


def _sum(work, comm, algorithm: str, hosts: tuple[int, ...]) -> None:
    from helpers.collectives import allreduce

    allreduce(work, comm, None, algorithm, out=work, hosts=hosts)


def asleep(
    seed: int, algorithm: str, repeats: int = 5, rate: float = 1e9, nbytes: int = MB
) -> tuple[float, float]:
    """Seconds with waiting ranks asleep, and with MPI's waiting."""
    found = _waiting(seed, rate, repeats, nbytes)
    return found[f"{algorithm}, asleep"], found[algorithm]


def in_turn(seed: int, rate: float, repeats: int = 5, nbytes: int = MB) -> tuple[float, float]:
    """Seconds of a tree, sent to one child at a time, and to all at once."""
    found = _waiting(seed, rate, repeats, nbytes)
    return found["in turn"], found["at once"]


TIMED = range(5)
SHORT = {"repeats": 1}
SMALL = {**SHORT, "nbytes": 16_384}


def _sizes(**more) -> dict:
    return {"1 KB": {"nbytes": 1_024, **more}, "4 MB": {"nbytes": 4_194_304, **more}}


CLAIMS = [
    Claim(
        id="08-as-mpi",
        sentence="The six collectives give, from every root, bit for bit what MPI's give.",
        experiment=as_mpi,
        seeds=range(5),
        settings={f"{n} ranks": {"n": n} for n in (4, 3, 2)},
        verdict="holds",
        margin=0.0,
        ours="results that do",
        rival="nine in ten",
        rival_share=0.9,
        unit="1",
    ),
    Claim(
        id="08-same-bits",
        sentence="In all four algorithms all ranks end with the same bits.",
        experiment=same_bits,
        seeds=range(12),
        settings={"1 000 numbers": {"length": 1_000}, "100 001": {"length": 100_001}},
        verdict="holds",
        margin=0.0,
        ours="allreduces in which they do",
        rival="nine in ten",
        rival_share=0.9,
        unit="1",
    ),
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
        id="08-order",
        sentence="Digits appended by rank come out in the order of the ranks.",
        experiment=order_kept,
        seeds=range(6),
        settings={"tree": {"algorithm": "tree"}, "ring": {"algorithm": "ring"}},
        verdict="depends on the algorithm",
        margin=0.0,
        axis="the algorithm",
        ours="runs in which they do",
        rival="half of them",
        rival_share=0.5,
        unit="1",
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
        id="08-congestion",
        sentence="1 MB over 100 Mbit/s takes longer with TCP's BBR than with its reno.",
        experiment=by_bbr,
        seeds=TIMED,
        settings={name: {"algorithm": name} for name in BETWEEN},
        verdict="depends on the algorithm",
        margin=0.1,
        scale="ratio",
        axis="the algorithm",
        ours="BBR",
        rival="reno",
        unit="s",
        smallest=SMALL,
    ),
    Claim(
        id="08-tree-in-turn",
        sentence="A tree whose ranks send to one child at a time takes less time than at once.",
        experiment=in_turn,
        seeds=TIMED,
        settings={"1 MB, 100 Mbit/s": {"rate": 100e6}, "1 MB, 1 Gbit/s": {"rate": 1e9}},
        verdict="depends on the rate",
        margin=0.1,
        larger=False,
        scale="ratio",
        axis="the rate",
        ours="one at a time",
        rival="at once",
        unit="s",
        smallest=SMALL,
    ),
    Claim(
        id="08-asleep",
        sentence="1 MB over 1 Gbit/s takes less time when waiting ranks sleep.",
        experiment=asleep,
        seeds=TIMED,
        settings={name: {"algorithm": name} for name in BETWEEN},
        verdict="depends on the algorithm",
        margin=0.15,
        larger=False,
        scale="ratio",
        axis="the algorithm",
        ours="asleep",
        rival="looking without a pause",
        unit="s",
        smallest={**SMALL, "rate": 100e6},
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
