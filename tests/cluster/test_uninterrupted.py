"""Ctrl-C while ranks are ended: they are ended, and it is not lost."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from helpers.cluster import Cluster
from helpers.cluster.kernel.gathering import uninterrupted

pytestmark = pytest.mark.mpi


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_it_comes_after_the_block():
    steps = []

    def run():
        with uninterrupted():
            interrupt()
            steps.append("ended")
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert steps == ["ended"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_the_block_raises_comes_first():
    with pytest.raises(OSError, match="no"), uninterrupted():
        raise OSError("no")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_another_thread_nothing_changes():
    with ThreadPoolExecutor() as pool:
        seen = pool.submit(uninterrupted()(signal.getsignal), signal.SIGINT).result()
    assert seen is signal.default_int_handler


@pytest.mark.parametrize("how", ["stopped", "no longer referred to"])
def test_ranks_are_ended_and_the_program_is_interrupted(how):
    ranks = []

    def use():
        cluster = Cluster(2)
        ranks.extend(map(psutil.Process, cluster.pids))
        stop = cluster._processes.stop
        cluster._processes.stop = lambda: (interrupt(), stop())
        if how == "stopped":
            cluster.stop()

    def run():
        use()
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert psutil.wait_procs(ranks, timeout=10)[1] == []
