"""Keep, in order, all that a rank prints and displays, while it goes on its way to the notebook.

The way through ipyparallel is asynchronous: what is kept here travels with the reply, complete and
in order. What a rank that never replies had printed is known from the asynchronous way only.
No notebook talks to a rank, so that a widget cannot move there: it is kept as text.
"""

from __future__ import annotations

import html
import io
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from helpers.cluster.rank.state import Part, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell


MAX_CHARACTERS = 200_000  # per rank and cell: an endless loop that prints must not fill the memory
MAX_DISPLAYS = 500  # per rank and cell, and four times as many messages of theirs


class Capture:
    """``with Capture(shell) as parts:`` collects what is printed and displayed inside.

    An updated display takes the old one's place, and a cleared one is gone, as in a notebook.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self.parts: list[Part] = []
        self._pieces: list[str] = []  # of the last part, which is text: joined when somebody looks
        self._widgets: list[tuple[dict, Any]] = []  # and what displays them
        self._to_clear = False  # as soon as there is something else to see
        self._displays = self._messages = 0
        self._adding = threading.RLock()
        self.pid = os.getpid()

    def __enter__(self) -> list[Part]:
        self._streams = sys.stdout, sys.stderr
        sys.stdout = _Tee("stdout", sys.stdout, self)
        sys.stderr = _Tee("stderr", sys.stderr, self)
        self.catch_up()
        self._descriptors_go_to(sys.stdout.take, sys.stderr.take)
        self._shell.display_pub.register_hook(self._on_display)
        self._shell.displayhook.register_hook(self._on_result)
        return self.parts

    def __exit__(self, *error: object) -> None:
        self.catch_up()
        self._descriptors_go_to(None, None)
        sys.stdout, sys.stderr = self._streams
        try:
            self.look()
        finally:
            self._shell.display_pub.unregister_hook(self._on_display)
            self._shell.displayhook.unregister_hook(self._on_result)

    def catch_up(self) -> None:
        """Take what C code and child processes have written to the descriptors by now."""
        for stream in self._streams:
            if hasattr(stream, "catch_up"):  # a rank's
                stream.catch_up()

    def _descriptors_go_to(self, *takers: Callable[[str], Any] | None) -> None:
        for stream, taker in zip(self._streams, takers, strict=True):
            if hasattr(stream, "taker"):
                stream.taker = taker

    def look(self) -> list[Part]:
        """Write down what displayed widgets say now; return all parts so far, on any thread."""
        self._join()
        parts = list(self.parts)
        for content, widget in list(self._widgets):
            data = content["data"]
            data["text/plain"] = as_text(widget, data.get("text/plain", ""))
        copies = ((kind, part if isinstance(part, str) else _copy(part)) for kind, part in parts)
        return list(copies)

    def add(self, kind: str, text: str) -> int:
        """Add text, of an overwritten line its last state; return how many characters that adds."""
        with self._adding:
            self._clear_if_due()
            follows = bool(self.parts) and self.parts[-1][0] == kind
            if follows and "\r" not in text:
                self._pieces.append(text)
                return len(text)
            before = self._join() if follows else ""
            begin = before.rfind("\n") + 1
            after = before[:begin] + _written_over(before[begin:] + text)
            if follows:
                self.parts[-1] = (kind, after)
            else:
                self._append(kind, after)
            return len(after) - len(before)

    def _append(self, kind: str, content: str | dict) -> None:
        with self._adding:
            self._join()
            self.parts.append((kind, content))

    def _join(self) -> Any:
        """Complete the last part, and return what it holds."""
        with self._adding:
            if self._pieces:
                kind, text = self.parts[-1]
                self.parts[-1] = (kind, "".join([text, *self._pieces]))
                self._pieces.clear()
            return self.parts[-1][1] if self.parts else ""

    def _on_display(self, message: dict) -> dict | None:
        """Keep a display, an update or a clearing; return None for one too many to send."""
        self.catch_up()
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "clear_output":
            self._to_clear = True
            if not content.get("wait"):
                self._clear_if_due()
        elif kind == "display_data" or not self._updated(content):
            self._clear_if_due()
            if self._displays < MAX_DISPLAYS:
                self._append("display", self._in_words(content))
            elif self._displays == MAX_DISPLAYS:
                self.add("stdout", f"… output cut after {MAX_DISPLAYS} displays\n")
            self._displays += 1
        self._messages += 1
        return message if max(self._displays, self._messages // 4) <= MAX_DISPLAYS else None

    def _in_words(self, content: dict) -> dict:
        """Return what is displayed; of a widget, what will be filled with what it says."""
        if (widget := widget_of(content["data"])) is not None:
            content = _copy(content)
            del content["data"][VIEW]
            self._widgets.append((content, widget))
        return content

    def _updated(self, content: dict) -> bool:
        """Put what an ``update_display_data`` says in place of what it updates, if that is here."""
        name = content["transient"].get("display_id")
        places = [
            place
            for place, (_, part) in enumerate(self.parts)
            if isinstance(part, dict) and part.get("transient", {}).get("display_id") == name
        ]
        for place in places:
            self.parts[place] = ("display", self._in_words(content))
        return bool(places)

    def _on_result(self, message: dict) -> dict:
        self.catch_up()
        self._clear_if_due()
        self._append("result", self._in_words(message["content"]))
        return message

    def _clear_if_due(self) -> None:
        with self._adding:
            if self._to_clear:
                self.parts.clear()
                self._pieces.clear()
                self._widgets.clear()
                self._displays = 0
                self._to_clear = False


def _copy(content: dict) -> dict:
    return {**content, "data": {**content["data"]}}


def _written_over(text: str) -> str:
    """Settle lines; a carriage return at the end still takes back the pen for what comes next."""
    body = text.rstrip("\r")
    end = "\r" if body != text else ""
    return "\n".join(map(settled, body.split("\n"))) + end


class _Tee(io.TextIOBase):
    """A text stream that writes to another and keeps what was written."""

    encoding = "utf-8"

    def __init__(self, name: str, stream: TextIO, capture: Capture) -> None:
        self._name, self._stream, self._capture = name, stream, capture
        self._room = MAX_CHARACTERS
        self._to_send = 10 * MAX_CHARACTERS  # what is written over needs no room, but a message

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() expects a str, got {type(text).__name__}")
        if os.getpid() != self._capture.pid:  # a child process, whose memory goes with it
            os.write(self.fileno(), text.encode(errors="backslashreplace"))
        else:
            self._capture.catch_up()
            self.take(text)
        return len(text)

    def take(self, text: str) -> None:
        """Keep a piece and show it, as long as there is room."""
        if self._room <= 0:
            return
        if len(text) >= self._room:
            text = f"{text[: self._room]}\n… output cut after {MAX_CHARACTERS} characters\n"
        self._room -= self._capture.add(self._name, text)
        self._to_send -= len(text)
        if self._to_send > 0:
            self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        """Leave it open: it is the kernel's.

        A stream that is collected as garbage closes, and so flushes, itself. That may be in the
        middle of a write to the kernel's stream, which would wait for its own lock: ten seconds.
        """

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._stream.fileno()


VIEW = "application/vnd.jupyter.widget-view+json"
SPEAKING = ("HTML", "HTMLMath", "Label")
BARS = ("IntProgress", "FloatProgress")
APART = re.compile(r"<(?:br|/(?:p|div|li|td|th|tr|h\d))\b[^<>]*>", re.IGNORECASE)
STILL = "(on a rank it cannot be moved: show it in a cell without %%ranks)"


def widget_of(data: dict) -> Any:
    """Return the widget that is displayed, as long as this process has it, or None."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    known = getattr(module, "_instances", {})
    return known.get(data.get(VIEW, {}).get("model_id"))


