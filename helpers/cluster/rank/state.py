"""What the ranks and the notebook leave each other in a folder: every file, and what is in it.

=============  ========================  =======================================================
file           written by                what it says
=============  ========================  =======================================================
interrupt      the notebook              its time of change: when busy ranks were asked to stop
rank-N.json    rank N, every 0.1 s       a :class:`RankState`; an old file: the rank cannot run it
live-N.json    rank N, every 0.2 s       the end of what a cell has printed and displayed so far
input-N.json   rank N                    what rank N asks the reader, while it waits
answer-N.json  the notebook              the reader's last answer to rank N
stack-N        rank N, at SIGUSR1        its stack while C code holds the lock, see :mod:`.stacks`
exit-N         the shell around rank N   the exit code, as a decimal number
=============  ========================  =======================================================

Files and no socket: what a rank did last is read although it was killed or C code holds its lock,
and Slurm's ranks on other hosts leave it in a shared folder. No other module spells these names. A
:data:`Part` is what a rank has printed or displayed.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

EXIT = "exit-"  # and the rank: a shell writes it, see launch.RANK_SCRIPT
Left = Literal["live", "input", "answer"]


@dataclass(frozen=True)
class RankState:
    """What one rank is doing, as its watcher saw it last; without a `call` it computes.

    Times since the epoch are in seconds, `begin_ns` is ``time.perf_counter_ns`` on the rank. `peer`
    is a rank or ranks of ``COMM_WORLD``, ``"ANY_SOURCE"`` or ``"all"``.
    """

    rank: int
    busy_since: float | None = None
    call: str | None = None
    peer: int | list[int] | str | None = None
    tag: int | str | None = None
    begin_ns: int | None = None
    since: float | None = None
    members: tuple[int, ...] = ()
    line: int | None = None
    text: str = ""

    def write(self, folder: Path) -> None:
        """Put the state in place of the rank's last one."""
        write_json(_state_file(folder, self.rank), asdict(self))

    def confirm(self, folder: Path) -> None:
        """Say that the state written last still holds, by its file's time of change."""
        os.utime(_state_file(folder, self.rank))

    @classmethod
    def read(cls, folder: Path, rank: int) -> RankState:
        """Return what the rank wrote last, an idle state if it wrote nothing yet."""
        told = read_json(_state_file(folder, rank)) or {}
        told = {field.name: told[field.name] for field in fields(cls) if field.name in told}
        return cls(**{**told, "rank": rank, "members": tuple(told.get("members", ()))})


def confirmed(folder: Path, rank: int) -> float:
    """Return when a rank last wrote or confirmed its state, in seconds; 0 if never."""
    return _changed_ns(_state_file(folder, rank)) / 1e9


def stack_file(folder: Path, rank: int) -> Path:
    """Return the file into which a rank writes its stacks; the rank makes it when it starts."""
    return folder / f"stack-{rank}"


def ask_to_stop(folder: Path) -> None:
    """Ask every busy rank to raise KeyboardInterrupt."""
    path = folder / "interrupt"
    path.touch()
    now = time.time_ns()  # finer than what touch() leaves on some file systems
    os.utime(path, ns=(now, now))


def asked_to_stop(folder: Path) -> int:
    """Return when the ranks were last asked to stop, in ns since the epoch; 0 if never."""
    return _changed_ns(folder / "interrupt")


def exits(folder: Path) -> list[tuple[int, int]]:
    """Return each rank that ended and its exit code, as a shell counts it, the first one first."""
    found = []
    for path in sorted(folder.glob(f"{EXIT}*"), key=_changed_ns):
        rank, code = path.name.removeprefix(EXIT), path.read_text().strip()
        if rank.isdigit() and code.isdigit():  # not half written, and the rank known to the shell
            found.append((int(rank), int(code)))
    return found


def clear(folder: Path) -> None:
    """Remove what the last set of ranks wrote."""
    for path in folder.glob("*-*"):
        path.unlink(missing_ok=True)


def leave(folder: Path, what: Left, rank: int, content: object) -> None:
    """Leave plain data about a rank for the other side; nothing (None, []) takes it away."""
    path = _left_file(folder, what, rank)
    if content:
        write_json(path, content)
    else:
        path.unlink(missing_ok=True)


def left(folder: Path, what: Left, rank: int) -> Any:
    """Return what :func:`leave` left about a rank, None if there is nothing."""
    return read_json(_left_file(folder, what, rank))


def write_json(path: Path, content: object) -> None:
    """Write a file of which a reader never sees half."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, default=str))
    part.replace(path)


def read_json(path: Path) -> Any:
    """Return what a file says; None if there is none."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _left_file(folder: Path, what: Left, rank: int) -> Path:
    return folder / f"{what}-{rank}.json"


def _state_file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.json"


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


Part = tuple[str, Any]  # ("stdout" | "stderr", text) or ("display" | "result", message content)
LIVE_LINES = 40  # so much of a cell's output is shown while it runs
MAX_LINE = 2000  # characters of a line that is shown while the cell runs


def settled(line: str) -> str:
    r"""Return what a terminal shows of a line in which carriage returns go back to its beginning.

    >>> settled("step 10 of 99\rstep 11")
    'step 11 of 99'
    """
    shown = ""
    for state in line.split("\r"):
        shown = state + shown[len(state) :]
    return shown


def tail(parts: list[Part], lines: int) -> list[Part]:
    """Return the last lines of what a rank has given; a display counts as one line."""
    found: list[Part] = []
    for kind, content in reversed(parts):
        if lines <= 0:
            break
        if isinstance(content, str):
            # nothing is cut into lines but those that count: text may be long
            last = content.rstrip("\n").rsplit("\n", lines)[-lines:]
            found.append((kind, "\n".join(line[-MAX_LINE:] for line in last)))
            lines -= len(last)
        else:
            found.append((kind, content))
            lines -= 1
    return found[::-1]
