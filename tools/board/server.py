"""The board's server: students send events to it, the teacher's page asks it each second."""

from __future__ import annotations

import json
import secrets
import time
from collections import defaultdict
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tornado.web import Application, HTTPError, RequestHandler

from helpers.board import AT_ONCE, Event
from helpers.progress import LARGEST
from helpers.records import SchemaError, check
from tools.board.store import Store

BODY = 64 * 1024  # bytes of the largest request
WRONG_CODES = 10  # of one address in a minute
REQUESTS = 5.0  # of one member in a second
EVENTS = 120 / 60  # of one member in a second
BURST = 400  # events that a laptop may send at once when it is back on the network
KEPT = 5000  # events of one member
MEMBERS = 300
PAGE = Path(__file__).with_name("page")
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


class Bucket:
    """How much somebody may still do: so much at once, and so much more each second."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self.left, self.seen = burst, time.monotonic()

    def take(self, count: float) -> bool:
        """Take ``count``, and tell whether there was so much."""
        now = time.monotonic()
        self.left = min(self.burst, self.left + (now - self.seen) * self.rate)
        self.seen = now
        if count > self.left:
            return False
        self.left -= count
        return True


class Board:
    """One class at a time, and how fast each of its members may send."""

    def __init__(self, store: Store, new: bool = False) -> None:
        self.store = store
        self.now = store.begin(new)
        self.code, self.key = store.secrets_of(self.now)
        self.codes: dict[str, Bucket] = defaultdict(lambda: Bucket(WRONG_CODES / 60, WRONG_CODES))
        self.requests: dict[int, Bucket] = defaultdict(lambda: Bucket(REQUESTS, 4 * REQUESTS))
        self.known: Callable[[str], bool] | None = None  # on a hub: whether a token is a user's
        self.events: dict[int, Bucket] = defaultdict(lambda: Bucket(EVENTS, BURST))

    def join(self, address: str, body: Any) -> str:
        """Return a new member's token."""
        name = body.get("name", "") if isinstance(body, dict) else None
        code = body.get("code") if isinstance(body, dict) else None
        if not isinstance(code, str) or not isinstance(name, str) or len(name) > 40:
            raise _refused(400, "expected a code and a name of at most 40 characters")
        shown = body.get("hub")
        if self.known is not None and isinstance(shown, str) and shown:
            if not self.known(shown):
                raise _refused(403, "the hub does not know this token: log in again")
            return self._admit(name)
        tries = self.codes[address]
        if not tries.take(1):
            raise _refused(429, "too many wrong codes from this address: wait a minute")
        if not secrets.compare_digest(code.encode(), self.code.encode()):
            raise _refused(403, f"{code!r} is not the code of this class: read it again")
        tries.left += 1  # a hub's students all come from one address
        return self._admit(name)

    def _admit(self, name: str) -> str:
        if self.store.members(self.now) >= MEMBERS:
            raise _refused(403, f"the class is full: {MEMBERS} have joined")
        return self.store.join(self.now, " ".join(name.split()))

    def member(self, token: str) -> int:
        """Return who sends, if they may send just now."""
        member = self.store.member(self.now, token)
        if member is None:
            raise _refused(401, "this laptop does not belong to the class: join again")
        if not self.requests[member].take(1):
            raise _refused(429, "too many requests: wait a second")
        return member

    def send(self, member: int, body: Any) -> None:
        """Keep a member's events, all or none."""
        events = body.get("events") if isinstance(body, dict) else None
        if not isinstance(events, list) or not 0 < len(events) <= AT_ONCE:
            raise _refused(400, f"expected 1 to {AT_ONCE} events")
        try:
            for index, event in enumerate(events):
                check(event, Event, f"events[{index}]")
                _sized(event, f"events[{index}]")
        except SchemaError as error:
            raise _refused(400, str(error)[:300]) from None
        if not self.events[member].take(len(events)):
            raise _refused(429, "too many events: wait a minute")
        if self.store.sent(member) + len(events) > KEPT:
            raise _refused(403, f"{KEPT} events of one laptop are kept, not more")
        self.store.add(self.now, member, events)


