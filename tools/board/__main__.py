"""``make board``: open the board of a class, for the projector, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import signal
import socket
import sqlite3
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from helpers.paths import ROOT
from tools.board.server import BODY, Board, application
from tools.board.store import Store


def own_address() -> str:
    """Return the address under which this machine leaves for its network; sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation: nobody's
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


async def serve(served: Application, host: str, port: int, opened: Callable[[int], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    sockets = bind_sockets(port, host)
    server = HTTPServer(served, max_body_size=BODY, max_buffer_size=2 * BODY)
    server.add_sockets(sockets)
    opened(sockets[0].getsockname()[1])
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
    server.stop()
    await server.close_all_connections()


def tell(board: Board, host: str, browse: bool, port: int) -> None:
    """Print what a teacher needs, and open the projector's page."""
    shown = f"[{host}]" if ":" in host else host
    page = f"http://{shown}:{port}/#{board.key}"
    print(f"The projector's page (keep its address to yourself): {page}")
    print("Students type:")
    print(f'    from helpers import board; board.join("{shown}:{port}", "{board.code}")')
    if host in ("127.0.0.1", "localhost", "::1"):
        print(f"Only this machine reaches it. For a class, type make board HOST={own_address()}")
    print("Ctrl-C ends it; all predictions are kept.", flush=True)
    if browse:
        webbrowser.open(page)


def main(arguments: list[str] | None = None) -> int:
    """Command line; 1 with a sentence if the board cannot be opened."""
    parser = argparse.ArgumentParser(prog="python -m tools.board", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="the address on which to listen")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--file", type=Path, default=ROOT / "board.sqlite")
    parser.add_argument("--new", action="store_true", help="begin another class today")
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--hub", action="store_true", help="as JupyterHub's service")
    options = parser.parse_args(arguments)
    if not 0 <= options.port < 65536:
        parser.error(f"expected a port from 0 to 65535, got {options.port}")
    try:
        with contextlib.closing(Store(options.file)) as store:
            board = Board(store, options.new)
            if options.hub:
                from tools.board import hub  # JupyterHub is there only

                asyncio.run(serve(hub.application(board), *hub.address(), lambda port: None))
                return 0
            opened = functools.partial(tell, board, options.host, not options.no_browser)
            asyncio.run(serve(application(board), options.host, options.port, opened))
    except sqlite3.Error as error:
        print(f"{options.file}: expected a file of the board's ({error})", file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{options.host}:{options.port}"
        print(
            f"cannot listen on {where} ({error.strerror}): name an address of this machine, such "
            f"as HOST={own_address()}, and a port that is free, such as PORT=8766",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
