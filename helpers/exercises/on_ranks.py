"""An answer called on ranks, and what becomes of it, told in the words of its own lines."""

from __future__ import annotations

import dis
import functools
import importlib
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from helpers.exercises.core import NotAttempted, short, unattempted, wrong

if TYPE_CHECKING:
    from helpers.cluster import Cluster

RANKS_LIMIT = 4.0  # seconds for an answer on the ranks: with clearing up, a deadlock ends in five


def on_ranks(
    cluster: Cluster,
    function: Callable[..., object],
    answer: Callable[..., object],
    *arguments: object,
    limit: float = RANKS_LIMIT,
    world: bool = False,
) -> list:
    """Call ``function(answer, *arguments)`` on every rank; the answer's faults become words.

    On the ranks ``answer.calls`` holds what it called of MPI the last time, as records of
    :mod:`helpers.tracing.activity`; ``answer.attempted()`` says that it did something, though it
    returned nothing. In a ``world`` an answer may use ``comm``, ``rank``, ``size`` and ``dist``;
    else it is refused the first three, and should ask the communicator that it is given.
    """
    from helpers.cluster import RankDiedError, RankError, RankTimeoutError

    if not callable(answer):
        wrong(f"expected a function, got {short(answer)}")
    if not world:
        _must_ask_its_comm(answer)
    cluster.run(_load, function.__module__)  # its imports are not the answer's time
    try:
        # A partial has no file, so that who waits for whom is told with the answer's lines alone.
        watched = functools.partial(_watched, function, answer, arguments, world)
        replies = cluster.run(watched, timeout=limit)
    except RankTimeoutError as error:
        groups = {wait.members for wait in error.waits if wait.call and wait.members}
        size = len(groups.pop()) if len(groups) == 1 else 0
        among = f", among {size} ranks" if size > 1 else ""
        done = sorted(set(range(cluster.n)) - {wait.rank for wait in error.waits})
        wrong(_who_waits(answer, str(error), f"no end after {limit:g} s", among, done))
    except RankError as error:
        rank, text = next(iter(error.tracebacks.items()))
        wrong(f"on rank {rank} it raised {_last_line(answer, text)}")
    except RankDiedError as error:
        wrong(_plain(str(error)))
    if not any(attempted for _, attempted in replies):
        raise NotAttempted("it returned nothing on every rank")
    return [result for result, _ in replies]


_TRUNCATED = (
    ". What came is more bytes than what it was received into has: has that the right length and "
    "type, and was the message meant for it?"
)
_DROPPED = (
    ". It begins a send and never waits for its request: then the message's bytes may be gone "
    "before they are read"
)
_IRECV = (
    ". If you use irecv: it has room for 32 kB, unless you hand it more, as in "
    "comm.irecv(bytearray(1 << 23), source=...)"
)


def _load(module: str) -> None:
    """On every rank: import what the check needs."""
    importlib.import_module(module)


def _watched(
    function: Callable, answer: Callable, arguments: tuple, world: bool
) -> tuple[object, bool]:
    """On every rank: return what ``function`` returned, and whether the answer did anything."""
    from mpi4py import MPI

    names = getattr(answer, "__globals__", {})
    names.setdefault("MPI", MPI)
    if world:  # the kernel's own variables of these names are not meant
        names.update(comm=MPI.COMM_WORLD, rank=MPI.COMM_WORLD.rank, size=MPI.COMM_WORLD.size)
        if "torch" in sys.modules:
            names["dist"] = importlib.import_module("torch.distributed")
    recorder, attempted = MPI.COMM_WORLD.recorder, False  # type: ignore[attr-defined]

    calls: list = []

    @functools.wraps(answer)
    def watched(*args: object, **kwargs: object) -> object:
        nonlocal attempted
        recorder.held = []  # a dropped request takes the bytes along, and the receiver fails
        recorder.start()
        try:
            returned = answer(*args, **kwargs)
        finally:
            calls[:] = recorder.stop()
        attempted = attempted or bool(calls) or not unattempted(returned)
        return returned

    def attempt() -> None:
        nonlocal attempted
        attempted = True

    watched.calls, watched.attempted = calls, attempt  # type: ignore[attr-defined]
    try:
        return function(watched, *arguments), attempted
    finally:
        recorder.held = None


def _must_ask_its_comm(answer: Callable) -> None:
    """Refuse ``rank`` and ``size`` from outside: the kernel's own, or those of the whole world."""
    code = getattr(answer, "__code__", None)
    for step in dis.get_instructions(code) if code else ():
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in ("rank", "size", "comm"):
            wrong(
                f"it uses {step.argval!r} from outside the function; ask the communicator that it "
                "is given: comm.Get_rank(), comm.Get_size()"
            )


def _who_waits(answer: Callable, message: str, no_end: str, among: str, done: list[int]) -> str:
    """Shorten a RankTimeoutError: what a rank raised, or else the table of who waits for whom."""
    _, _, text = _plain(message).partition("\n")
    before, raised, after = text.partition(" raised:\n")
    text = re.sub(r"\branks (\d+), \1\b", r"rank \1    ", text)  # a sendrecv of one neighbour
    if not raised:
        others = f"Done: rank{'s' * (len(done) > 1)} {', '.join(map(str, done))}.\n" if done else ""
        return f"{no_end}{among}. Who waits for whom:\n{others}{text}"
    *_, error, fate = after.split("\n\n")
    who = before.rpartition("\n\n")[2]
    return (
        f"on {who.lower()} it raised {_last_line(answer, error)}; {no_end} on the others.\n{fate}"
    )


def _last_line(answer: Callable, raised: str) -> str:
    """Return the last line of a traceback, and which line of the reader's cell raised it.

    Of MPI's errors without a place in MPI's own code.
    """
    text = _plain(raised).strip()
    last = text.splitlines()[-1]
    _, cell, below = text.rpartition("\nCell line ")
    line = re.search(r"^-+> (\d+) +(.*)$", below, re.MULTILINE) if cell else None
    where = f" (line {line[1]}: {line[2]})" if line else ""
    names = getattr(getattr(answer, "__code__", None), "co_names", ())
    hint = _IRECV if "irecv" in names else _TRUNCATED
    shown = re.sub(r"^(\w+|\(unknown\))\(\d*\)[.]*: ", "MPI's error: ", last)
    begins = any(re.fullmatch("(?i)i[sbr]?send", name) for name in names)
    waits = any(re.match("(?i)wait|test", name) for name in names)
    if begins and not waits and re.search("process_vm_readv|Unpickling|invalid load key", last):
        return f"{shown}{where}{_DROPPED}"
    return f"{shown}{where}{hint if 'truncated' in last else ''}"


def _plain(text: str) -> str:
    """Return the text without colours of a terminal."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)
