"""What an answer does in groups of several sizes: what it returns, sends and leaves behind."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from helpers.exercises.core import NotAttempted, WrongAnswer, wrong
from helpers.exercises.on_ranks import on_ranks

if TYPE_CHECKING:
    from mpi4py import MPI

    from helpers.cluster import Cluster


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
