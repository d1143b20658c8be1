"""Who waits for whom: reads what each rank says that it is doing, and draws the conclusion."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from helpers.cluster.rank.state import RankState, confirmed

SILENT_SECONDS = 1.0  # a watcher that runs confirms its rank's state every 0.1 s
WORDS = {"all": "every rank", "ANY_SOURCE": "any rank", "PROC_NULL": "nobody"}
LOSES = re.compile("irecv|recv_init|isendrecv|waitany|waitsome", re.IGNORECASE)
LOST_MESSAGE = (  # see helpers.tracing.point_to_point.come
    "Its message may be lost: MPICH 5.0 loses one from another host that arrives just before a "
    "receive from ANY_SOURCE is begun that does not wait. Recv, recv and Mprobe lose none."
)


@dataclass(frozen=True)
class Wait:
    """One rank that has not ended: what it is in, for whom it waits, where and how long.

    Its fields are as RankState's; `seconds` count since the call began, or the cell while it
    computes.
    """

    rank: int
    call: str | None
    peer: int | list[int] | str | None
    tag: int | str | None
    line: int | None
    text: str
    seconds: float
    members: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()

    def name(self, rank: int) -> str:
        """Return a rank, with its host where there are several: ``"3 (host1)"``."""
        return f"{rank} ({self.hosts[rank]})" if self.hosts else str(rank)


def read(folder: Path, ranks: Collection[int], now: float) -> list[Wait]:
    """Return what each of the ranks is doing, as it says itself."""
    found = []
    for rank in sorted(ranks):
        told = RankState.read(folder, rank)
        where = told.call, told.peer, told.tag, told.line, told.text
        seconds = max(0.0, now - (told.since or told.busy_since or now))
        found.append(Wait(rank, *where, seconds, told.members))
    return found


def silent(folder: Path, ranks: Collection[int], now: float) -> list[int]:
    """Return the ranks that have said nothing for a second.

    C code may hold their interpreter lock, or other programs the cores: see ``stacks``.
    """
    return [rank for rank in ranks if now - confirmed(folder, rank) > SILENT_SECONDS]


def from_stack(text: str, rank: int, seconds: float) -> Wait:
    """Read a Wait from the last stack that ``faulthandler`` wrote, which shows no tag."""
    frames = re.findall(r'File "(.+)", line (\d+) in (\S+)', text.rpartition("most recent call")[2])
    call = next((name for file, _, name in frames if file.startswith("<traced ")), None)
    line = next((int(number) for file, number, _ in frames if "ipykernel_" in file), None)
    peer = "all" if call in ("allreduce", "reduce", "scan", "exscan", "barrier") else None
    return Wait(rank, call, peer, None, line, "", seconds)


def hopeless(waits: list[Wait], ended: Collection[int], at_least: float = 1.0) -> set[int]:
    """Return the ranks that wait, directly or through others, for a rank that has ended.

    Calls shorter than `at_least` seconds do not count: a message that was sent before its sender
    ended is received sooner than that.
    """
    gone = set(ended)
    found: set[int] = set()
    candidates = [wait for wait in waits if wait.call and wait.seconds >= at_least]
    changed = True
    while changed:
        changed = False
        for wait in candidates:
            if wait.rank not in found and _is_hopeless(wait, gone | found):
                found.add(wait.rank)
                changed = True
    return found


def _is_hopeless(wait: Wait, gone: set[int]) -> bool:
    if isinstance(wait.peer, int):
        return wait.peer in gone
    if isinstance(wait.peer, list):
        needed = all if (wait.call or "").lower() in ("waitany", "waitsome") else any
        return bool(wait.peer) and needed(peer in gone for peer in wait.peer)
    others = [member for member in wait.members if member != wait.rank]
    if wait.peer == "all":  # a collective needs every member
        return any(member in gone for member in others)
    return bool(others) and all(member in gone for member in others)


def cycle(waits: list[Wait]) -> list[int]:
    """Return ranks each of which waits for the next, and the last for the first, or []."""
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
    told = [*map(_row, waits)]
    used = [k for k in range(len(head)) if any(row[k] for row in told)]
    rows = [[row[k] for k in used] for row in (head, *told)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    circle = cycle(waits)
    if circle:
        links = " → ".join(str(rank) for rank in [*circle, circle[0]])
        lines.append(f"Each waits for the next, in a circle: {links}. That is a deadlock.")
    if any(map(_may_have_lost, waits)):
        lines.append(LOST_MESSAGE)
    return "\n".join(lines)


def _may_have_lost(wait: Wait) -> bool:
    """Whether a rank waits, by a request, for a message from any rank of several hosts."""
    peers = wait.peer if isinstance(wait.peer, list) else [wait.peer]
    several = len(set(wait.hosts)) > 1
    return several and "ANY_SOURCE" in peers and bool(LOSES.search(wait.call or ""))


def _row(wait: Wait) -> tuple[str, ...]:
    line = ": ".join(filter(None, (str(wait.line or ""), wait.text)))
    if len(line) > 60:
        line = line[:59] + "…"
    if wait.call is None:
        return wait.name(wait.rank), "no MPI call", "", "", line, f"{wait.seconds:.1f} s"
    peer: object = wait.peer
    if isinstance(peer, int):
        peer = f"rank {wait.name(peer)}"
    elif isinstance(peer, list):  # of which some may be words
        ranks = [wait.name(one) for one in peer if isinstance(one, int)]
        words = [WORDS.get(one, one) for one in peer if isinstance(one, str)]
        peer = " and ".join([*([f"ranks {', '.join(ranks)}"] if ranks else []), *words])
    else:
        peer = WORDS.get(str(peer), peer)
    tag = "" if wait.tag is None else "any" if wait.tag == "ANY_TAG" else str(wait.tag)
    return wait.name(wait.rank), wait.call, str(peer or ""), tag, line, f"{wait.seconds:.1f} s"
