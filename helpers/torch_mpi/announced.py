"""What this rank waits for, announced to whoever watches its communicator."""

from __future__ import annotations

import sys
import threading
from typing import Any

_WAITING = ("torch/autograd/graph.py", "torch/futures/__init__.py")


class Announced:
    """Says of a wait whom it is for, while its block lasts, where someone watches.

    :mod:`helpers.tracing` watches through communicators that have a ``recorder``; on others this
    does nothing. The main thread's waits alone, and those that it waits for inside torch (DDP's, in
    ``backward``): beside the others the rank computes.
    """

    def __init__(self, comm: Any, call: str, peer: int | str = "all", tag: int | None = None):
        self._recorder = getattr(comm, "recorder", None)
        self._beside = threading.current_thread() is not threading.main_thread()
        if self._recorder is not None:
            self._what = comm.waiting(call, peer, tag)

    def renew(self) -> None:
        """Say it again: polling MPI meanwhile has overwritten it."""
        if self._recorder is not None and (not self._beside or _main_thread_is_in_torch()):
            self._recorder.current = self._what

    def __enter__(self) -> Announced:
        self.renew()
        return self

    def __exit__(self, *error: object) -> None:
        if self._recorder is not None and self._recorder.current is self._what:
            self._recorder.current = None


def _main_thread_is_in_torch() -> bool:
    """Tell whether it is in the C++ of ``backward`` or of a future's ``wait``."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and frame.f_code.co_filename.endswith(_WAITING)
