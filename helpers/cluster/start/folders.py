"""The folder of a cluster: this user's alone, and swept by the next cluster if all others died."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from helpers.machine import shared_memory

OWNER = "owner"  # locked as long as the kernel that made the folder lives
PREFIX = "ranks-"
SOCKETS = "s"  # s:1, s:2 and so on in the folder: a path has 107 characters at most


def own(folder: Path) -> IO[str]:
    """Make a folder and return a file that holds it for as long as the file is open."""
    part = _part(folder)  # never seen without its owner
    part.mkdir(mode=0o700, parents=True)
    held = (part / OWNER).open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    part.rename(folder)
    return held


def remove(folder: Path) -> None:
    """Remove a folder whose kernel is gone, even if it was begun and not finished."""
    for path in (_part(folder), folder):
        shutil.rmtree(path, ignore_errors=True)


def sweep() -> None:
    """Remove what kernels left that were killed together with the process beside them."""
    for folder in _mine():
        with contextlib.suppress(OSError), (folder / OWNER).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: its kernel lives
            shutil.rmtree(folder, ignore_errors=True)
    shared_memory.sweep()


def _part(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}")


def _mine() -> Iterator[Path]:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.getuid() and not folder.is_symlink():
                yield folder
