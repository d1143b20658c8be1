"""Messages between two ranks of a group, and a barrier that names who is missing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import torch
from mpi4py import MPI

from helpers.machine.waiting import until
from helpers.torch_mpi.announced import Announced
from helpers.torch_mpi.anyone import FromAnyone
from helpers.torch_mpi.messages import Message, MessageThread
from helpers.torch_mpi.network import memory
from helpers.torch_mpi.runner import deadline_after

EAGER = 16 << 10  # bytes: a longer message moves only while both sides are inside MPI
MANY = 64  # messages under way before those are looked for that have ended unnoticed


class PointToPoint:
    """send and recv of one group."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        name: str,
        seconds: float,
        departed: Callable[[], list[int]] = list,
    ):
        self.comm, self.seconds, self.departed = comm, seconds, departed
        self.live: set[Message] = set()
        self.from_anyone = FromAnyone(comm)
        self._thread = MessageThread(name)
        self._highest_tag = int(comm.Get_attr(MPI.TAG_UB) or 0)

    def set_timeout(self, timeout: timedelta) -> None:
        """Change how long a wait may take that has no limit of its own."""
        self.seconds = timeout.total_seconds()

    def alone(self, departed: list[int]) -> bool:
        """Tell whether nobody is left to send anything."""
        return len(departed) == self.comm.Get_size() - 1 > 0

    def _check(self, tag: int) -> None:
        if not 0 <= tag <= self._highest_tag:
            raise ValueError(f"a tag expects a number from 0 to {self._highest_tag}; got {tag}")

    def send(self, tensor: torch.Tensor, rank: int, tag: int) -> Message:
        """Begin to send a tensor, which must not change until it is sent; MPI must have the tag."""
        self._check(tag)
        buffer = tensor.contiguous()
        request = self.comm.Isend([memory(buffer), MPI.BYTE], rank, tag)
        return self._message(request, buffer, buffer, "send", rank, tag)

    def receive(self, tensor: torch.Tensor, rank: int, tag: int) -> Message:
        """Begin to receive into a tensor of the shape and dtype that is sent.

        ValueError if MPI has no such tag, or the group no such rank.
        """
        self._check(tag)
        size = self.comm.Get_size()
        if rank != MPI.ANY_SOURCE and not 0 <= rank < size:
            raise ValueError(f"a rank expects a number from 0 to {size - 1}; got {rank}")
        buffer = tensor if tensor.is_contiguous() else torch.empty_like(tensor).contiguous()
        return self._message(None, buffer, tensor, "recv", rank, tag)

    def _message(
        self,
        request: MPI.Request | None,
        buffer: torch.Tensor,
        target: torch.Tensor,
        call: str,
        peer: int,
        tag: int,
    ) -> Message:
        if len(self.live) > MANY:  # handles that nobody kept
            for old in list(self.live):
                old.poll()
        message = Message(request, buffer, target, call, peer, tag, self)
        if buffer.nbytes > EAGER:
            self._thread.add(message)
        return message

    def close(self) -> None:
        """Withdraw what is unfinished and end the thread."""
        self._thread.close()
        for message in list(self.live):
            if not message.poll():
                message.cancel("the process group was destroyed")


def monitored_barrier(
    comm: MPI.Intracomm, ranks: list[int], turn: int, timeout: float, wait_all_ranks: bool = False
) -> None:
    """Return once every rank has called this; after ``timeout`` seconds raise RuntimeError.

    Rank 0's names those that have not come, by their numbers in the default group, ``ranks``.
    ``comm`` is a communicator that nothing else uses. ``turn`` counts the calls, so that a rank
    that comes too late is not taken for one that comes to the next barrier.
    """
    token, deadline = bytearray(1), deadline_after(timeout)
    arrive, leave = 2 * turn % 32_000, 2 * turn % 32_000 + 1  # tags: every MPI has 32 767

    def finish(request: MPI.Request, other: int) -> bool:
        try:
            until(
                request.Test,
                deadline,
                lambda: TimeoutError("missing"),
                lambda: Announced(comm, "monitored_barrier", other),
            )
        except TimeoutError:
            request.Cancel()
            return False
        return True

    rank = comm.Get_rank()
    if rank != 0:
        comm.Isend([token, MPI.BYTE], 0, arrive)
        if not finish(comm.Irecv([token, MPI.BYTE], 0, leave), 0):
            raise RuntimeError(
                f"Rank {ranks[rank]} successfully reached monitoredBarrier, but received errors "
                f"while waiting for send/recv from rank {ranks[0]}: no answer in {timeout:g} s. "
                f"Please check rank {ranks[0]}'s report for the rank that did not arrive"
            )
        return
    if timeout <= 0:
        raise RuntimeError(f"Rank {ranks[0]} timed out in monitoredBarrier after {timeout:g} s")
    waiting = {r: comm.Irecv([bytearray(1), MPI.BYTE], r, arrive) for r in range(1, len(ranks))}
    missing: list[int] = []
    for other, request in waiting.items():
        if missing and not wait_all_ranks:
            request.Cancel()
        elif not finish(request, other):
            missing.append(ranks[other])
    if missing:
        names = ", ".join(map(str, missing))
        raise RuntimeError(
            f"Rank{'s' if wait_all_ranks else ''} {names} failed to pass monitoredBarrier in "
            f"{timeout:g} s"
        )
    for other in waiting:
        comm.Isend([token, MPI.BYTE], other, leave)
