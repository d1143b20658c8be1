"""What a class sent, in one SQLite file: events as they came, and what the teacher shows."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import secrets
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # none that is read as another
LENGTH = 6
GOES_ON = 12 * 3600  # seconds in which a board that starts again goes on with its class
TABLES = """
CREATE TABLE IF NOT EXISTS classes (
    id INTEGER PRIMARY KEY, code TEXT, key TEXT, begun REAL, notebook TEXT, name TEXT);
CREATE TABLE IF NOT EXISTS members (
    id INTEGER PRIMARY KEY, class INTEGER, token TEXT UNIQUE, name TEXT, joined REAL);
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, class INTEGER, member INTEGER, at REAL, kind TEXT,
    notebook TEXT, name TEXT, value TEXT);
CREATE INDEX IF NOT EXISTS asked ON events (class, notebook, name);
CREATE INDEX IF NOT EXISTS sent ON events (member);
CREATE TABLE IF NOT EXISTS revealed (
    class INTEGER, notebook TEXT, name TEXT, UNIQUE (class, notebook, name));
"""


class Store:
    """The file of all classes; writes are on disk when a method returns."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=DELETE")
        self.db.executescript(TABLES)

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    def begin(self, new: bool = False) -> int:
        """Go on with the class that was begun last, if it is today's; else begin one."""
        row = self.db.execute("SELECT id, begun FROM classes ORDER BY id DESC LIMIT 1").fetchone()
        if row and not new and time.time() - row[1] < GOES_ON:
            return row[0]
        code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        made = self.db.execute(
            "INSERT INTO classes (code, key, begun) VALUES (?, ?, ?)",
            (code, secrets.token_urlsafe(12), time.time()),
        )
        return int(made.lastrowid or 0)

    def classes(self) -> list[dict[str, Any]]:
        """Return every class, the newest first, with how many joined it."""
        rows = self.db.execute(
            "SELECT c.id, begun, count(m.id) FROM classes c LEFT JOIN members m ON m.class = c.id "
            "GROUP BY c.id ORDER BY c.id DESC"
        )
        return [{"id": i, "begun": begun, "members": count} for i, begun, count in rows]

    def secrets_of(self, which: int) -> tuple[str, str]:
        """Return a class's join code and its teacher's key."""
        return self.db.execute("SELECT code, key FROM classes WHERE id = ?", (which,)).fetchone()

    def join(self, which: int, name: str) -> str:
        """Add a member; return the token that it shows from now on."""
        token = secrets.token_urlsafe(24)
        self.db.execute(
            "INSERT INTO members (class, token, name, joined) VALUES (?, ?, ?, ?)",
            (which, _digest(token), name, time.time()),
        )
        return token

    def members(self, which: int) -> int:
        """Return how many belong to a class."""
        return self.db.execute("SELECT count(*) FROM members WHERE class = ?", (which,)).fetchone()[
            0
        ]

    def member(self, which: int, token: str) -> int | None:
        """Return the member of a class who has this token."""
        row = self.db.execute(
            "SELECT id FROM members WHERE token = ? AND class = ?", (_digest(token), which)
        ).fetchone()
        return row[0] if row else None

    def add(self, which: int, member: int, events: Iterable[dict[str, Any]]) -> None:
        """Add events; one that came before is not added again."""
        self.db.execute("BEGIN")
        self.db.executemany(
            "INSERT OR IGNORE INTO events (id, class, member, at, kind, notebook, name, value) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (e["id"], which, member, time.time(), e["kind"], e["notebook"], e["name"], _json(e))
                for e in events
            ],
        )
        self.db.execute("COMMIT")

    def sent(self, member: int) -> int:
        """Return how many events of a member are kept."""
        return self.db.execute(
            "SELECT count(*) FROM events WHERE member = ?", (member,)
        ).fetchone()[0]

    def withdraw(self, member: int) -> None:
        """Delete a member, and all that it sent."""
        self.db.execute("BEGIN")
        self.db.execute("DELETE FROM events WHERE member = ?", (member,))
        self.db.execute("DELETE FROM members WHERE id = ?", (member,))
        self.db.execute("COMMIT")

    def show(self, which: int, notebook: str, name: str) -> None:
        """Put a question on the projector."""
        self.db.execute(
            "UPDATE classes SET notebook = ?, name = ? WHERE id = ?", (notebook, name, which)
        )

    def reveal(self, which: int, notebook: str, name: str, on: bool) -> None:
        """Show what was measured beside what was predicted, or hide it again."""
        change = "INSERT OR IGNORE INTO" if on else "DELETE FROM"
        rest = "VALUES (?, ?, ?)" if on else "WHERE class = ? AND notebook = ? AND name = ?"
        self.db.execute(f"{change} revealed {rest}", (which, notebook, name))

    def state(self, which: int) -> dict[str, Any]:
        """Return what the projector's page shows of a class."""
        topics = self.db.execute(
            "SELECT notebook, name, count(DISTINCT CASE kind WHEN 'said' THEN member END), "
            "count(DISTINCT CASE kind WHEN 'came' THEN member END), "
            "count(DISTINCT CASE kind WHEN 'measured' THEN member END), "
            "count(DISTINCT CASE kind WHEN 'solved' THEN member END) "
            "FROM events WHERE class = ? GROUP BY notebook, name ORDER BY min(number)",
            (which,),
        ).fetchall()
        opened = set(
            self.db.execute("SELECT notebook, name FROM revealed WHERE class = ?", (which,))
        )
        shown = self.db.execute(
            "SELECT notebook, name FROM classes WHERE id = ?", (which,)
        ).fetchone()
        names = self.db.execute("SELECT name FROM members WHERE class = ?", (which,)).fetchall()
        asked = [
            {"notebook": n, "name": q, "said": said, "came": came, "revealed": (n, q) in opened}
            for n, q, said, came, *_ in topics
            if said
        ]
        offered = [
            {"notebook": n, "name": q, "count": count} for n, q, _, _, count, _ in topics if count
        ]
        solved = [{"notebook": n, "name": q, "count": c} for n, q, *_, c in topics if c]
        return {
            "members": len(names),
            "names": sorted(name for (name,) in names if name),
            "questions": asked,
            "measurements": offered,
            "solved": solved,
            "shown": self.question(which, *shown) if shown and shown[1] else None,
        }

    def question(self, which: int, notebook: str, name: str) -> dict[str, Any]:
        """Return one question's values; what came out is held back until it is revealed."""
        rows = self.db.execute(
            "SELECT member, kind, value FROM events WHERE class = ? AND notebook = ? AND name = ? "
            "ORDER BY number",
            (which, notebook, name),
        ).fetchall()
        said, came, measured = folded(rows)
        opened = self.db.execute(
            "SELECT 1 FROM revealed WHERE class = ? AND notebook = ? AND name = ?",
            (which, notebook, name),
        ).fetchone()
        return {
            "notebook": notebook,
            "name": name,
            "said": list(said.values()),
            "came": list(came.values()) if opened else [],
            "came_count": len(came),
            "revealed": bool(opened),
            "measured": list(measured.values()),
        }

    def as_csv(self, which: int) -> str:
        """Return all of a class as a table; members are numbers."""
        out = io.StringIO()
        table = csv.writer(out)
        table.writerow(["time", "member", "notebook", "kind", "name", "value"])
        for at, *row in self.db.execute(
            "SELECT at, member, notebook, kind, name, value FROM events WHERE class = ? "
            "ORDER BY number",
            (which,),
        ):
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
            *plain, value = row
            shown = json.loads(value)
            shown = json.dumps(shown) if isinstance(shown, dict) else shown
            table.writerow([stamp, *map(_cell, plain), _cell(shown)])
        return out.getvalue()


def folded(rows: Iterable[tuple[int, str, str]]) -> tuple[dict, dict, dict]:
    """Return, for each member, what it said before it knew, what came last, what it measured."""
    said: dict[int, Any] = {}
    came: dict[int, Any] = {}
    measured: dict[int, Any] = {}
    for member, kind, text in rows:
        value = json.loads(text)
        if kind == "said" and member not in came:
            said[member] = value
        elif kind == "came":
            came[member] = value
        elif kind == "measured":
            measured[member] = value
    return said, came, measured


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _json(event: dict[str, Any]) -> str:
    return json.dumps(event.get("values", event.get("value")))


def _cell(value: object) -> object:
    """Return a text such that no spreadsheet takes it for a formula."""
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text[:1] in ("=", "+", "-", "@") else value
