"""What a notebook takes at its peak, to choose MEMORY by: ``memory.py 00 02`` beside this file.

Executes the solved notebooks one after the other and adds up, twice a second, the proportional set
size of the kernel, its ranks and all else that it starts. A student's server comes on top.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = "COURSE_MEMORY_OF"  # inherited by whatever the notebook starts


def sizes(token: str, but: int) -> int:
    """Return the bytes of all processes that inherited the token, except the one that executes."""
    total, wanted = 0, f"{MARK}={token}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            if int(folder.name) != but and wanted in environment:
                text = (folder / "smaps_rollup").read_text()
                total += int(text.split("\nPss:")[1].split()[0]) << 10
    return total


def peak(notebook: str) -> int:
    """Return the largest sum seen while the notebook is executed."""
    token, largest = uuid.uuid4().hex, 0
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.run", "--set", "solved", notebook],
        env=os.environ | {MARK: token},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None:
        largest = max(largest, sizes(token, process.pid))
        time.sleep(0.5)
    if process.returncode:
        raise RuntimeError(
            f"notebook {notebook} failed: python -m tools.run --set solved {notebook}"
        )
    return largest


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}  {peak(name) / 1e6:.0f} MB", flush=True)
