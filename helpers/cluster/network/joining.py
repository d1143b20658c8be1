"""How a rank becomes a process of its host, before it does anything else."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from helpers.cluster.network.keeper import Told
from helpers.cluster.network.namespaces import HOST, NEWUSER, enter
from helpers.machine.prctl import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, prctl

NETWORK_SECONDS = 60.0
LOOK_SECONDS = 0.002


def join(status: Path, host: int) -> None:
    """Make this process, a fresh fork with one thread, a process of a host."""
    deadline = time.monotonic() + NETWORK_SECONDS
    while (told := Told.read(status)) is None:
        if time.monotonic() > deadline:
            sys.exit("no network")
        time.sleep(LOOK_SECONDS)
    if told.error:
        sys.exit(told.error)
    parent, directory = os.getppid(), os.getcwd()
    enter(told.hosts[host], HOST | (NEWUSER if told.user else 0))
    os.chdir(directory)  # as seen from the host
    # a change of rights has undone these two
    prctl(PR_SET_DUMPABLE, 1)  # so that ranks of a host may read each other's memory
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
