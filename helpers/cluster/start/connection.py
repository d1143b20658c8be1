"""The connection to the ranks."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ipyparallel


@contextlib.contextmanager
def without_false_alarm() -> Iterator[None]:
    """Leave out the warning that messages are not signed, while a client connects.

    Where there are ports CurveZMQ authenticates every message, so ipyparallel leaves the signatures
    out; Jupyter's session does not know of that, and calls it insecure in the reader's terminal.
    """
    from traitlets.log import get_logger

    def wanted(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("Message signing is disabled")

    log = get_logger()
    if isinstance(log, logging.LoggerAdapter):
        log = log.logger
    log.addFilter(wanted)
    try:
        yield
    finally:
        log.removeFilter(wanted)


def ask_who_is_registered(client: ipyparallel.Client) -> None:
    """Have the controller say again which engines it knows; wait for nothing.

    A client hears of an engine by a subscription. What the controller publishes before it has that
    subscription is lost.
    """

    def note(answer: Any) -> None:
        client._update_engines(dict(answer.result()["content"]["engines"]))

    client._send(client._query_stream, "connection_request").add_done_callback(note)


def close(client: ipyparallel.Client) -> None:
    """Close a client, and let nothing keep it alive."""
    from ipyparallel import AsyncResult

    client.close()
    for member in vars(AsyncResult).values():  # its last 128 results know it, and are in caches
        if (clear := getattr(member, "cache_clear", None)) is not None:
            clear()
