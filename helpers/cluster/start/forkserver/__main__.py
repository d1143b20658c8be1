"""``python -m helpers.cluster.start.forkserver FD WAY``: serve the kernel at the other end."""

from __future__ import annotations

import socket
import sys


def main(file: int, way: str) -> None:
    """Serve the kernel over a socket until it is gone; in a forked child, run its program."""
    import mpi4py

    mpi4py.rc.initialize = False  # each rank does so itself
    mpi4py.rc.finalize = False
    from helpers.cluster.start.forkserver.server import Server

    sys.path.append("")  # the last place to look for a module to import beforehand
    program = Server(socket.socket(fileno=file), way).serve()
    if program is not None:
        program()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
