"""A line in the notebook that tells how far a start has come; silent outside a notebook."""

from __future__ import annotations

import sys
import time

SHOW_AFTER = 1.0  # seconds: what is faster needs no bar


class Progress:
    """``with Progress("Starting 4 ranks", 4) as progress: progress.update(done)``.

    Parameters
    ----------
    title : str
        What is under way.
    total : int
        Of how many parts it consists.
    """

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
        """Show the bar.

        Parameters
        ----------
        done : int
            How many of the parts are filled.
        """
        elapsed = time.monotonic() - self._begin
        if elapsed >= SHOW_AFTER:
            filled = 20 * min(done, self.total) // self.total
            bar = "█" * filled + "░" * (20 - filled)
            self._show(f"{self.title} {bar} {done}/{self.total}, {elapsed:.0f} s")

    def wait(self, text: str) -> None:
        """Show what has to come first.

        Parameters
        ----------
        text : str
            For what this waits.
        """
        elapsed = time.monotonic() - self._begin
        if elapsed >= SHOW_AFTER:
            self._show(f"{text}, {elapsed:.0f} s. Interrupt the kernel to give up.")

    def done(self, text: str, always: bool = True) -> None:
        """Replace the bar by the last word.

        Parameters
        ----------
        text : str
            The last word.
        always : bool
            Whether to say it also where there was no bar, since nobody had to wait.
        """
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
    """Tell whether there is a notebook to show things in.

    Returns
    -------
    bool
        False in a script, in a terminal's IPython and under pytest.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None