def as_text(widget: Any, otherwise: str) -> str:
    """Return what a widget says now: tqdm's words to both sides of its bar, a control's value."""
    parts = list(_leaves(widget))
    words = [_words(part) for part in parts if _kind(part) in SPEAKING]
    bars = [_bar(part) for part in parts if _kind(part) in BARS]
    controls = [_control(part) for part in parts if hasattr(part, "disabled")]
    said = " ".join(" ".join([*(words or bars), *controls]).split())
    return f"{said} {STILL}" if controls else said or otherwise


def _leaves(widget: Any) -> Iterator[Any]:
    children = getattr(widget, "children", None)
    if children is None:
        yield widget
    for child in children or ():
        yield from _leaves(child)


def _kind(widget: Any) -> str:
    return str(getattr(widget, "_model_name", "")).removesuffix("Model")


def _words(widget: Any) -> str:
    text = str(getattr(widget, "value", ""))
    if _kind(widget) == "Label":
        return text
    return html.unescape(re.sub(r"<[^<>]*>", "", APART.sub(" ", text)))


def _bar(widget: Any) -> str:
    return f"{widget.description} {widget.value:g}/{widget.max:g}"


def _control(widget: Any) -> str:
    name = getattr(widget, "description", "") or _kind(widget)
    value = None if _kind(widget) == "Password" else getattr(widget, "value", None)
    return f"[{name}]" if value is None else f"[{name.rstrip(':')}: {value}]"
