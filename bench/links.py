"""How long a message and an allreduce take between hosts, measured and predicted.

The hosts are this machine's own (``helpers.cluster.Network``), their links of a stated rate. For
each rate α and β are fitted to a ping-pong, and every algorithm is predicted from them (the peer)
and measured; notebook 08 shows this record where no hosts can be made.
"""

from __future__ import annotations

from helpers.cluster import Cluster, Network
from helpers.collectives import ALGORITHMS, cost, measure, on_hosts, placement
from helpers.records import Row

SUITE = on_hosts.SUITE
RATES = (10e6, 100e6, 1e9)  # bit/s
HOSTS, EACH = 4, 2
SIZES = (1_024, 16_384, 262_144, 1_048_576)  # bytes
GROWING = (2, 3, 4, 6, 8)  # hosts of one rank each
WORKING = (100e6, 1e9)  # bit/s: of the allreduces
LIMIT = 300.0  # seconds for one call on the ranks


def rows() -> list[Row]:
    """Measure links, algorithms, placements and growing numbers of hosts."""
    found = []
    for rate in RATES:
        network = Network(HOSTS, rate=rate)
        with Cluster(HOSTS * EACH, network=network) as ranks:
            wire = ranks.run(measure.ping_pong, measure.LINK_SIZES, 5, EACH, timeout=LIMIT)[0]
            memory = ranks.run(measure.ping_pong, measure.SIZES, 9, timeout=LIMIT)[0]
            between, inside = cost.fit(wire, "between hosts"), cost.fit(memory[1:], "inside")
            given = {"rate": rate}
            for link in (between, inside):
                name = f"bandwidth fitted to messages {link.name}"
                limit: tuple = ()
                if link is between:
                    limit = "the link's rate less headers", network.payload / 1e6
                known = {"alpha": link.alpha, "beta": link.beta}
                reached = link.bandwidth / 1e6
                found.append(Row(name, reached, "MB/s", *limit, parameters=given | known))
            if rate in WORKING:
                places = network.places(HOSTS * EACH)
                found += _allreduces(ranks, places, inside, between, given | {"placement": "block"})
        if rate in WORKING:
            dealt = Network(HOSTS, rate=rate, placement="cyclic")
            with Cluster(HOSTS * EACH, network=dealt) as ranks:
                places = dealt.places(HOSTS * EACH)
                found += _allreduces(
                    ranks, places, inside, between, given | {"placement": "cyclic"}
                )
            found += _growing(rate, inside, between)
    return found


def _allreduces(ranks, places, inside, between, given) -> list[Row]:
    times = ranks.run(measure.allreduce_times, list(ALGORITHMS), list(SIZES), 3, timeout=LIMIT)[0]
    rows = []
    for algorithm, seconds in times.items():
        said = placement.seconds(algorithm, SIZES, places, inside, between)
        for size, took, guess in zip(SIZES, seconds, said, strict=True):
            rows.append(_row(f"{algorithm} on {HOSTS} hosts", took, guess, given | {"bytes": size}))
    return rows


def _row(name: str, took: float, guess: float, given: dict) -> Row:
    return Row(name, 1e3 * took, "ms", "the prediction", 1e3 * guess, given)


def _growing(rate, inside, between) -> list[Row]:
    size, most = 262_144, max(GROWING)
    names = ["tree", "recursive_doubling", "ring"]
    rows = []
    with Cluster(most, network=Network(most, rate=rate)) as ranks:
        for n in GROWING:
            times = ranks.run(measure.allreduce_times, names, [size], 3, n, timeout=LIMIT)[0]
            for name, (took,) in times.items():
                (guess,) = placement.seconds(name, [size], tuple(range(n)), inside, between)
                given = {"rate": rate, "hosts": n, "bytes": size}
                rows.append(_row(f"{name}, more hosts", took, guess, given))
    return rows
