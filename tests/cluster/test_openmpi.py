"""The same cluster over Open MPI, as root and with more ranks than cores.

The environment with Open MPI holds no course lock and no Jupyter: a script runs in it.
"""

import os
import subprocess

import pytest

from helpers.paths import ROOT
from tests.cluster.ways import PART

pytestmark = [pytest.mark.mpi, pytest.mark.openmpi, PART, pytest.mark.timeout(520)]

SCRIPT = """
import psutil, pytest
from helpers.cluster import Cluster, RankDiedError, RankError, RankTimeoutError
from tests.cluster.test_cluster import on_ranks

RING = "return rank, size, comm.sendrecv(rank, (rank + 1) % size, source=(rank - 1) % size)"
TROUBLES = [
    (RankError, "Rank 1 raised", "1 / (rank - 1)"),
    (RankError, "waited inside MPI for a rank that had failed",
     "if rank == 1: 1 / 0\\ncomm.Barrier()"),
    (RankTimeoutError, "0 → 1 → 2 → 0", "comm.recv(source=(rank + 1) % size, tag=3)"),
    (RankDiedError, "Rank 2 died, killed by signal 9",
     "import os\\nif rank == 2: os.kill(os.getpid(), 9)\\ncomm.Barrier()"),
]
with Cluster(3) as cluster:
    assert "3 ranks, Open MPI v" in repr(cluster)
    listen = {
        found.laddr.ip
        for pid in cluster.pids
        for found in psutil.Process(pid).net_connections("inet")
        if found.status == psutil.CONN_LISTEN
    }
    assert listen == {"127.0.0.1"}, "their launcher's library listens there"
    for kind, words, body in TROUBLES:
        with pytest.raises(kind, match=words):
            on_ranks(cluster, body, timeout=2 if kind is RankTimeoutError else 60)
        assert on_ranks(cluster, RING) == [(rank, 3, (rank - 1) % 3) for rank in range(3)]
    below = psutil.Process().children(recursive=True)
gone, alive = psutil.wait_procs(below, timeout=10)
assert [process.cmdline() for process in alive] == []
"""


def test_a_life_of_ranks_of_open_mpi(openmpi):
    done = subprocess.run(
        [openmpi.python, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
