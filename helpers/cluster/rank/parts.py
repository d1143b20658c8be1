"""What a rank has printed and displayed, part by part."""

from __future__ import annotations

from typing import Any

Part = tuple[str, Any]  # ("stdout" | "stderr", text) or ("display" | "result", message content)
LIVE_LINES = 40  # so much of a cell's output is shown while it runs
MAX_LINE = 2000  # characters of a line that is shown while the cell runs


def settled(line: str) -> str:
    r"""Return what a terminal shows of a line in which carriage returns go back to its beginning.

    >>> settled("step 10 of 99\rstep 11")
    'step 11 of 99'
    """
    shown = ""
    for state in line.split("\r"):
        shown = state + shown[len(state) :]
    return shown


def tail(parts: list[Part], lines: int) -> list[Part]:
    """Return the last lines of what a rank has given; a display counts as one line."""
    found: list[Part] = []
    for kind, content in reversed(parts):
        if lines <= 0:
            break
        if isinstance(content, str):
            # nothing is cut into lines but those that count: text may be long
            last = content.rstrip("\n").rsplit("\n", lines)[-lines:]
            found.append((kind, "\n".join(line[-MAX_LINE:] for line in last)))
            lines -= len(last)
        else:
            found.append((kind, content))
            lines -= 1
    return found[::-1]
