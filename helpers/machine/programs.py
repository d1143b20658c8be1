"""Ask a program, within a time limit; shorten what it calls itself."""

from __future__ import annotations

import re
import subprocess


def ask(command: list[str], timeout: float = 20.0) -> str:
    """Return what a command writes; an empty string if it fails or takes over ``timeout`` s."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def tidy(text: str) -> str:
    """Return a product's name without trade marks, nominal clock and doubled spaces."""
    text = re.sub(r"\((?:R|TM|C)\)|\bCPU\b|@.*$", " ", text)
    return " ".join(text.split())
