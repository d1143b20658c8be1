"""A line in the notebook that tells how far a start or a call is; silent outside a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from helpers.at_work import kept

SHOW_AFTER = 1.0  # seconds: what is faster needs no bar
AT_WORK_AFTER = 2.0  # seconds: a call that is faster needs no line
AT_WORK_EVERY = 1.0  # seconds between two states of the line


class Progress:
    """``with Progress("Starting 4 ranks", 4) as progress: progress.update(done)``."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total = title, total
        self._begin = time.monotonic()
        self._handle = None
        self._shown = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None and self._handle is not None:
            self._show(f"{self.title}: stopped after {time.monotonic() - self._begin:.1f} s.")

    def update(self, done: int) -> None:
        """Show the bar."""
        elapsed = time.monotonic() - self._begin
        if elapsed >= SHOW_AFTER and not kept():
            filled = 20 * min(done, self.total) // self.total
            bar = "█" * filled + "░" * (20 - filled)
            self._show(f"{self.title} {bar} {done}/{self.total}, {elapsed:.0f} s")

    def wait(self, text: str) -> None:
        """Show what has to come first."""
        elapsed = time.monotonic() - self._begin
        if elapsed >= SHOW_AFTER and not kept():
            self._show(f"{text}, {elapsed:.0f} s. Interrupt the kernel to give up.")

    def done(self, text: str, always: bool = True) -> None:
        """Replace the bar by the last word; unless `always`, say nothing where there was no bar."""
        if always or self._handle is not None:
            self._show(text)

    def _show(self, text: str) -> None:
        if text == self._shown or not in_kernel():
            return
        from IPython.display import display

        self._shown = text
        data = {"text/plain": text}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class AtWork:
    """The line of a cluster's calls: one in each cell, there while a call takes long.

    ``line.begin()`` at the start of a call, ``line.update(so_far)`` meanwhile, ``line.clear()``
    at its end.
    """

    def __init__(self) -> None:
        self._begin = self._next = 0.0
        self._cell: object = None
        self._handle: Any = None
        self._widget: Any = None
        self._shown = False

    def begin(self) -> None:
        """Start to count the seconds of a call."""
        self._begin = time.monotonic()
        self._next = self._begin + AT_WORK_AFTER

    def update(self, so_far: Callable[[], Mapping[int, Any]]) -> None:
        """Show for how long the ranks have worked and how many are done, if it is time."""
        now = time.monotonic()
        if now < self._next or not in_kernel():
            return
        self._next = now + AT_WORK_EVERY
        replies = so_far().values()
        done = sum(reply.status != "pending" for reply in replies)
        self._show(f"{len(replies)} ranks at work, {done} done, {now - self._begin:.0f} s")
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._show("")
            self._shown, self._widget = False, None

    def _show(self, text: str) -> None:
        from IPython import get_ipython
        from IPython.display import display

        if self._widget is not None or kept():
            self._in_widget(text)
            return
        data = {"text/plain": text, "text/html": text}
        cell = get_ipython().execution_count  # calls in a loop share one line
        if self._handle is None or cell != self._cell:
            self._cell, self._handle = cell, display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def _in_widget(self, text: str) -> None:
        """Show it as a widget in the one that takes all else, where a display cannot change."""
        import ipywidgets
        from IPython.display import display

        if self._widget is None:
            self._widget = ipywidgets.HTML(text)
            display(self._widget)
        self._widget.value = text
        if not text:
            self._widget.layout.display = "none"


def in_kernel() -> bool:
    """Tell whether there is a notebook, and not a script, a terminal or pytest."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None
