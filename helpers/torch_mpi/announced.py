"""What this rank waits for, announced to whoever watches its communicator."""

from __future__ import annotations

import threading
from typing import Any


class Announced:
    """Says of a wait whom it is for, while its block lasts, where someone watches.

    :mod:`helpers.tracing` watches through communicators that have a ``recorder``; on others this
    does nothing. The main thread's waits alone: beside the others the rank computes.

    Parameters
    ----------
    comm
        The communicator whose ranks are waited for.
    call
        The name of the operation, as a reader knows it.
    peer
        The rank that is waited for, or ``"all"``.
    tag
        The message's tag, where it has one.
    """

    def __init__(self, comm: Any, call: str, peer: int | str = "all", tag: int | None = None):
        self._recorder = getattr(comm, "recorder", None)
        if self._recorder is not None:
            if threading.current_thread() is threading.main_thread():
                self._what = comm.waiting(call, peer, tag)
            else:
                self._recorder = None

    def renew(self) -> None:
        """Say it again: polling MPI meanwhile has overwritten it."""
        if self._recorder is not None:
            self._recorder.current = self._what

    def __enter__(self) -> Announced:
        self.renew()
        return self

    def __exit__(self, *error: object) -> None:
        if self._recorder is not None:
            self._recorder.current = None
