"""Import modules that forked processes will share, and tell which ones cannot be."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Iterable

from helpers.machine.shared_memory import unlink_own

# What a module imports only when it is first used: in every rank anew, were it not shared. Torch's
# first optimizer imports its compiler, 1.4 s of a core.
LATER = {"torch": ("torch._dynamo",)}
_written: dict[str, tuple[str, int]] = {}  # a reader's module → its file, and when it was written


def preload(modules: Iterable[str]) -> str | None:
    """Import modules, in order, each with what it imports only on its first use.

    Return why the first that a fork cannot share cannot be shared, or None. With a reason, this
    process must fork no more: what the module did cannot be undone.
    """
    for name in modules:
        try:
            importlib.import_module(name)
            for later in LATER.get(name, ()):
                with contextlib.suppress(ImportError):  # this version's are others
                    importlib.import_module(later)
        except BaseException as error:
            return f"importing {name!r} raised {type(error).__name__}: {error}"
        _note_readers()
        if (why := why_not_to_fork()) is not None:
            unlink_own()  # MPI may have been started, and is never ended here
            return f"{name!r} cannot be preloaded: {why}"
    return None


def _note_readers() -> None:
    """Note when the modules were written that no package has installed."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        installed = str(file).startswith((sys.prefix, sys.base_prefix))
        if file and not installed and name.partition(".")[0] not in ("helpers", "__main__"):
            with contextlib.suppress(OSError):
                _written.setdefault(name, (file, os.stat(file).st_mtime_ns))


def forget_edited() -> None:
    """Let a rank import the reader's modules anew, if one of them was edited since."""
    for file, written in _written.values():
        with contextlib.suppress(OSError):
            if os.stat(file).st_mtime_ns != written:
                break
    else:
        return
    for name in _written:
        sys.modules.pop(name, None)


def why_not_to_fork() -> str | None:
    """Return what makes a fork of this process unsafe, or None."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized():
        return "MPI is initialized, and each rank must do so itself"
    count = number_of_threads()
    if count > 1:
        names = [thread.name for thread in threading.enumerate() if thread.name != "MainThread"]
        which = f" ({', '.join(names)})" if names else ""
        return f"{count - 1} thread(s) run{which}, and a fork would leave them out"
    return None


def number_of_threads() -> int:
    """Count this process's threads, those of C libraries too."""
    return len(os.listdir("/proc/self/task"))


def other_library() -> str | None:
    """Return which MPI it is that PMI-1 alone cannot start; None for MPICH."""
    from mpi4py import MPI

    name, version = MPI.get_vendor()
    return None if name == "MPICH" else f"{name} {'.'.join(map(str, version))}"
