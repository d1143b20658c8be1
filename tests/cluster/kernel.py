"""A kernel as a notebook has it: cells, Tab, Shift+Tab, and somebody who answers."""

from __future__ import annotations

import contextlib
import queue
import re
import time
from dataclasses import dataclass, field

SETUP = "%load_ext helpers.cluster\nfrom helpers.cluster import Cluster\ncluster = Cluster(3)"


@dataclass
class Shown:
    """What a cell showed: its text, its error, and each state that was shown meanwhile."""

    text: str = ""
    error: str = ""
    pictures: int = 0
    states: list[str] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)


SLOW = "This cell is at work, "  # the line that a silent cell has for a while, and none at its end


class Kernel:
    """A kernel with ranks."""

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel()

    def __call__(self, source: str, answer=None, seconds: float = 60, **options) -> Shown:
        """Run a cell; ``answer(prompt, shown so far)`` says what is typed."""
        shown, cleared = Shown(), False

        def hear(message: dict) -> None:
            nonlocal cleared
            content, kind = message["content"], message["msg_type"]
            if kind == "clear_output":
                cleared = True
                return
            if kind not in ("stream", "display_data", "execute_result", "error"):
                return
            if content.get("data", {}).get("text/plain", "").startswith(SLOW):
                return
            if cleared:
                shown.text, shown.pictures, cleared = "", 0, False
            if kind == "error":
                lines = [f"{content['ename']}: {content['evalue']}", *content["traceback"]]
                shown.error = plain("\n".join(lines))
            elif kind == "stream":
                shown.text += content["text"]
            else:
                shown.text += content["data"].get("text/plain", "")
                shown.pictures += "image/png" in content["data"]
            shown.states.append(shown.text)
            shown.moments.append(time.monotonic())

        def asked(message: dict) -> None:
            with contextlib.suppress(queue.Empty):  # what was shown before the question
                while True:
                    hear(self.client.get_iopub_msg(timeout=0.3))
            self.client.input(answer(message["content"]["prompt"], shown))

        self.client.execute_interactive(
            source, allow_stdin=answer is not None, output_hook=hear, stdin_hook=asked,
            timeout=seconds, **options,
        )  # fmt: skip
        return shown

    def completions(self, code: str, cursor: int | None = None) -> dict:
        return self.client.complete(code, cursor, reply=True, timeout=20)["content"]

    def help(self, code: str, detail: int = 0) -> str:
        reply = self.client.inspect(code, len(code), detail, reply=True, timeout=20)["content"]
        return plain(reply["data"].get("text/plain", ""))

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel()


def plain(text: str) -> str:
    """Remove the colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)
