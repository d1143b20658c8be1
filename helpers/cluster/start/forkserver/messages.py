"""Messages between the kernel and the process beside it: JSON objects over a stream."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!I")  # bytes that follow


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
