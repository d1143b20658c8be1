"""Send what a reader predicts, measures and solves to the board of the class, once they joined it.

>>> from helpers import board
>>> board.offer("a message", alpha=2e-6)   # nobody has joined: nothing is sent

What is sent waits in ``.progress/board.sqlite`` beside the notebook until the board has it: a
laptop that loses the network goes on, and sends later, once.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from helpers import progress

LASTS = 12 * 3600  # seconds for which a laptop belongs to a class
PATIENCE = 3.0  # seconds for one request
AT_ONCE = 50  # events of one request
_SAID = (
    "the predictions that you type and what their cells measure, measurements that a cell offers, "
    "and which exercises you solve"
)


class BoardError(RuntimeError):
    """The board refused, or there is none at the address."""


class Event(TypedDict):
    """What is sent, and all of it."""

    id: Annotated[str, {"pattern": r"\A[0-9a-f]{32}\Z"}]
    kind: Annotated[str, {"pattern": r"\A(said|came|solved|measured)\Z"}]
    notebook: Annotated[str, {"pattern": r"\A[\w.-]{0,60}\Z"}]
    name: Annotated[str, {"pattern": r"\A[^\x00-\x1f]{1,120}\Z"}]
    value: NotRequired[float | str]
    values: NotRequired[dict[str, float]]


def join(address: str = "", code: str = "", name: str = "") -> None:
    """Join the board of the class for twelve hours, from all notebooks of this folder.

    The teacher shows ``address``, such as ``"192.168.1.5:8765"``, and ``code``, six characters.
    Without them ``COURSE_BOARD`` in the environment is read (``"CODE@192.168.1.5:8765"``); on a
    class's JupyterHub neither is needed. ``name`` is shown on the board if you give one.
    BoardError: the address does not answer, or the code is not the class's.
    """
    if not address:
        code, _, address = os.environ.get("COURSE_BOARD", "").rpartition("@")
    hub = os.environ.get("COURSE_BOARD_SERVICE", "") if not address else ""
    address = address or hub
    if not address or not (code or hub):
        raise BoardError(
            'expected the address and the code that the teacher shows, as in join("192.168.1.5:'
            f'8765", "K7MPQ2"); got address {address!r} and code {code!r}'
        )
    url = address if "://" in address else f"http://{address}"
    said = {"code": code.strip().upper(), "name": name}
    said |= {"hub": os.environ.get("JUPYTERHUB_API_TOKEN", "")} if hub else {}
    reply = _post(f"{url.rstrip('/')}/api/join", said)
    with _kept() as kept:
        kept.execute("DELETE FROM membership")
        kept.execute(
            "INSERT INTO membership VALUES (?, ?, ?)",
            (url.rstrip("/"), reply["token"], time.time() + LASTS),
        )
    until = time.strftime("%H:%M", time.localtime(time.time() + LASTS))
    print(
        f"You joined the board at {url}, {f'as {name}' if name else 'without a name'}. Until "
        f"{until} it gets {_SAID}. It gets no code and no file. board.leave() ends this; "
        "board.withdraw() also deletes what you sent."
    )


def leave() -> None:
    """Send nothing from now on, not even what still waits."""
    with _kept() as kept:
        kept.execute("DELETE FROM membership")
        kept.execute("DELETE FROM outbox")
    print("You left the board. Nothing is sent any more.")


def withdraw() -> None:
    """Delete what you sent from the board, and leave it; BoardError if it is out of reach."""
    member = _member()
    if member is None:
        raise BoardError("you have not joined a board, so there is nothing to withdraw")
    _post(f"{member[0]}/api/withdraw", {}, member[1])
    leave()


def joined() -> bool:
    """Tell whether this folder belongs to a class's board now."""
    return _member() is not None


def offer(name: str, **values: float) -> None:
    """Offer what this laptop measured, by name: ``offer("a message", alpha=2e-6, beta=1e-9)``."""
    _tell("measured", name, values={key: float(value) for key, value in values.items()})


def said(name: str, value: object) -> None:
    """Tell what the reader predicts."""
    if progress.plain(value) is not None:
        _tell("said", name, value=progress.plain(value))


def came(name: str, value: object) -> None:
    """Tell what came out."""
    if progress.plain(value) is not None:
        _tell("came", name, value=progress.plain(value))


def solved(title: str) -> None:
    """Tell that an exercise is solved."""
    _tell("solved", title)


def flush(limit: float = 10.0) -> int:
    """Wait until all is sent, ``limit`` seconds at most; return how many events still wait."""
    end = time.monotonic() + limit
    while True:
        if not _file().exists():
            return 0
        with _kept() as kept:
            (left,) = kept.execute("SELECT count(*) FROM outbox").fetchone()
        if not left or time.monotonic() > end:
            return left
        _wake()
        time.sleep(0.05)


