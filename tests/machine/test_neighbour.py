import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.machine.neighbour import Neighbours

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def had(pid: int) -> float:
    """Seconds of a core that a process has had."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) * 1e-9


@linux
def test_neighbours_compute_on_their_core_and_end_with_the_block():
    core = max(os.sched_getaffinity(0))
    with Neighbours(2, core, work=10.0, rest=0.0) as neighbours:
        pids = [process.pid for process in neighbours.processes]
        assert len(set(pids)) == 2
        assert all(os.sched_getaffinity(pid) == {core} for pid in pids)
        before = [had(pid) for pid in pids]
        end = time.monotonic() + 20
        while any(had(pid) - b < 0.02 for pid, b in zip(pids, before, strict=True)):
            assert time.monotonic() < end, "they do not compute"
            time.sleep(0.01)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert neighbours.processes == []


@linux
def test_neighbours_rest():
    with Neighbours(1, work=1e-3, rest=1e3) as neighbours:  # asleep after its first work
        (process,) = neighbours.processes
        time.sleep(0.3)
        before = had(process.pid)
        time.sleep(0.3)
        assert had(process.pid) - before < 0.05


@linux
def test_neighbours_end_when_their_parent_is_killed():
    program = (
        "import sys\n"
        "from helpers.machine.neighbour import Neighbours\n"
        "with Neighbours(2, work=0.05, rest=0.05) as found:\n"
        "    print(*[process.pid for process in found.processes], flush=True)\n"
        "    sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.communicate()
    end = time.monotonic() + 10
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < end, f"{pids} outlive their parent"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_cannot_be_is_said():
    for wrong, part in (
        ({"count": -1}, "count=-1: expected a whole number"),
        ({"count": 1.5}, "count=1.5"),
        ({"count": True}, "count=True"),
        ({"work": 0}, "work=0: expected seconds, above 0"),
        ({"rest": -1}, "rest=-1: expected seconds, 0 or more"),
    ):
        with pytest.raises(ValueError, match=part):
            Neighbours(**wrong)
