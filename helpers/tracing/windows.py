"""Windows of memory that ranks share or reach into (``MPI.Win``), whose waits are reported."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from helpers.tracing.requests import timed

_Win = MPI.Win


class TracedWin(_Win):
    """An ``MPI.Win`` that tells the recorder of its communicator what it waits for.

    It is watched, not recorded: puts and gets name no message that a timeline could draw.
    """

    __slots__ = ("_comm", "_peers")


def _maker(name: str) -> classmethod:
    """Make Create, Allocate and the like: collective calls on the communicator."""
    plain = getattr(_Win, name)
    signature = inspect.signature(plain)

    def call(cls: type, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        comm: Any = bound.arguments.get("comm")
        method = functools.partial(getattr(super(TracedWin, cls), name), *args, **kwargs)
        if getattr(comm, "recorder", None) is None:
            return method()
        win, _, _ = timed(comm, f"Win.{name}", "all", None, method)
        win._comm, win._peers = comm, ()
        return win

    return classmethod(functools.wraps(plain)(call))


def _waiter(name: str) -> Callable:
    """Make a call that may wait: for one rank, for a group given at Start or Post, or for all."""
    plain = getattr(_Win, name)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        comm = getattr(self, "_comm", None)  # None for a window that no traced communicator made
        if comm is None:
            return plain(self, *args, **kwargs)
        if name in ("Start", "Post"):
            self._peers = world_ranks(args[0] if args else kwargs["group"])
        if name in ("Start", "Complete", "Wait"):
            peer = self._peers
        elif name in ("Lock", "Unlock", "Flush", "Flush_local"):
            rank = args[0] if args else kwargs["rank"]
            peer = comm._world.get(rank, rank)
        else:
            peer = "all"
        return timed(comm, f"Win.{name}", peer, None, plain, self, *args, **kwargs)[0]

    return functools.wraps(plain)(call)


def world_ranks(group: MPI.Group) -> tuple:
    """Return the ranks of ``COMM_WORLD`` in a group, and names for those that are not in it."""
    world = MPI.COMM_WORLD.Get_group()
    ranks = group.Translate_ranks(None, world)
    world.Free()
    return tuple(f"outside {i}" if r == MPI.UNDEFINED else r for i, r in enumerate(ranks))


for _name in ("Create", "Allocate", "Allocate_shared", "Create_dynamic"):
    setattr(TracedWin, _name, _maker(_name))
for _name in (
    *("Fence", "Free", "Start", "Complete", "Post", "Wait", "Lock", "Lock_all", "Unlock"),
    *("Unlock_all", "Flush", "Flush_all", "Flush_local", "Flush_local_all"),
):
    setattr(TracedWin, _name, _waiter(_name))
