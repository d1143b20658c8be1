"""Ctrl-C while ranks are ended: they are ended, and it is not lost; how a kernel ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

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
    seen = []

    def look():
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert seen == [signal.default_int_handler]


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


SESSION = """
import gc, os
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
before = gc.get_freeze_count()
shell.run_cell("%load_ext helpers.cluster")
print("left out", gc.get_freeze_count() > before + 10_000)

class Told:
    def __init__(self, word):
        self.word, self.itself = word, self  # only garbage collection ends a circle

    def __del__(self, write=os.write):
        write(1, self.word)

Told(b"one ")
gc.collect()
shell.user_ns["at_the_end"] = Told(b"two")
"""


def test_imports_are_left_out_of_collection_and_what_a_reader_makes_is_not():
    done = subprocess.run(
        [sys.executable, "-u", "-c", SESSION], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("left out True\none two", 0), done.stderr
