"""A line under a cell that works and shows nothing: for how many seconds already.

Nobody can tell a long cell from one that hangs. Each kernel of the course's environment loads this
extension when it starts (``tools/kernels.py`` sees to that), so that a set-up cell of slow imports
and a loop of the reader's own say it too; elsewhere ``%load_ext helpers.at_work`` does. A cell that
shows anything else at least every few seconds is left alone.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from typing import Any

SILENT = 3.0  # seconds without anything new until the line comes
EVERY = 1.0  # seconds between two states of the line
HINT = 30.0  # seconds after which it says how to end the cell
ASKING = "_input_request"  # ipykernel's function that waits for a line which the reader types


class AtWork:
    """Watches the cells of one kernel.

    Parameters
    ----------
    shell : ipykernel.zmqshell.ZMQInteractiveShell
        The kernel's.
    """

    def __init__(self, shell: Any) -> None:
        # kept: under %%capture the shell has another, and its output is the reader's
        self._publisher = shell.display_pub
        self._session = shell.kernel.session
        self._running = threading.Event()
        self._lock = threading.Lock()  # no line comes after its cell has ended
        self._thread: threading.Thread | None = None
        self._begin = self._quiet_since = 0.0
        self._messages = 0
        self._line = ""  # the display's id, once there is a line

    def begin(self, info: object) -> None:
        """Watch the cell that begins."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="at work", daemon=True)
            self._thread.start()
        with self._lock:
            self._begin = self._quiet_since = time.monotonic()
            self._messages = self._session.message_count
            self._running.set()

    def end(self, result: object) -> None:
        """Take the line away."""
        with self._lock:
            self._running.clear()
            if self._line:
                self._show("")
                self._line = ""

    def _watch(self) -> None:
        while self._running.wait():
            time.sleep(EVERY)
            with self._lock:
                if self._running.is_set():
                    self._look(time.monotonic())

    def _look(self, now: float) -> None:
        """Show the line if the cell is silent; one that is there goes on until the cell's end."""
        messages = self._session.message_count  # every output is a message, whoever sends it
        if not self._line and (messages != self._messages or _asking()):
            self._messages, self._quiet_since = messages, now
        elif self._line or now - self._quiet_since >= SILENT:
            seconds = now - self._begin
            hint = " The button ■ interrupts it." if seconds >= HINT else ""
            self._show(f"This cell is at work, {seconds:.0f} s.{hint}")

    def _show(self, text: str) -> None:
        first = not self._line
        self._line = self._line or uuid.uuid4().hex
        self._publisher.publish(
            data={"text/plain": text, "text/html": text},
            metadata={},
            transient={"display_id": self._line},
            update=not first,
        )


def _asking() -> bool:
    """Tell whether the cell waits for the reader's own words: ``input()``, a debugger's prompt."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == ASKING:
            return True
        frame = frame.f_back
    return False


def load_ipython_extension(shell: Any) -> None:
    """Begin to watch this kernel's cells; in a terminal's IPython nothing is watched.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        Given by IPython.
    """
    if getattr(shell, "kernel", None) is None:
        return
    watch = AtWork(shell)
    for event, call in (("pre_run_cell", watch.begin), ("post_run_cell", watch.end)):
        shell.events.register(event, call)


def unload_ipython_extension(shell: Any) -> None:
    """Watch this kernel's cells no longer.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        Given by IPython.
    """
    for event in ("pre_run_cell", "post_run_cell"):
        for call in list(shell.events.callbacks[event]):
            if isinstance(getattr(call, "__self__", None), AtWork):
                shell.events.unregister(event, call)
                call.__self__.end(None)  # of the cell that runs now
