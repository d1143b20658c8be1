"""Who has a core: what the kernel counts, not a guess."""

import os
import threading
import time
from pathlib import Path

import pytest

from helpers.machine.cores import Slice, Watch, shares


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux's schedstat")
def test_who_computes_is_seen_and_who_sleeps_is_not():
    def busy():
        while str(threading.get_native_id()) not in watch._known[os.getpid()]:
            time.sleep(1e-3)
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        done.set()
        over.wait()  # a thread that has ended cannot be looked at

    done, over = threading.Event(), threading.Event()
    with Watch([os.getpid()], interval=2e-3) as watch:
        working, sleeping = threading.Thread(target=busy), threading.Thread(target=over.wait)
        sleeping.start()
        working.start()
        done.wait()
    over.set()
    working.join()
    sleeping.join()
    ran, _ = shares(watch.slices)
    assert ran >= 0.049
    assert all(piece.end > piece.begin >= 0 and piece.ran >= 0 for piece in watch.slices)
    by_thread = {}
    for piece in watch.slices:
        by_thread[piece.thread] = by_thread.get(piece.thread, 0) + piece.ran
    assert max(by_thread.values()) >= 0.03


def test_a_process_that_is_not_there_is_no_error():
    with Watch([2**22 + 1]) as watch:
        pass
    assert watch.slices == []


def test_bad_watches_are_refused():
    for pids, interval in (([], 1e-3), ([1], 0)):
        with pytest.raises(ValueError, match="expects processes"):
            Watch(pids, interval)


def test_shares_add_up():
    slices = [Slice(0, 0, 1, 0.0, 1.0, 0.25, 0.5), Slice(1, 0, 0, 0.0, 1.0, 0.5, 0.25)]
    assert shares(slices) == (0.75, 0.75)
