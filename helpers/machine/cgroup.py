"""Limits that Linux's control groups put on this process, in version 1 and in version 2.

A container sees its own group at the root of the mount, a service of systemd (a JupyterHub's user)
far below it: so each group is asked on the way from this process's own up to the root, and the
tightest limit counts. `/proc/self/cgroup` and the files are described in the kernel's
admin-guide/cgroup-v1 and cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def cpu_limit(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """Return how many processors' worth of time this process may use: the least quota ÷ period."""
    limits = []
    for folder in _groups("cpu", root, membership):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if not period:
            quota, period = (_read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota.isdigit() and period.isdigit() and int(period):  # neither "max" nor -1
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def memory_limit(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Return how many bytes this process's groups may hold; None without a limit.

    Version 1 says a number larger than any memory in place of None.
    """
    return min((limit for limit, _ in _memory(root, membership)), default=None)


def memory_left(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Return how many bytes may still be allocated before a group's limit is reached.

    Files kept in memory that nobody uses do not count: the kernel gives them up under pressure.
    """
    return min((max(0, limit - used) for limit, used in _memory(root, membership)), default=None)


def _memory(root: Path, membership: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use, in bytes, of each group that has a limit."""
    for folder in _groups("memory", root, membership):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        if limit.isdigit():
            used = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")
            stat = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
            idle = stat.get("total_inactive_file") or stat.get("inactive_file", "0")
            yield int(limit), int(used or 0) - int(idle)


def _groups(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """Yield the folders of this process's groups, from its own up to the root of the mount."""
    for line in _read(membership).splitlines():
        number, names, path = line.split(":", 2)
        if controller in names.split(","):
            base = root / controller
        elif number == "0":  # version 2: one tree for all controllers
            base = root
        else:
            continue
        folder = base / path.lstrip("/")
        for one in (folder, *folder.parents):
            if one.is_dir():  # within a container the path may be that of the host
                yield one
            if one == base:
                break


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
