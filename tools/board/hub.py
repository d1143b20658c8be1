"""The board as a service of JupyterHub: students show the hub's own token in place of a code."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlparse

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import Application, RequestHandler, authenticated

from tools.board.server import Board, routes


class Open(HubOAuthenticated, RequestHandler):  # type: ignore[misc]
    """``/services/board/open``: a teacher who is logged in gets the projector's page."""

    def initialize(self, board: Board) -> None:
        self.board = board

    @authenticated
    def get(self) -> None:
        self.redirect(f"{os.environ['JUPYTERHUB_SERVICE_PREFIX']}#{self.board.key}")


def address() -> tuple[str, int]:
    """Return where the hub expects this service to listen."""
    url = urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
    return url.hostname or "127.0.0.1", url.port or 80


def application(board: Board) -> Application:
    """Return the board's routes below the service's prefix."""
    auth = HubOAuth.instance()

    def known(token: str) -> bool:
        user = auth.user_for_token(token)
        return bool(user) and user.get("kind") == "user"

    board.known = known
    prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"].rstrip("/")
    found: list[Any] = [(f"{prefix}/open", Open, {"board": board})]
    found += [(f"{prefix}/oauth_callback", HubOAuthCallbackHandler)]
    found += [(f"{prefix}{path}", kind, {"board": board}) for path, kind in routes()]
    return Application(found, cookie_secret=os.urandom(32), log_function=lambda handler: None)
