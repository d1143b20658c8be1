"""``python -m helpers.cluster.forkserver FD``: serve the kernel at the other end of a socket."""

from __future__ import annotations

import socket
import sys


def main(file: int) -> None:
    """Serve until the kernel is gone; in a forked child, run its program.

    Parameters
    ----------
    file : int
        The descriptor of the socket.
    """
    import mpi4py

    mpi4py.rc.initialize = False  # each rank does so itself
    mpi4py.rc.finalize = False
    from helpers.cluster.forkserver.server import Server

    program = Server(socket.socket(fileno=file)).serve()
    if program is not None:
        program()


if __name__ == "__main__":
    main(int(sys.argv[1]))
