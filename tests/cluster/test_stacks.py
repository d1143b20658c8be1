"""A rank's stack is asked for only while C code holds its interpreter lock."""

import os
import signal
import subprocess
import sys
import time

import pytest

from helpers.cluster import Cluster, RankTimeoutError
from helpers.cluster.rank import stacks, state
from tests.cluster.test_cluster import notebook_function
from tests.cluster.ways import PART, eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

RANK = """
import re, sys, threading, time
from pathlib import Path
from helpers.cluster.rank import stacks, state
def nap():
    state.RankState(0).write(Path(sys.argv[1]))
    while True:
        time.sleep(0.1)
        state.RankState(0).confirm(Path(sys.argv[1]))
watcher = threading.Thread(target=nap, daemon=True)
watcher.start()
stacks.offer(Path(sys.argv[1]), 0, watcher)
print("ready", flush=True)
{work}
"""
HOLDS = "re.match('(a+)+b', 'a' * 60)"  # takes ages, and keeps the lock
COMPUTES = "while True: sum(range(1000))"
SLEEPS = "time.sleep(20)"


@pytest.fixture
def rank(tmp_path):
    started = []

    def start(work: str) -> subprocess.Popen:
        command = [sys.executable, "-c", RANK.format(work=work), str(tmp_path)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[0].stdout.readline() == "ready\n"
        return started[0]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_code_that_keeps_the_lock_is_found_with_its_line(tmp_path, rank):
    process = rank(HOLDS)
    found = {}

    def asked() -> bool:
        found.update(stacks.dump(tmp_path, {0: process.pid}))
        return bool(found)

    assert eventually(asked)
    line = RANK[: RANK.index("{work}")].count("\n") + 1
    assert f"line {line} in <module>" in found[0]
    assert process.poll() is None


@pytest.mark.parametrize("work", [COMPUTES, SLEEPS])
def test_code_that_gives_the_lock_away_is_not_asked(tmp_path, rank, work):
    process = rank(work)
    for _ in range(3):
        assert stacks.dump(tmp_path, {0: process.pid}) == {}


def test_a_rank_without_a_core_is_not_asked(tmp_path, rank):
    process = rank(COMPUTES)
    os.kill(process.pid, signal.SIGSTOP)  # as little of a core as can be
    assert stacks.dump(tmp_path, {0: process.pid}) == {}
    os.kill(process.pid, signal.SIGCONT)
    time.sleep(0.2)
    assert len(state.stack_file(tmp_path, 0).read_text().splitlines()) == 1
    process.kill()
    process.wait()
    assert stacks.dump(tmp_path, {0: process.pid}) == {}


@PART
@pytest.mark.mpi
def test_a_cell_names_the_line_in_which_a_rank_keeps_the_lock():
    function = notebook_function(f"import re\ndef f():\n    if rank == 1:\n        {HOLDS}\n")
    with Cluster(2) as cluster:
        for _ in range(6):  # in a busy moment a rank is late, or its line is not told
            with pytest.raises(RankTimeoutError) as raised:
                cluster.run(function, timeout=3)
            if [wait.line for wait in raised.value.waits] == [4]:
                break
        assert cluster.run(notebook_function("def f(): return rank")) == [0, 1]
    (wait,) = raised.value.waits
    assert (wait.rank, wait.call, wait.line) == (1, None, 4)
    assert wait.seconds > 1
