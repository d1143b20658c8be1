"""The connection to the ranks: encrypted and authenticated by CurveZMQ where zmq has it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


def has_curve() -> bool:
    """Tell whether this zmq encrypts (the wheels do; a distribution's build may not).

    Returns
    -------
    bool
        Whether it has CurveZMQ.
    """
    import zmq

    return zmq.has("curve")


@contextlib.contextmanager
def without_false_alarm() -> Iterator[None]:
    """Leave out the warning that messages are not signed, while a client connects.

    CurveZMQ authenticates every message, so ipyparallel then leaves the signatures out; Jupyter's
    session does not know of that, and calls it insecure in the reader's terminal.

    Yields
    ------
    None
        While the warning is left out.
    """
    from traitlets.log import get_logger

    def wanted(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("Message signing is disabled")

    log = get_logger()
    if isinstance(log, logging.LoggerAdapter):
        log = log.logger
    if has_curve():  # else messages are signed, and the warning would be right
        log.addFilter(wanted)
    try:
        yield
    finally:
        log.removeFilter(wanted)
