"""Who waits for whom: reads what each rank says that it is doing, and draws the conclusion."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wait:
    """One rank that has not ended: what it is in, for whom it waits, where and how long.

    ``call`` is None while the rank computes. ``peer`` is a rank, a list of ranks, or
    ``"ANY_SOURCE"`` or ``"all"``. ``members`` are the ranks of the communicator where they are
    known. ``seconds`` counts since the call began (while the rank computes: since the cell began).
    """

    rank: int
    call: str | None
    peer: int | list[int] | str | None
    tag: int | str | None
    line: int | None
    text: str
    seconds: float
    members: tuple[int, ...] = ()


def read(folder: Path, ranks: Collection[int], now: float) -> list[Wait]:
    """Return one Wait for each of ``ranks``, from the files that the ranks keep in ``folder``."""
    return [_read_one(folder / f"rank-{rank}.json", rank, now) for rank in sorted(ranks)]


def silent(folder: Path, ranks: Collection[int], now: float) -> list[int]:
    """Return the ranks whose file is older than a second: C code holds their interpreter lock."""
    return [rank for rank in ranks if now - _changed(folder / f"rank-{rank}.json") > 1.0]


def from_stack(text: str, rank: int, seconds: float) -> Wait:
    """Read a Wait from the stacks that ``faulthandler`` wrote (the main thread's comes last)."""
    frames = re.findall(r'File "(.+)", line (\d+) in (\S+)', text.rpartition("most recent call")[2])
    call = next((name for file, _, name in frames if file.startswith("<traced ")), None)
    line = next((int(number) for file, number, _ in frames if "ipykernel_" in file), None)
    peer = "all" if call in ("allreduce", "reduce", "scan", "exscan", "barrier") else None
    return Wait(rank, call, peer, None, line, "", seconds)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _read_one(path: Path, rank: int, now: float) -> Wait:
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError):
        return Wait(rank, None, None, None, None, "", 0.0)
    begin = state.get("since") or state.get("busy_since") or now
    return Wait(
        rank,
        state.get("call"),
        state.get("peer"),
        state.get("tag"),
        state.get("line"),
        state.get("text", ""),
        max(0.0, now - begin),
        tuple(state.get("members") or ()),
    )


def stuck(waits: list[Wait], ended: Collection[int], at_least: float = 1.0) -> set[int]:
    """Return the ranks that wait, directly or through others, for a rank that has ended.

    Only calls of at least ``at_least`` seconds count: a message sent before its sender ended is
    received sooner than that.
    """
    gone = set(ended)
    found: set[int] = set()
    candidates = [wait for wait in waits if wait.call and wait.seconds >= at_least]
    changed = True
    while changed:
        changed = False
        for wait in candidates:
            if wait.rank not in found and _hopeless(wait, gone | found):
                found.add(wait.rank)
                changed = True
    return found


def _hopeless(wait: Wait, gone: set[int]) -> bool:
    if isinstance(wait.peer, int):
        return wait.peer in gone
    if isinstance(wait.peer, list):
        needed = all if wait.call.lower() in ("waitany", "waitsome") else any
        return bool(wait.peer) and needed(peer in gone for peer in wait.peer)
    others = [member for member in wait.members if member != wait.rank]
    if wait.peer == "all":  # a collective needs every member
        return any(member in gone for member in others)
    return bool(others) and all(member in gone for member in others)


def cycle(waits: list[Wait]) -> list[int]:
    """Return ranks each of which waits for the next and the last for the first, or []."""
    waits_for = {wait.rank: wait.peer for wait in waits if wait.call and isinstance(wait.peer, int)}
    for start in waits_for:
        path = [start]
        while (following := waits_for.get(path[-1])) is not None and following not in path:
            path.append(following)
        if following == start:
            return path
    return []


def table(waits: list[Wait]) -> str:
    """Format the waits as a table, with the circle of waiting ranks named if there is one."""
    head = ("rank", "is in", "waits for", "tag", "line of the cell", "for")
    rows = [head, *(_row(wait) for wait in waits)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    circle = cycle(waits)
    if circle:
        links = " → ".join(str(rank) for rank in [*circle, circle[0]])
        lines.append(f"Each waits for the next, in a circle: {links}. That is a deadlock.")
    return "\n".join(lines)


def _row(wait: Wait) -> tuple[str, ...]:
    line = f"{wait.line}: {wait.text}" if wait.line else ""
    if len(line) > 60:
        line = line[:59] + "…"
    if wait.call is None:
        return str(wait.rank), "no MPI call", "", "", line, f"{wait.seconds:.1f} s"
    peer = wait.peer
    if isinstance(peer, int):
        peer = f"rank {peer}"
    elif isinstance(peer, list):
        peer = "ranks " + ", ".join(map(str, peer))
    elif peer == "all":
        peer = "every rank"
    elif peer == "ANY_SOURCE":
        peer = "any rank"
    tag = {None: "", "ANY_TAG": "any"}.get(wait.tag, str(wait.tag))
    return str(wait.rank), wait.call, str(peer or ""), tag, line, f"{wait.seconds:.1f} s"
