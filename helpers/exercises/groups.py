"""An answer called on ranks: what becomes of it, and what it does in groups of several sizes."""

from __future__ import annotations

import dis
import functools
import importlib
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from helpers.exercises.core import NotAttempted, WrongAnswer, short, unattempted, wrong

if TYPE_CHECKING:
    from mpi4py import MPI

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


@dataclass(frozen=True)
class Case:
    """One call of the answer, on the first ``ranks`` ranks."""

    ranks: int
    arguments: Callable[[int], tuple]  # of a rank: those that go before the communicator
    what: str = ""

    def __str__(self) -> str:
        ranks = f"on {self.ranks} rank{'s' * (self.ranks != 1)}"
        return f"{ranks}, {self.what}" if self.what else ranks


@dataclass(frozen=True)
class RankResult:
    """What the answer did on one rank in one case."""

    returned: object
    calls: Counter  # how often it called what of MPI, such as "sendrecv"
    messages: int
    bytes: int
    sent_to: tuple  # the peers of the messages, in order
    pending: int  # messages that were begun and not waited for
    from_nobody: bool  # whether it received from MPI.PROC_NULL, rank -1
    left_over: bool  # whether a message to this rank was never received
    changed: bool  # whether an argument is another than before
    aliased: bool  # whether it returned memory of an argument


def rank_results(cluster: Cluster, answer: Callable, cases: list[Case]) -> list[list[RankResult]]:
    """Call an answer in every case, one after another; what goes wrong is told with its case."""
    found = []
    for case in cases:
        with in_case(str(case), first=not found):
            there = on_ranks(cluster, _in_group, answer, case)[: case.ranks]
            for rank, result in enumerate(there):
                if result.left_over:
                    null = "; it received from rank -1 (MPI.PROC_NULL): None, at once"
                    more = null if result.from_nobody else ""
                    wrong(f"a message to rank {rank} was sent but never received{more}")
            found.append(there)
    return found


@contextmanager
def more_ranks(n: int, *preload: str) -> Iterator[Cluster | None]:
    """Start ranks of its own for an answer that may be right for the notebook's number only."""
    from IPython.utils.capture import capture_output

    from helpers.cluster import Cluster, StartError

    try:
        with capture_output():  # that they are ready is nobody's concern: a check says one thing
            more = Cluster(n=n, preload=preload)
    except StartError:  # those of the notebook have judged
        yield None
        return
    with more:
        yield more


@contextmanager
def in_case(what: str, *, first: bool) -> Iterator[None]:
    """Say of which case it is, where the answer is found wrong within."""
    try:
        yield
    except WrongAnswer as error:
        wrong(f"{what}: {error}")
    except NotAttempted as error:
        if first:
            raise
        wrong(f"{what}: {error}")


def _in_group(answer: Callable, case: Case) -> RankResult | None:
    """On every rank: call the answer in one case; None where this rank takes no part."""
    import numpy as np
    from mpi4py import MPI

    from helpers.tracing.activity import BYTES, DONE, EXCHANGE, KIND, NAME, PEER, RECEIVE, SEND
    from helpers.waiting import doze

    world = MPI.COMM_WORLD.Dup()  # without the barrier that an interrupted attempt left over
    inside = world.rank < case.ranks
    group = world.Split(0 if inside else 1, world.rank)
    result = None
    if inside:
        given = case.arguments(group.rank)
        returned = answer(*given, group)
        calls = answer.calls  # type: ignore[attr-defined]
        sending = [call for call in calls if call[KIND] in (SEND, EXCHANGE)]
        pending = [
            call
            for call in calls
            if isinstance(call, list) and call[KIND] in (SEND, RECEIVE) and call[DONE] is None
        ]
        result = RankResult(
            returned,
            Counter(call[NAME].lower() for call in calls),
            len(sending),
            sum(call[BYTES] for call in sending),
            tuple(call[PEER] for call in sending),
            len(pending),
            from_nobody=any(call[KIND] == RECEIVE and call[PEER] == "PROC_NULL" for call in calls),
            left_over=False,
            changed=not all(map(np.array_equal, given, case.arguments(group.rank))),
            aliased=isinstance(returned, np.ndarray)
            and any(isinstance(a, np.ndarray) and np.may_share_memory(returned, a) for a in given),
        )
    state = "no call: done" if inside else "not in comm"  # for the table of who waits for whom
    world.recorder.current = (state, "", None, time.perf_counter_ns(), ())  # type: ignore[attr-defined]
    doze(MPI.Intracomm(world))  # now nobody sends any more; the state stays
    world.recorder.current = None  # type: ignore[attr-defined]
    if result is not None and emptied(group):
        result = replace(result, left_over=True)
    group.Free()
    world.Free()
    return result


def emptied(group: MPI.Intracomm) -> bool:
    """Receive what nobody wanted, which the next group may take for its own; say if any came."""
    from mpi4py import MPI

    status, found = MPI.Status(), False
    while group.Iprobe(status=status):
        room = bytearray(status.Get_count(MPI.BYTE))
        group.Recv([room, MPI.BYTE], status.Get_source(), status.Get_tag())
        found = True
    return found


def nothing_begun(there: list[RankResult]) -> None:
    """Refuse an answer that goes away from a message which is still under way."""
    for rank, result in enumerate(there):
        if result.pending:
            wrong(
                f"right, but rank {rank} of {len(there)} begins a message and does not wait for "
                "its request: until `wait` returns the message's bytes must not change, and if "
                "nothing holds the request they may be gone before they are read"
            )


def rounds(results: list[RankResult], root: int) -> int:
    """Count the rounds in which a value spreads: each rank that has it sends once in each."""
    has, last, reached = {root: 0}, 0, [root]
    for rank in reached:  # grows while it is gone through
        for number, peer in enumerate(results[rank].sent_to, 1):
            if peer not in has:
                has[peer] = has[rank] + number
                reached.append(peer)
            last = max(last, has[peer])
    return last
