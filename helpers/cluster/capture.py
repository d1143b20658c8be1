"""Keep, in order, all that a rank prints and displays, while it goes on its way to the notebook.

The way through ipyparallel is asynchronous: what is kept here travels with the reply, complete and
in order. What a rank that never replies had printed is known from the asynchronous way only.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

Part = tuple[str, Any]  # ("stdout" | "stderr", text) or ("display" | "result", message content)
MAX_CHARACTERS = 200_000  # per rank and cell: an endless loop that prints must not fill the memory


def settled(line: str) -> str:
    """Return what a terminal shows of a line that was written over.

    Parameters
    ----------
    line : str
        One line, in which a carriage return takes the pen back to its beginning.

    Returns
    -------
    str
        The last state.

    Examples
    --------
    >>> settled("step 10 of 99\\rstep 11")
    'step 11 of 99'
    """
    shown = ""
    for state in line.split("\r"):
        shown = state + shown[len(state) :]
    return shown


class Capture:
    """``with Capture(shell) as parts:`` collects what is printed and displayed inside.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The rank's shell.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self.parts: list[Part] = []

    def __enter__(self) -> list[Part]:
        self._streams = sys.stdout, sys.stderr
        sys.stdout = _Tee("stdout", sys.stdout, self.parts)
        sys.stderr = _Tee("stderr", sys.stderr, self.parts)
        self._shell.display_pub.register_hook(self._on_display)
        self._shell.displayhook.register_hook(self._on_result)
        return self.parts

    def __exit__(self, *error: object) -> None:
        sys.stdout, sys.stderr = self._streams
        self._shell.display_pub.unregister_hook(self._on_display)
        self._shell.displayhook.unregister_hook(self._on_result)

    def _on_display(self, message: dict) -> dict:
        if message["header"]["msg_type"] == "display_data":
            self.parts.append(("display", message["content"]))
        return message

    def _on_result(self, message: dict) -> dict:
        self.parts.append(("result", message["content"]))
        return message


class _Tee(io.TextIOBase):
    """A text stream that writes to another and keeps what was written."""

    encoding = "utf-8"

    def __init__(self, name: str, stream: TextIO, parts: list[Part]) -> None:
        self._name, self._stream, self._parts = name, stream, parts
        self._room = MAX_CHARACTERS

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() expects a str, got {type(text).__name__}")
        if self._room <= 0:
            return len(text)
        self._room -= len(text)
        if self._room <= 0:
            text = f"{text[: self._room]}\n… output cut after {MAX_CHARACTERS} characters\n"
        if self._parts and self._parts[-1][0] == self._name:
            self._parts[-1] = (self._name, self._parts[-1][1] + text)
        else:
            self._parts.append((self._name, text))
        self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._stream.fileno()
