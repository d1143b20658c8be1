"""Where what this machine has compiled and measured is kept."""

from __future__ import annotations

import os
import stat
import tempfile
from functools import cache
from pathlib import Path

NAME = "parallel-deep-learning"


def cache_folder(*parts: str) -> Path:
    """Return the folder under the user's cache in which the course keeps ``parts``, made if absent.

    Where the cache cannot be written it lies below the temporary folder, in a folder that only this
    user may enter: compiled code is loaded from it.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path("~/.cache").expanduser()
    try:
        folder = base.joinpath(NAME, *parts)
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:  # a read-only home, or none
        pass
    folder = _temporary(tempfile.gettempdir()).joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def _temporary(base: str) -> Path:
    """Return this user's own folder in ``base``: a new one if somebody else has taken the name."""
    folder = Path(base, f"{NAME}-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if mine and not found.st_mode & 0o077:
        return folder
    return Path(tempfile.mkdtemp(prefix=f"{NAME}-", dir=base))
