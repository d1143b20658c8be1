"""Children that have ended: found, and buried with whom they leave behind."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable


def bury_one(is_leader: Callable[[int], bool]) -> tuple[int, int] | None:
    """Bury a child that has ended, and a session that it led; return its id and wait status."""
    pid, status = 0, 0
    try:
        if hasattr(os, "waitid"):
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            pid = 0 if found is None else found.si_pid
        else:  # macOS, before Python 3.13
            pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    if not pid:
        return None
    if is_leader(pid):  # while it is a zombie its id, and so its session's, is nobody else's
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    return os.waitpid(pid, 0) if hasattr(os, "waitid") else (pid, status)
