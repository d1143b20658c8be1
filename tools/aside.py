"""Build an environment beside the one in use: ``python tools/aside.py copy|settle FROM TO``.

``copy`` repeats a folder by hard links, in seconds and without its gigabytes; pip never writes into
a file, it writes another in its place. ``settle`` prepares a built environment for being renamed:
its scripts name their interpreter by its whole path.
"""

import os
import shutil
import sys
from pathlib import Path


def copy(source, target):
    """Repeat a folder, by hard links where the disk has them."""

    def link(one, other):
        try:
            os.link(one, other)
        except OSError:
            shutil.copy2(one, other)

    shutil.copytree(source, target, symlinks=True, copy_function=link)


def settle(source, target):
    """Have the scripts and settings of the environment ``source`` name ``target`` in its place."""
    before, after = os.fsencode(source), os.fsencode(target)
    for path in [*Path(source, "bin").iterdir(), Path(source, "pyvenv.cfg")]:
        if path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        if before in content and b"\0" not in content:
            part = path.with_name(f"{path.name}.part")
            part.write_bytes(content.replace(before, after))
            shutil.copymode(path, part)
            os.replace(part, path)


if __name__ == "__main__":
    {"copy": copy, "settle": settle}[sys.argv[1]](*sys.argv[2:])
