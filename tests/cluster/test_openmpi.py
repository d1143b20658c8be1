"""The same cluster over Open MPI, as root and with more ranks than cores.

The environment with Open MPI holds no course lock and no Jupyter: a script runs in it, and says in
JSON what it saw.
"""

import json
import os
import subprocess
import textwrap

import pytest

from helpers.paths import ROOT
from tests.cluster.ways import PART

pytestmark = [pytest.mark.mpi, pytest.mark.openmpi, PART, pytest.mark.timeout(520)]

SCRIPT = """
import json, os, time
from helpers.cluster import Cluster, RankDiedError, RankError, RankTimeoutError
import psutil

def ring():
    return rank, size, comm.sendrecv(rank, (rank + 1) % size, source=(rank - 1) % size)

def deadlock():
    return comm.recv(source=(rank + 1) % size, tag=3)

def typo():
    return 1 / (rank - 1)

def typo_in_barrier():
    if rank == 1:
        1 / 0
    comm.Barrier()

def die():
    if rank == 2:
        os.kill(os.getpid(), 9)
    comm.Barrier()

def outcome(function, **options):
    try:
        return cluster.run(function, **options)
    except (RankDiedError, RankError, RankTimeoutError) as error:
        return [type(error).__name__, str(error)]

with Cluster(3) as cluster:
    told = {"repr": repr(cluster), "ring": cluster.run(ring)}
    told["listens"] = [
        found.laddr.ip
        for pid in cluster.pids
        for found in psutil.Process(pid).net_connections("inet")
        if found.status == psutil.CONN_LISTEN
    ]
    told["typo"] = outcome(typo)
    told["after typo"] = cluster.run(ring)
    told["barrier"] = outcome(typo_in_barrier, timeout=60)
    told["deadlock"] = outcome(deadlock, timeout=2)
    told["died"] = outcome(die, timeout=60)
    told["after all"] = cluster.run(ring)
    below = psutil.Process().children(recursive=True)
gone, alive = psutil.wait_procs(below, timeout=10)
told["alive"] = [process.cmdline() for process in alive]
print("TOLD " + json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(openmpi, tmp_path_factory):
    """What the script saw."""
    script = tmp_path_factory.mktemp("openmpi") / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [openmpi.python, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    assert lines, f"{done.stdout}\n{done.stderr}"
    return json.loads(lines[0].removeprefix("TOLD "))


def test_a_life_of_ranks_of_open_mpi(told):
    assert "3 ranks, Open MPI v" in told["repr"]
    ring = [[rank, 3, (rank - 1) % 3] for rank in range(3)]
    assert told["ring"] == told["after typo"] == told["after all"] == ring
    assert set(told["listens"]) == {"127.0.0.1"}, "their launcher's library listens there"
    assert told["alive"] == []


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        ("typo", "RankError", "Rank 1 raised"),
        ("barrier", "RankError", "waited inside MPI for a rank that had failed"),
        ("deadlock", "RankTimeoutError", "0 → 1 → 2 → 0"),
        ("died", "RankDiedError", "Rank 2 died, killed by signal 9"),
    ],
)
def test_what_goes_wrong_is_named(told, trouble, kind, words):
    assert told[trouble][0] == kind
    assert words in told[trouble][1]
