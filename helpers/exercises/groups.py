"""An answer tried in groups of several sizes, and what it did there: for ``core.on_ranks``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from helpers.exercises.core import wrong


@dataclass(frozen=True)
class Case:
    """One call of the answer, on the first ``ranks`` ranks.

    Parameters
    ----------
    ranks : int
        How many take part.
    arguments : callable
        ``arguments(rank)`` returns those that go before the communicator.
    """

    ranks: int
    arguments: Callable[[int], tuple]


@dataclass(frozen=True)
class Outcome:
    """What the answer did on one rank in one case.

    Parameters
    ----------
    returned : object
        What it returned.
    calls : Counter
        How often it called what of MPI, such as "sendrecv"; in lower case.
    messages, bytes : int
        What it sent in messages from rank to rank.
    sent_to : tuple of int
        The receivers of these, in order.
    pending : int
        Messages that it began, and did not wait for.
    left_over : bool
        Whether a message for this rank was never received.
    """

    returned: object
    calls: Counter
    messages: int
    bytes: int
    sent_to: tuple
    pending: int
    left_over: bool


def in_groups(answer: Callable, cases: list[Case]) -> list[Outcome | None]:
    """On every rank: call the answer in every case.

    Parameters
    ----------
    answer : callable
        The reader's, watched by ``core.on_ranks``.
    cases : list of Case
        In this order; the first that hangs is the one that the reader is told.

    Returns
    -------
    list of Outcome or None
        One for each case; None where this rank took no part.
    """
    from mpi4py import MPI

    from helpers.tracing.activity import (
        BYTES,
        DONE,
        EXCHANGE,
        KIND,
        NAME,
        PEER,
        RECEIVE,
        SEND,
    )
    from helpers.waiting import doze

    world = MPI.COMM_WORLD.Dup()  # without the barrier that an interrupted attempt left over
    outcomes: list[Outcome | None] = []
    for case in cases:
        inside = world.rank < case.ranks
        group = world.Split(0 if inside else 1, world.rank)
        outcome = None
        if inside:
            returned = answer(*case.arguments(group.rank), group)
            calls = answer.calls  # type: ignore[attr-defined]
            sending = [call for call in calls if call[KIND] in (SEND, EXCHANGE)]
            pending = [
                call
                for call in calls
                if isinstance(call, list) and call[KIND] in (SEND, RECEIVE) and call[DONE] is None
            ]
            outcome = Outcome(
                returned,
                Counter(call[NAME].lower() for call in calls),
                len(sending),
                sum(call[BYTES] for call in sending),
                tuple(call[PEER] for call in sending),
                len(pending),
                # it would be taken for one of the next case
                group.iprobe(),
            )
        outcomes.append(outcome)
        doze(world)
        group.Free()
    world.Free()
    return outcomes


def by_case(replies: list[list[Outcome | None]], cases: list[Case]) -> list[list[Outcome]]:
    """Sort what ``core.on_ranks`` returned by case.

    Parameters
    ----------
    replies : list of list of Outcome
        Of each rank, what :func:`in_groups` returned.
    cases : list of Case
        The same as there.

    Returns
    -------
    list of list of Outcome
        For each case one for each of its ranks.

    Raises
    ------
    WrongAnswer
        If a message was sent that nobody received.
    """
    found = []
    for number, case in enumerate(cases):
        there = [replies[rank][number] for rank in range(case.ranks)]
        outcomes = [outcome for outcome in there if outcome is not None]
        for rank, outcome in enumerate(outcomes):
            if outcome.left_over:
                wrong(f"on {case.ranks} ranks a message to rank {rank} was sent but never received")
        found.append(outcomes)
    return found


def rounds(outcomes: list[Outcome], root: int) -> int:
    """Count the rounds in which a value spreads from a root, if all messages take equally long.

    A rank that has the value sends one message in each round.

    Parameters
    ----------
    outcomes : list of Outcome
        Of a broadcast by messages from rank to rank.
    root : int
        The rank that has the value at first.

    Returns
    -------
    int
        0 if nothing was sent.
    """
    has, last, reached = {root: 0}, 0, [root]
    for rank in reached:  # grows while it is gone through
        for number, peer in enumerate(outcomes[rank].sent_to, 1):
            if peer not in has:
                has[peer] = has[rank] + number
                reached.append(peer)
            last = max(last, has[peer])
    return last
