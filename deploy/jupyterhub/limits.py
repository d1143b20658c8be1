"""Control groups: how much memory and how many cores one student's processes may use together.

Each student gets a group below the hub's own. Version 2 is what systemd machines have (the hub's
unit needs ``Delegate=yes``), version 1 what older machines and some containers have.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
PERIOD = 100_000  # µs, the kernel's default
V1 = {"cpu": "cpu.cfs_quota_us", "memory": "memory.limit_in_bytes", "pids": "pids.max"}
HUB = "hub"  # version 2: the group that the hub itself moves into
MAX_PIDS = 2000  # a fork bomb's end; four ranks and JupyterLab have under 200 threads


def folders(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> dict[str, Path]:
    """Return the folder below which groups can be made, by controller; empty if there is none."""
    own = {}
    for line in membership.read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            own[name] = path.lstrip("/")
    if {"cpu", "memory"} <= set(_words(mount / "cgroup.controllers")):
        base = mount / own.get("", "")
        if base.name == HUB:  # a hub that was started again
            base = base.parent
        found = {"": base}
    else:
        found = {name: mount / name / own[name] for name in V1 if name in own}
        found = {name: base for name, base in found.items() if base.is_dir()}
        if not {"cpu", "memory"} <= set(found):
            return {}
    return found if all(os.access(base, os.W_OK) for base in found.values()) else {}


class Group:
    """One student's groups, made by ``limit`` and removed by ``end``."""

    def __init__(self, name: str, where: dict[str, Path]) -> None:
        self.folders = {kind: base / f"student-{name}" for kind, base in where.items()}

    def limit(self, memory: int | None, cores: float | None) -> None:
        """Make the groups, with at most ``memory`` bytes and ``cores`` cores (None: no limit)."""
        for kind, folder in self.folders.items():
            if not kind:
                self._delegate(folder.parent)
            folder.mkdir(exist_ok=True)
        quota = None if cores is None else round(cores * PERIOD)
        if "" in self.folders:
            self._write("", "memory.max", "max" if memory is None else str(memory))
            self._write("", "cpu.max", f"{'max' if quota is None else quota} {PERIOD}")
            self._write("", "pids.max", str(MAX_PIDS))
            return
        self._write("memory", V1["memory"], str(-1 if memory is None else memory))
        self._write("cpu", V1["cpu"], str(-1 if quota is None else quota))
        if "pids" in self.folders:
            self._write("pids", V1["pids"], str(MAX_PIDS))

    def enter(self) -> None:
        """Put this process, and all that it will start, into the groups."""
        for kind in self.folders:
            self._write(kind, "cgroup.procs", str(os.getpid()))

    def members(self) -> list[int]:
        """Return the numbers of the processes that are in any of the groups."""
        found = set()
        for folder in self.folders.values():
            found |= {int(word) for word in _words(folder / "cgroup.procs")}
        return sorted(found)

    def end(self, seconds: float = 5.0) -> list[int]:
        """Kill what is still in the groups and remove them; return what would not die in time."""
        deadline = time.monotonic() + seconds
        while left := self.members():
            for number in left:
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if time.monotonic() > deadline:
                return left
            time.sleep(0.02)
        for folder in self.folders.values():
            while folder.is_dir():
                try:
                    folder.rmdir()
                except OSError:  # the last process is gone, its page tables not yet
                    if time.monotonic() > deadline:
                        break
                    time.sleep(0.02)
        return []

    def _write(self, kind: str, file: str, text: str) -> None:
        (self.folders[kind] / file).write_text(text)

    @staticmethod
    def _delegate(base: Path) -> None:
        """Hand controllers down; a group that does so may hold no process itself (but the root)."""
        (base / HUB).mkdir(exist_ok=True)
        for number in _words(base / "cgroup.procs"):
            try:
                (base / HUB / "cgroup.procs").write_text(number)
            except OSError:  # it ended, or is a thread of the kernel's at the root
                continue
        (base / "cgroup.subtree_control").write_text("+cpu +memory +pids")


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
