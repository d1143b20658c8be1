"""The processes that fork for this kernel: found, shared, and ended when nobody needs them."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from helpers.cluster.start.forkserver.handle import ForkServer

# what each kind of process needs: whoever is forked first waits for its own only
CONTROLLER = ("helpers.cluster.start.controller",)
RANKS = ("helpers.cluster.start.forkserver.warm",)

_servers: list[ForkServer] = []
_servers_lock = threading.Lock()


def acquire(modules: Iterable[str] = (), way: str = "fork") -> ForkServer:
    """Find or start a process for ranks that share these modules; :func:`release` gives it back.

    A process that runs already will do if it has the modules, or if nobody uses it: what it then
    imports can harm nobody.
    """
    wanted = set(modules)
    with _servers_lock:
        for ended in [server for server in _servers if not server.alive]:
            _servers.remove(ended)
            ended.end()
        usable = [server for server in _servers if server.way == way and not server.spoiled]
        fitting = [server for server in usable if wanted <= server.modules]
        idle = [server for server in usable if not server.users]
        server = next(iter([*fitting, *idle]), None)
        if server is None:
            server = ForkServer(way)
            _servers.append(server)
        server.users += 1
        return server


def release(server: ForkServer) -> None:
    """Give back what :func:`acquire` returned; it ends when nobody needs it."""
    with _servers_lock:
        server.users -= 1
        if server.users or (server.kept and not server.spoiled):
            return
        if server in _servers:
            _servers.remove(server)
    server.end()


def keep_warm(way: str) -> None:
    """Have a process ready for the clusters to come, until this kernel ends."""
    server = acquire(way=way)
    server.kept = True
    server.require(*CONTROLLER, *RANKS)
    release(server)
