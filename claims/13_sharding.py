"""What notebook 13 concludes: gathering ahead, and matrices inside hosts."""

from __future__ import annotations

from helpers.claims import with_defaults

LIMIT = 150  # seconds for one call on the ranks
PRELOAD = ("torch", "helpers.sharded.runs")


def _config():
    from helpers.models.transformer import Config

    return Config(vocabulary=96, context=32, layers=4, heads=4, width=64)


def prefetch(seed: int, rate: float) -> tuple[float, float]:
    """Milliseconds of a step at stage 3 on four hosts: prefetched, and in turn."""
    from helpers.cluster import Cluster, Network
    from helpers.sharded import runs

    with Cluster(4, network=Network(hosts=4, rate=rate), preload=PRELOAD) as cluster:
        found = [
            max(
                t for t, _ in cluster.run(runs.prefetched, _config(), 8, ahead, 15.0, timeout=LIMIT)
            )
            for ahead in ((True, False) if seed % 2 else (False, True))
        ]
    ahead, turn = found if seed % 2 else found[::-1]
    return 1e3 * ahead, 1e3 * turn


def placement(seed: int, rate: float, tensor: int = 4, steps: int = 3) -> tuple[float, float]:
    """Milliseconds of a step of 2 × 1 × ``tensor`` on two hosts: neighbours together, and apart."""
    from helpers.cluster import Cluster, Network
    from helpers.sharded import runs
    from helpers.sharded.mesh import Layout

    found = {}
    for way in ("block", "cyclic") if seed % 2 else ("cyclic", "block"):
        network = Network(hosts=2, rate=rate, placement=way)
        with Cluster(2 * tensor, network=network, preload=PRELOAD) as cluster:
            took = cluster.run(
                runs.timed, _config(), Layout(2, 1, tensor), 16, 1, 2.4e8, steps, timeout=LIMIT
            )
        found[way] = 1e3 * max(seconds for seconds, _, _ in took)
    return found["block"], found["cyclic"]


RATES = {"50 Mbit/s": {"rate": 50e6}, "200 Mbit/s": {"rate": 200e6}}

_step = with_defaults(seeds=range(4), unit="ms", scale="ratio", larger=False, axis="the link")

CLAIMS = [
    _step(
        id="13-prefetch",
        sentence="A step at ZeRO's stage 3 is shorter when parameters are gathered one block "
        "ahead.",
        experiment=prefetch,
        settings=RATES,
        verdict="holds",
        margin=0.05,
        ours="prefetched",
        rival="in turn",
        smallest={"rate": 1e9},
    ),
    _step(
        id="13-placement",
        sentence="A step with matrices cut over four ranks is shorter when the four share a host.",
        experiment=placement,
        settings=RATES,
        verdict="holds",
        margin=0.1,
        ours="inside a host",
        rival="across hosts",
        smallest={"rate": 1e9, "tensor": 2, "steps": 1},
    ),
]
