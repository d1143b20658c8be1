"""Pipelines between hosts with slow links: the same results, and messages that take their time."""

import pytest

from helpers.cluster import Network
from helpers.pipeline import Costs, families, runs
from helpers.pipeline.model import bubble
from tests.cluster.ways import PART, on_hosts

pytestmark = pytest.mark.mpi
# bit/s: an activation of 2 sequences x 16 tokens x 16 numbers, 2 KB, takes 40 ms, and what the link
# has saved up while ranks compute lets the first one pass at once
RATE = 4e5
EACH = 10e-3  # seconds


@pytest.fixture(scope="module")
def hosts():
    with on_hosts(4, Network(hosts=2, rate=RATE), preload=("torch",)) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "name",
    ["interleaved", *(pytest.param(n, marks=PART) for n in ("GPipe", "1F1B", "zero-bubble"))],
)
def test_between_hosts_as_in_one_process(hosts, name):
    worst = hosts.run(runs.difference, families.FAMILIES[name](4, 4), timeout=120)
    assert max(worst) < 1e-12


def test_a_slow_link_shows_in_the_recorded_step(hosts):
    costs = Costs(EACH, EACH, EACH)
    for _ in range(10):  # on a busy machine a rank of the same host may be late too
        line = hosts.run(runs.record, families.gpipe(4, 4), costs, repeats=2, timeout=120)[0]
        done = {(box.rank, str(box.action)): box for box in line.boxes}
        # from the end of a rank's last forward pass to the beginning of the next rank's
        gaps = [done[r + 1, "F3"].begin - done[r, "F3"].end for r in range(2)]
        if gaps[0] < 20e-3:
            break
    assert gaps[1] > 20e-3 > gaps[0]  # ranks 0 and 1 share a host, 1 and 2 do not
    assert line.bubble > bubble("GPipe", 4, 4)
