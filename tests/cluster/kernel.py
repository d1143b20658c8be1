"""A kernel as a notebook has it: cells, Tab, Shift+Tab, and somebody who answers."""

from __future__ import annotations

import contextlib
import queue
import re
import threading
from dataclasses import dataclass, field

import psutil

from helpers.machine import guard

SETUP = "%load_ext helpers.cluster\nfrom helpers.cluster import Cluster\ncluster = Cluster(3)"


@dataclass
class Shown:
    """What a cell showed: its text, its error, and each state that was shown meanwhile."""

    text: str = ""
    outputs: list[dict] = field(default_factory=list)
    error: str = ""
    states: list[str] = field(default_factory=list)


SLOW = "This cell is at work, "  # the line that a silent cell has for a while, and none at its end


def kernel_and_client(**options) -> tuple:
    """Start a kernel and a client that sends no heartbeat.

    A heartbeat's send has no time limit: once in some hundred runs it held ``stop_channels``.
    """
    from jupyter_client.manager import KernelManager

    manager = KernelManager()
    manager.start_kernel(**options)
    client = manager.client()
    client.start_channels(hb=False)
    try:
        client.wait_for_ready(timeout=120)
    except RuntimeError:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        raise
    return manager, client


class Kernel:
    """A kernel with ranks."""

    def __init__(self, **options) -> None:
        self.manager, self.client = kernel_and_client(**options)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self.manager.provisioner.pid

    def __call__(self, source: str, answer=None, seconds: float = 150, **options) -> Shown:
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
                shown.text, shown.outputs, cleared = "", [], False
            if kind == "error":
                shown.error += plain("\n".join([f"{content['ename']}: ", *content["traceback"]]))
                return
            shown.outputs.append(content)
            if kind == "stream":
                shown.text += content["text"]
            else:
                shown.text += content["data"].get("text/plain", "")
            shown.states.append(shown.text)

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

    def end(self, now: bool = False) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now)


class Watch:
    """Gathers what ``find`` sees of a process and of all below it, again and again."""

    def __init__(self, root: int, find, every: float) -> None:
        self.root, self.find, self.every = root, find, every
        self.seen, self.ended = set(), threading.Event()
        self.thread = threading.Thread(target=self._look)
        self.thread.start()

    def _look(self) -> None:
        while not self.ended.wait(self.every):
            for pid in [self.root, *guard.descendants(self.root)]:
                with contextlib.suppress(OSError, psutil.Error):
                    self.seen |= self.find(pid)

    def end(self) -> set:
        self.ended.set()
        self.thread.join()
        assert self.seen
        return self.seen


def plain(text: str) -> str:
    """Remove the colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)
