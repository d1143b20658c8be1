"""Ask a program, within a time limit; shorten what it calls itself."""

from __future__ import annotations

import re
import subprocess


def ask(command: list[str], timeout: float = 20.0) -> str:
    """Return what a command prints.

    Parameters
    ----------
    command
        A program and its arguments.
    timeout
        Seconds that it may take.

    Returns
    -------
    str
        Both outputs; an empty string if it fails or takes too long.
    """
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
    """Shorten a product's name.

    Parameters
    ----------
    text
        A name as a system or program prints it.

    Returns
    -------
    str
        The name without trade marks, nominal clock and doubled spaces.
    """
    text = re.sub(r"\((?:R|TM|C)\)|\bCPU\b|@.*$", " ", text)
    return " ".join(text.split())
