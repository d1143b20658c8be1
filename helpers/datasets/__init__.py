"""Loaders of small real data: offline, checksummed, each with its source and licence."""

from __future__ import annotations

import hashlib
from pathlib import Path

from helpers.paths import DATA


class DataError(RuntimeError):
    """A data file is missing, or is not what its recorded sum says."""


def read_checked(path: Path | str, data: Path | None = None) -> bytes:
    """Return the bytes of ``path`` (below ``data/``) once they match ``path.sha256`` beside it.

    Raises DataError naming the file, what was found, and how to get a good copy.
    """
    path = (data or DATA) / path
    cure = f"restore it with `git checkout -- {path.name}` in {path.parent}"
    recorded = path.with_name(path.name + ".sha256")
    for needed in (path, recorded):
        if not needed.is_file():
            raise DataError(f"{needed} is missing: {cure}")
    content = path.read_bytes()
    expected = next(iter(recorded.read_text(errors="replace").split()), "no sum at all")
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataError(
            f"{path} is damaged: its sha256 is {found} ({len(content)} bytes), "
            f"expected {expected}; {cure}"
        )
    return content
