"""``python -m helpers.cluster.start.forkserver.fresh TOLD``: a member that was not forked.

Where a fork is unsafe (macOS, whose system libraries start threads) the process beside the kernel
starts each member afresh. The member finds the same socket and runs the same program; it shares no
memory with its siblings, and has to import everything itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from helpers.cluster.start.forkserver import birth, programs


def main(told: dict) -> None:
    """Become the member that :func:`birth.command` put into words, and run its program."""
    birth.be_born(told["parent"], birth.Surroundings(dict(os.environ), *told["found"]))
    threading.Thread(target=_end_with_parent, args=(told["life"],), daemon=True).start()
    import mpi4py

    mpi4py.rc.initialize = False  # the program does so itself
    mpi4py.rc.finalize = False
    place = programs.Place(told["rank"], told["size"], told["end"])
    programs.PROGRAMS[told["program"]](place, **told["options"])


def _end_with_parent(life: int) -> None:
    """End this process and what it has started when the other end of a pipe is gone."""
    os.read(life, 1)
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
