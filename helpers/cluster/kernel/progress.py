"""A line in the notebook that tells how far a start is; silent outside a notebook."""

from __future__ import annotations

import sys
import time

from helpers.at_work import kept

SHOW_AFTER = 1.0  # seconds: what is faster needs no bar


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


def in_kernel() -> bool:
    """Tell whether there is a notebook, and not a script, a terminal or pytest."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None