def _sized(event: dict[str, Any], where: str) -> None:
    """Refuse what the types allow and the board does not: long texts, many or huge values."""
    wanted = {"said": "value", "came": "value", "measured": "values", "solved": None}[event["kind"]]
    given = [name for name in ("value", "values") if name in event]
    if given != [name for name in (wanted,) if name]:
        raise SchemaError(f"{where}: expected {wanted or 'no value'}, got {given}")
    values = event.get("values", {})
    if len(values) > 4 or any(not 0 < len(name) <= 40 for name in values):
        raise SchemaError(f"{where}: expected at most 4 values with names of 1 to 40 letters")
    for value in (*values.values(), *([event["value"]] if "value" in event else ())):
        if isinstance(value, str) and (len(value) > 120 or not value.isprintable()):
            raise SchemaError(f"{where}: expected at most 120 printable characters")
        if not isinstance(value, str) and abs(value) > LARGEST:
            raise SchemaError(f"{where}: expected at most {LARGEST:g}, got {value!r}")


def _refused(status: int, message: str) -> HTTPError:
    error = HTTPError(status)
    error.message = message  # type: ignore[attr-defined]
    return error


class Handler(RequestHandler):
    """What every answer has in common: no cache, no other host, errors as a line of text."""

    def initialize(self, board: Board) -> None:
        self.board = board

    def set_default_headers(self) -> None:
        self.set_header(
            "Content-Security-Policy",
            "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
        )
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")
        self.clear_header("Server")

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(getattr(error, "message", HTTPStatus(status_code).phrase))

    def body(self) -> Any:
        """Return the request's JSON."""
        try:
            return json.loads(self.request.body, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise _refused(400, "expected JSON") from None

    def token(self) -> str:
        """Return what the request shows to prove who sends it."""
        return self.request.headers.get("Authorization", "").removeprefix("Bearer ")

    def teacher(self) -> None:
        """Refuse whoever does not have the teacher's key."""
        if not secrets.compare_digest(self.token().encode(), self.board.key.encode()):
            raise _refused(401, "this is the teacher's: open the address that `make board` prints")

    def asked(self) -> int:
        """Return the class that the teacher asks for: today's if the request names none."""
        self.teacher()
        name = self.get_query_argument("class", "")
        known = [str(one["id"]) for one in self.board.store.classes()]
        if name and name not in known:
            raise _refused(404, f"there is no class {name}")
        return int(name) if name else self.board.now


def _no_number(name: str) -> None:
    raise ValueError(name)


class Join(Handler):
    def post(self) -> None:
        self.write({"token": self.board.join(self.request.remote_ip or "", self.body())})


class Send(Handler):
    def post(self) -> None:
        self.board.send(self.board.member(self.token()), self.body())
        self.write({})


class Withdraw(Handler):
    def post(self) -> None:
        self.board.store.withdraw(self.board.member(self.token()))
        self.write({})


class State(Handler):
    """What the projector shows: of today's class, or of an earlier one."""

    def get(self) -> None:
        which = self.asked()
        more = {"class": which, "classes": self.board.store.classes(), "code": self.board.code}
        self.write(self.board.store.state(which) | more)


class Show(Handler):
    """The teacher's two buttons: which question, and whether its answers are seen."""

    def post(self) -> None:
        self.teacher()
        asked = self.body()
        try:
            which, notebook, name = int(asked["class"]), str(asked["notebook"]), str(asked["name"])
        except (KeyError, TypeError, ValueError):
            raise _refused(400, "expected class, notebook and name") from None
        self.board.store.show(which, notebook, name)
        if "reveal" in asked:
            self.board.store.reveal(which, notebook, name, bool(asked["reveal"]))
        self.write({})


class Table(Handler):
    """A class as CSV."""

    def get(self) -> None:
        which = self.asked()
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.write(self.board.store.as_csv(which))


class Page(Handler):
    """The page, its code and its style, which need no key: they hold nothing."""

    def get(self, name: str) -> None:
        path = PAGE / (name or "index.html")
        if path.parent != PAGE or not path.is_file():
            raise HTTPError(404)
        self.set_header("Content-Type", f"{TYPES[path.suffix]}; charset=utf-8")
        self.write(path.read_bytes())


def routes() -> list[tuple[str, type[Handler]]]:
    """Return what answers at which path."""
    return [
        ("/api/join", Join),
        ("/api/send", Send),
        ("/api/withdraw", Withdraw),
        ("/api/state", State),
        ("/api/show", Show),
        ("/api/csv", Table),
        ("/([a-z.]*)", Page),
    ]


def application(board: Board) -> Application:
    """Return the server."""
    found: list[Any] = [(path, kind, {"board": board}) for path, kind in routes()]
    return Application(found, log_function=lambda handler: None)  # a terminal is no log
