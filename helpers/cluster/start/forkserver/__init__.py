"""One warm process beside the kernel, which forks the ranks of this machine and stands by them.

It has imported what ranks need, so a rank is a fork, ready in hundredths of a second. It serves the
ranks' first requests (who am I, how many are we, are all here?), by the protocol PMI-1, as mpiexec
would; it sees which one ended first, and how; it kills and reaps them; and it ends with the kernel,
however that ends.

- ``handle`` is the kernel's side: start it, ask it, hear from it, share it;
- ``server`` is its loop, without a thread, since only the thread that forks lives on in the child;
- ``family`` is a set of processes forked together, and what they ask;
- ``birth`` is the first thing that happens in a child, and what it then runs;
- ``preload`` imports modules, and refuses those that cannot be shared by a fork; ``warm`` is what
  every rank needs.

Kernel and server send each other JSON objects over a stream: :func:`send`, :func:`receive`.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

_LENGTH = struct.Struct("!I")  # bytes that follow


@dataclass(frozen=True)
class Surroundings:
    """What a process finds when it begins; `threads` None: as the environment says."""

    environment: dict[str, str] = field(repr=False)
    directory: str
    output: str
    threads: int | None = None


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one message; raise OSError if nobody is at the other end."""
    data = json.dumps(message).encode()
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """Receive one message; return None when the other end is closed, be it in the middle of one."""
    try:
        head = connection.recv(_LENGTH.size, socket.MSG_WAITALL)
        if len(head) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(head)
        data = connection.recv(length, socket.MSG_WAITALL)
        return json.loads(data) if len(data) == length else None
    except OSError:
        return None
