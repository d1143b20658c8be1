"""What is wrong with a schedule, found before it runs: missing, double, unknown, or stuck for ever.

>>> check(Schedule.written("mine", ["F0 B0 F1 B1", "F0 F1 B0 B1"]))
Traceback (most recent call last):
...
helpers.pipeline.checking.ScheduleError: mine: nobody can go on.
  rank 0 waits at B0 for rank 1 to do B0
  rank 1 waits at F1 for rank 0 to do F1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from helpers.pipeline.schedule import KINDS, Action, Schedule


class ScheduleError(ValueError):
    """A schedule that cannot run; the message says where and why."""


def check(schedule: Schedule, blocking: bool = False) -> None:
    """Return if a schedule does all the work once and comes to its end; else raise ScheduleError.

    A ``blocking`` send returns only once the other side receives (`MPI_Ssend`, or `MPI_Send` of a
    long message); another goes on at once (`MPI_Isend`, as the runner has it).
    """
    for rank, order in enumerate(schedule.orders):
        for chunk in range(schedule.chunks):
            _complete(schedule, rank, chunk, [a for a in order if a.chunk == chunk])
        if unknown := [a for a in order if not 0 <= a.chunk < schedule.chunks]:
            raise ScheduleError(
                f"{schedule.name}: rank {rank} does {unknown[0]}: it has chunks 0 to "
                f"{schedule.chunks - 1}"
            )
    for _ in walk(schedule, blocking):
        pass


def _complete(schedule: Schedule, rank: int, chunk: int, order: list[Action]) -> None:
    where = f"{schedule.name}: rank {rank}"
    if unknown := [a for a in order if a.kind not in KINDS]:
        raise ScheduleError(f"{where} does {unknown[0]}: expected one of {', '.join(KINDS)}")
    times = Counter(order)
    if twice := [action for action, n in times.items() if n > 1]:
        raise ScheduleError(f"{where} does {twice[0]} {times[twice[0]]} times")
    if strange := [a for a in order if not 0 <= a.micro < schedule.micro]:
        raise ScheduleError(
            f"{where} does {strange[0]}: micro-batches are 0 to {schedule.micro - 1}"
        )
    place = {action: k for k, action in enumerate(order)}
    for micro in range(schedule.micro):
        f, b, i, w, u = (Action(kind, micro, chunk) for kind in "FBIWU")
        if f not in place:
            raise ScheduleError(f"{where} never does {f}")
        if b not in place and i not in place and w not in place:
            raise ScheduleError(f"{where} never does {b} (or its two parts, {i} and {w})")
        if b in place and (i in place or w in place):
            raise ScheduleError(f"{where} does {b} and a part of it once more")
        if b not in place and (i not in place or w not in place):
            raise ScheduleError(f"{where} does one of {i} and {w} only: a backward pass is both")
        for first, then in ((f, b), (f, i), (i, w), (b, u), (w, u)):
            if first in place and then in place and place[first] > place[then]:
                raise ScheduleError(f"{where} does {then} before {first}, which it needs")


def walk(schedule: Schedule, blocking: bool = False) -> Iterator[tuple[int, Action]]:
    """Yield (rank, action) in an order in which a complete schedule can run, or say who waits."""
    at = [0] * schedule.ranks  # what each rank does next
    sending: list[tuple[int, Action] | None] = [None] * schedule.ranks
    done: set[tuple[int, Action]] = set()

    def next_of(rank: int) -> Action | None:
        order = schedule.orders[rank]
        return order[at[rank]] if at[rank] < len(order) else None

    while True:
        moved = False
        for rank in range(schedule.ranks):
            while True:
                send = sending[rank]
                if send is not None:
                    here = next_of(send[0])
                    if (send[0], send[1]) in done or (
                        here is not None and _same(here) == send[1] and sending[send[0]] is None
                    ):
                        sending[rank] = None
                        moved = True
                        continue
                    break
                action = next_of(rank)
                if action is None:
                    break
                source = schedule.source(rank, action)
                if source is not None and source not in done:
                    break
                yield rank, action
                moved = True
                done.add((rank, _same(action)))
                at[rank] += 1
                target = schedule.target(rank, action)
                if blocking and target is not None and target[0] != rank:
                    sending[rank] = target
        if not moved:
            break
    if any(next_of(rank) for rank in range(schedule.ranks)) or any(sending):
        raise ScheduleError(_stuck(schedule, at, sending))


def _same(action: Action) -> Action:
    """B and I are alike to other ranks: both bring the gradient of the inputs."""
    return action._replace(kind="B") if action.kind == "I" else action


def _stuck(schedule: Schedule, at: list[int], sending: list) -> str:
    lines = []
    for rank, order in enumerate(schedule.orders):
        if (send := sending[rank]) is not None:
            lines.append(
                f"rank {rank} sends the result of {order[at[rank] - 1]}, and waits for rank "
                f"{send[0]} to receive it (for {send[1]})"
            )
        elif at[rank] < len(order):
            action = order[at[rank]]
            source = schedule.source(rank, action)
            if source is not None:
                there, awaited = source
                if awaited not in schedule.orders[there]:  # it does the two parts, and I brings it
                    awaited = awaited._replace(kind="I")
                lines.append(f"rank {rank} waits at {action} for rank {there} to do {awaited}")
    return "\n  ".join([f"{schedule.name}: nobody can go on.", *lines])
