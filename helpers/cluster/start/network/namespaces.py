"""Linux's namespaces: leaving this machine's, entering a host's."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
HOST = NEWNET | NEWIPC | NEWUTS | NEWNS  # what makes a host
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
QUIET = MS_NOSUID | MS_NODEV | MS_NOEXEC


def leave(kinds: int) -> None:
    """Give this process, which has one thread, new namespaces."""
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", kinds)
    if kinds & NEWUSER:  # there it may do what root may, with what is its own
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    if kinds & NEWNS:
        mount("none", "/", None, MS_REC | MS_PRIVATE)  # what is mounted here is seen here only


def enter(pid: int, kinds: int) -> None:
    """Make this process, which has one thread, a process of the namespaces of another."""
    other = os.pidfd_open(pid)
    try:
        _call("setns", other, kinds)
    finally:
        os.close(other)


def mount(what: str, where: str, kind: str | None, flags: int) -> None:
    """Mount a file system."""
    _call("mount", what.encode(), where.encode(), kind and kind.encode(), flags, None)


def _call(name: str, *args: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
