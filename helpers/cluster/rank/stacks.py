"""A rank's stack while C code holds its interpreter lock: its watcher, without it, cannot tell.

The rank's ``faulthandler`` writes the stack at SIGUSR1. It reads the frames without the lock, and a
process whose frames change meanwhile dies of that, after some hundred to some thousand signals. So
it is asked only where C code is seen to hold the lock, not where others merely keep the cores busy.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from helpers.cluster.rank import state

WRITE_SECONDS = 0.1
# Who waits for the lock looks every 5 ms, who naps every 100. Among four threads that compute, the
# lock goes by at three looks of four: by all of 40 once in 100 000 times, by all of 12 once in 30.
LOCK_SECONDS, LOCK_LOOKS = 0.5, 40


def offer(folder: Path, rank: int, watcher: threading.Thread) -> None:
    """Let this process write its stack when asked to; `watcher` keeps the rank's state fresh."""
    file = state.stack_file(folder, rank).open("w")  # open for life
    file.write(f"{watcher.native_id}\n")
    file.flush()
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=False)


def dump(folder: Path, pids: Mapping[int, int]) -> dict[int, str]:
    """Return the stacks of those ranks whose C code holds their interpreter lock."""
    holders = _holders(folder, pids) if Path("/proc/self").exists() else list(pids)
    for rank in holders:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[rank], signal.SIGUSR1)
    if holders:
        time.sleep(WRITE_SECONDS)
    files = {rank: state.stack_file(folder, rank) for rank in holders}
    return {rank: file.read_text() for rank, file in files.items() if file.exists()}


def _holders(folder: Path, pids: Mapping[int, int]) -> list[int]:
    """Return the ranks whose watchers wait for the interpreter lock all the while."""
    told = {rank: state.confirmed(folder, rank) for rank in pids}
    before = {rank: _sleeps(folder, rank, pid) for rank, pid in pids.items()}
    time.sleep(LOCK_SECONDS)  # among threads that compute a watcher waits too, but not so long
    after = {rank: _sleeps(folder, rank, pid) for rank, pid in pids.items()}
    return [
        rank
        for rank, sleeps in after.items()
        if sleeps is not None
        and sleeps - (before[rank] or sleeps) >= LOCK_LOOKS
        and state.confirmed(folder, rank) == told[rank]
    ]


def _sleeps(folder: Path, rank: int, pid: int) -> int | None:
    """Return how often a rank's watcher has gone to sleep by itself; None if that is not told."""
    try:
        watcher = state.stack_file(folder, rank).read_text().partition("\n")[0]
        status = Path(f"/proc/{pid}/task/{int(watcher)}/status").read_text()
        return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    except (OSError, ValueError, IndexError):  # ended, just beginning, or a sandbox's short /proc
        return None
