"""A line under a cell that works and shows nothing: for how many seconds already.

Nobody can tell a long cell from one that hangs. Each kernel of the course's environment loads this
extension when it starts (``tools/kernels.py`` sees to that), so that a set-up cell of slow imports
and a loop of the reader's own say it too; elsewhere ``%load_ext helpers.at_work`` does.

All that a kernel shows, whoever shows it, passes ``send_multipart`` of its thread for outputs; so
do its words on when it is busy with a cell and when it is idle again. Here they are looked at on
their way.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import uuid
from time import monotonic, sleep  # a reader's own time.sleep is none of ours
from types import SimpleNamespace
from typing import Any

SILENT = 3.0  # seconds without anything new until the line comes
EVERY = 1.0  # seconds between two states of the line
HINT = 30.0  # seconds after which it says how to end the cell
ASKING = "_input_request"  # ipykernel's function that waits for a line which the reader types
DELIMITER = b"<IDS|MSG>"  # in a message, before its signature, header, parent's header, ...


class AtWork:
    """Watches the cells of one kernel from now on."""

    def __init__(self, shell: Any) -> None:
        self._session = shell.kernel.session
        self._outputs = shell.kernel.iopub_thread
        self._send = self._outputs.send_multipart
        self._process = os.getpid()
        self._running = threading.Event()
        self._lock = threading.Lock()  # no line comes after its cell has ended
        self._cell: dict[str, Any] = {}  # the header of the request that the kernel works for
        self._begin = self._quiet_since = 0.0
        self._line = ""  # the display's id, once there is a line
        self._visible = False
        self._news = self._cleared = self._will_clear = False  # what passed since the last look
        threading.Thread(target=self._watch, name="at work", daemon=True).start()
        self._outputs.send_multipart = self.send_multipart

    def stop(self) -> None:
        """Watch no longer."""
        del self._outputs.send_multipart
        self._end()

    def send_multipart(self, message: list[bytes], *args: Any, **options: Any) -> None:
        """Look at a message of the kernel's, in parts as Jupyter sends it, and send it on."""
        if os.getpid() == self._process:  # in a forked child there is nobody who watches
            with contextlib.suppress(Exception):  # it has to arrive, whatever it is
                self._note(message)
        self._send(message, *args, **options)

    def _note(self, message: list[bytes]) -> None:
        _, header, parent, _, content, *_ = message[message.index(DELIMITER) + 1 :]
        kind = json.loads(header)["msg_type"]
        if kind == "status":
            busy, request = json.loads(content)["execution_state"] == "busy", json.loads(parent)
            if busy and request["msg_type"] == "execute_request" and not self._running.is_set():
                self._start(request)
            elif not busy and request.get("msg_id") == self._cell.get("msg_id"):
                self._end()
        elif kind == "clear_output" and kept():
            self._news = True  # in a widget; the cell's own outputs stay
        elif kind == "clear_output":
            self._will_clear = json.loads(content)["wait"]  # with what is shown next
            self._cleared |= not self._will_clear
        elif kind != "execute_input":
            self._news = True
            self._cleared |= self._will_clear
            self._will_clear = False

    def _start(self, cell: dict[str, Any]) -> None:
        with self._lock:
            self._cell = cell
            self._begin = self._quiet_since = monotonic()
            self._news = self._cleared = self._will_clear = False
            self._running.set()

    def _end(self) -> None:
        with self._lock:
            self._running.clear()
            if self._visible:
                self._show("")
            self._line, self._visible, self._cell = "", False, {}

    def _watch(self) -> None:
        while self._running.wait():
            sleep(EVERY)
            with self._lock:
                if self._running.is_set():
                    with contextlib.suppress(Exception):  # no words of ours below a reader's cell
                        self._look(monotonic())

    def _look(self, now: float) -> None:
        """Show the line if the cell is silent; one that is there goes on until the cell's end."""
        if self._cleared:
            self._line, self._visible, self._cleared = "", False, False
        asking = _asking()
        if asking and self._visible:
            self._show("")
            self._visible = False
        if asking or (self._news and not self._visible) or (not self._line and kept()):
            self._quiet_since = now
        self._news = False
        if self._will_clear or not (self._visible or now - self._quiet_since >= SILENT):
            return
        seconds = now - self._begin
        hint = " The button ■ interrupts it." if seconds >= HINT else ""
        self._show(f"This cell is at work, {seconds:.0f} s.{hint}")
        self._visible = True

    def _show(self, text: str) -> None:
        """Send it past the reader's own ``sys.stdout``, ``%%capture`` and hooks."""
        kind = "update_display_data" if self._line else "display_data"
        self._line = self._line or uuid.uuid4().hex
        content = {
            "data": {"text/plain": text, "text/html": text},
            "metadata": {},
            "transient": {"display_id": self._line},
        }
        away = SimpleNamespace(send_multipart=self._send)
        self._session.send(away, kind, content, parent=self._cell, ident=kind.encode())


def _asking() -> bool:
    """Tell whether the cell waits for the reader's own words: ``input()``, a debugger's prompt."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == ASKING:
            return True
        frame = frame.f_back
    return False


def kept() -> bool:
    """Tell whether a widget captures all outputs: it would keep the line as it was at first.

    So it is within an ``ipywidgets.Output``, and in a function of ``interact``.
    """
    widgets = sys.modules.get("ipywidgets.widgets.widget")
    outputs = sys.modules.get("ipywidgets.widgets.widget_output")
    if widgets is None or outputs is None:
        return False
    living = widgets._instances.copy().values()  # at once: the cell makes others meanwhile
    return any(isinstance(one, outputs.Output) and one.msg_id for one in living)


def load_ipython_extension(shell: Any) -> None:
    """Begin to watch this kernel's cells; in a terminal's IPython nothing is watched."""
    if getattr(shell, "kernel", None) is not None:
        AtWork(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Watch this kernel's cells no longer."""
    if getattr(shell, "kernel", None) is not None:
        watch = getattr(shell.kernel.iopub_thread.send_multipart, "__self__", None)
        if isinstance(watch, AtWork):
            watch.stop()
