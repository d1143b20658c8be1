"""A kernel's reply that nobody sees: while nbclient executes a notebook, look again each second.

nbclient waits for the reply to a cell on the socket on which it also *sends* the state of a widget
(``interact``) back to the kernel. Sending empties the file descriptor by which asyncio learns that
a message has come, so that a reply of that moment lies unread until the wait ends: after the
cell's whole time limit, though the kernel was ready at once
(https://github.com/jupyter/nbclient/issues/312). A new call of ``poll`` looks at the socket itself.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable
from queue import Empty
from typing import Any

from jupyter_client.channels import AsyncZMQSocketChannel

INTERVAL = 1.0  # seconds between two looks
_Receive = Callable[..., Awaitable[dict[str, Any]]]


def install() -> None:
    """Have each notebook that this process executes from now on look for replies every second."""
    get_msg = AsyncZMQSocketChannel.get_msg
    if not hasattr(get_msg, "__wrapped__"):
        AsyncZMQSocketChannel.get_msg = _looking_again(get_msg)  # type: ignore[method-assign]


def _looking_again(get_msg: _Receive) -> _Receive:
    @functools.wraps(get_msg)
    async def look(channel: AsyncZMQSocketChannel, timeout: float | None = None) -> dict[str, Any]:
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > INTERVAL:
            try:
                return await get_msg(channel, INTERVAL)
            except Empty:
                continue
        return await get_msg(channel, max(0.0, left))

    return look
