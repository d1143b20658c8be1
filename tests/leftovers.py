"""What the whole session leaves in the folders for temporary files and in shared memory, by name.

Names are compared before and after; each new one is reported with the test after which it was first
seen. On a machine where others work too their files would be blamed on us, so that what is left is
an error in CI alone (``CI=true``).
"""

from __future__ import annotations

import getpass
import os
import tempfile
import time
from pathlib import Path

import pytest

from tools.bare_machine import ON_DISK, undocumented

USER = getpass.getuser()
GRACE = 20.0  # seconds in which the last processes may end and take their files along
SHARED = Path("/dev/shm")
# What MPI shares of a process that begins it by itself, as this one does with some tests.
OWN = SHARED / f"mpich_shm_{os.getpid():x}_0"


def mine(folders: tuple[Path, ...]) -> set[Path]:
    """Return what of this user's lies in the folders."""
    found = set()
    for folder in filter(Path.is_dir, folders):
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        found.add(Path(entry.path))
                except FileNotFoundError:
                    continue
    return found


class Leftovers:
    """A plugin of pytest: looks after each test, reports at the end what is new and still there."""

    def __init__(self, folders: tuple[Path, ...], strict: bool) -> None:
        self.folders, self.strict = folders, strict
        self.before = mine(folders)
        self.first: dict[Path, str] = {}
        self.session: pytest.Session | None = None

    def new(self) -> set[Path]:
        """Return what was not there before and what nobody is told to expect."""
        there = mine(self.folders) - self.before
        names = {path: f"/tmp/{path.name}" for path in there if path.parent != SHARED}
        page = ON_DISK.read_text(encoding="utf-8")
        new = set(undocumented(names.values(), page, USER)) - {f"/tmp/pytest-of-{USER}"}
        return {path for path in there if path not in names or names[path] in new}

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        for path in mine(self.folders) - self.before:
            self.first.setdefault(path, nodeid)

    def left(self) -> list[str]:
        """Return a line for each new thing, after a moment for what is about to go."""
        deadline = time.monotonic() + (GRACE if self.strict else 0.5)
        while (found := self.new()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [f"{path}, first seen after {self.first.get(path, 'the last test')}"
                for path in sorted(found)]  # fmt: skip

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter) -> None:
        lines = self.left()
        if not lines:
            return
        terminalreporter.section("left behind")
        for line in lines:
            terminalreporter.write_line(line)
        if self.strict and (file := os.environ.get("LEFT_BEHIND")):  # named by tools.test
            Path(file).write_text("\n".join(lines) + "\n", encoding="utf-8")
        if self.strict and self.session is not None and self.session.exitstatus == 0:
            self.session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logfinish() -> None:
    """Remove the file's name, which nobody needs: xdist kills a worker that is slow to end."""
    OWN.unlink(missing_ok=True)


def pytest_configure(config) -> None:
    """Register the plugin, but not on a worker: the session is its controller's."""
    if hasattr(config, "workerinput"):
        return
    strict = os.environ.get("CI", "").lower() in ("true", "1")
    folders = (Path(tempfile.gettempdir()), SHARED)
    config.pluginmanager.register(Leftovers(folders, strict), "leftovers")