def _tell(kind: str, name: str, **more: Any) -> None:
    """Put an event into the outbox if this reader has joined; never disturb the notebook."""
    with contextlib.suppress(OSError, sqlite3.Error, BoardError):
        if not _file().exists() and os.environ.get("COURSE_BOARD"):
            _join_by_environment()
        if _member() is None:
            return
        path = progress.notebook()
        stem = re.sub(r"[^\w.-]", "_", path.stem)[:60] if path else ""
        event = {"id": uuid.uuid4().hex, "kind": kind, "notebook": stem}
        event |= {"name": progress.printable(name), **more}
        with _kept() as kept:
            kept.execute("INSERT INTO outbox (event) VALUES (?)", (json.dumps(event),))
        _wake()


_refused: set[str] = set()  # values of COURSE_BOARD that were tried in vain


def _join_by_environment() -> None:
    value = os.environ["COURSE_BOARD"]
    if value in _refused:
        return
    try:
        join()
    except BoardError as error:
        _refused.add(value)
        print(f"COURSE_BOARD={value}: {error}. The notebook goes on without the board.")


def _file() -> Path:
    path = progress.notebook()
    return (path.parent if path else Path.cwd()) / progress.PLACE / "board.sqlite"


@contextlib.contextmanager
def _kept() -> Iterator[sqlite3.Connection]:
    """Open what is kept: the membership, and what waits; all kernels of a folder share it."""
    file = _file()
    file.parent.mkdir(exist_ok=True)
    connection = sqlite3.connect(file, timeout=5)
    try:
        with connection:
            connection.execute("CREATE TABLE IF NOT EXISTS membership (url, token, until)")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS outbox (number INTEGER PRIMARY KEY, event)"
            )
            yield connection
    finally:
        connection.close()


def _member() -> tuple[str, str] | None:
    """Return the board's address and this laptop's token, as long as it belongs to a class."""
    if not _file().exists():
        return None
    with _kept() as kept:
        row = kept.execute("SELECT url, token, until FROM membership").fetchone()
    return row[:2] if row and row[2] > time.time() else None


def _post(url: str, body: dict, token: str = "") -> dict:
    """Send JSON and return the answer; BoardError says what the board said."""
    import urllib.request  # costs every kernel 30 ms, and few join
    from urllib.error import HTTPError

    headers = {"Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=PATIENCE) as reply:
            return json.loads(reply.read())
    except HTTPError as error:
        with error:
            said = error.read(2000).decode(errors="replace")
        refused = BoardError(said or f"the board answered {error.code}")
        refused.status = error.code  # type: ignore[attr-defined]
        raise refused from None
    except (OSError, ValueError) as error:
        raise BoardError(f"there is no board at {url.partition('/api')[0]}: {error}") from None


_sender: threading.Thread | None = None
_news = threading.Event()


def _wake() -> None:
    """Have a thread send what waits."""
    global _sender
    _news.set()
    if _sender is None or not _sender.is_alive():
        _sender = threading.Thread(target=_send_all, name="board", daemon=True)
        _sender.start()


def _send_all() -> None:
    """Send what waits, oldest first, until nothing does; out of reach, try again later."""
    pause = 0.5
    while True:
        _news.clear()
        try:
            more = _send_some()
            pause = 0.5
        except (OSError, sqlite3.Error, BoardError):
            more, pause = True, min(2 * pause, 30.0)
            time.sleep(pause)
        if not more and not _news.wait(0.2):
            return


def _send_some() -> bool:
    """Send one request's worth, and return whether more waits; BoardError: try again later."""
    member = _member()
    if member is None:
        return False
    with _kept() as kept:
        rows = kept.execute("SELECT number, event FROM outbox LIMIT ?", (AT_ONCE,)).fetchall()
    if rows:
        _send_rows(member, rows)
    return bool(rows)


def _send_rows(member: tuple[str, str], rows: list[tuple[int, str]]) -> None:
    """Send these, and forget them: what the board refuses takes no other event with it."""
    try:
        _post(f"{member[0]}/api/send", {"events": [json.loads(e) for _, e in rows]}, member[1])
    except BoardError as error:
        status = getattr(error, "status", 0)
        if status in (0, 429) or status >= 500:
            raise
        if status == 401:  # withdrawn elsewhere, or another class's board
            with _kept() as kept:
                kept.execute("DELETE FROM membership")
        elif len(rows) > 1:
            time.sleep(1)  # one at a time, not faster than a member may ask
            for row in rows:
                _send_rows(member, [row])
                time.sleep(0.25)
            return
    with _kept() as kept:
        kept.executemany("DELETE FROM outbox WHERE number = ?", [(n,) for n, _ in rows])


@atexit.register
def _at_exit() -> None:
    if _sender is not None:
        with contextlib.suppress(OSError, sqlite3.Error):
            flush(1.0)
