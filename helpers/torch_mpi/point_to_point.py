"""Messages between two ranks of a group, and a barrier that names who is missing."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import torch
from mpi4py import MPI
from torch.distributed import Work

from helpers.torch_mpi.handles import deadline_after
from helpers.torch_mpi.network import memory
from helpers.torch_mpi.waiting import Told, until

EAGER = 16 << 10  # bytes: a longer message moves only while both sides are inside MPI
MANY = 64  # messages under way before those are looked for that have ended unnoticed
WITHDRAWN = 1.0  # seconds for MPI to withdraw a receive: longer only if its message is under way
POLL = 500e-6  # seconds between the thread's visits to MPI while long messages are under way


class Message(Work):
    """The handle of one ``isend`` or ``irecv``: polls MPI's request."""

    def __init__(self, request, buffer, target, told: tuple, timeout: float, live: set):
        super().__init__()
        self._request, self._buffer, self._target = request, buffer, target
        self._told, self._timeout, self._live = told, timeout, live
        _, call, peer, tag = told
        whom = "any rank" if peer == MPI.ANY_SOURCE else f"rank {peer}"
        self._label = f"{call} {'to' if call == 'send' else 'from'} {whom}, tag {tag}"
        self._status = MPI.Status()
        self._lock = threading.Lock()
        self._ended = False
        self._error: BaseException | None = None
        live.add(self)  # MPI uses the buffer until the end, whether or not the caller keeps this

    def poll(self) -> bool:
        """Let MPI move this message; return whether it has arrived (or left)."""
        with self._lock:
            if not self._ended:
                try:
                    self._ended = self._request.Test(self._status)
                except MPI.Exception as error:
                    self._ended = True
                    self._error = RuntimeError(f"{self._label}: {error}")
                if self._ended and self._error is None and self._target is not self._buffer:
                    self._target.copy_(self._buffer.view(self._target.shape))
                if self._ended:
                    self._live.discard(self)
        return self._ended

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        seconds = timeout.total_seconds() if timeout else 0
        seconds = seconds if seconds > 0 else self._timeout
        try:
            until(
                self.poll,
                deadline_after(seconds),
                lambda: RuntimeError(f"{self._label}: timed out after {seconds} s"),
                lambda: Told(*self._told),
            )
        except KeyboardInterrupt:
            self.cancel("interrupted")  # or it would take a later message in its buffer's stead
            raise
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self.poll()

    def is_success(self) -> bool:
        return self.poll() and self._error is None

    def exception(self):
        return self._error

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return [self._target]

    def source_rank(self) -> int:
        """The rank in the group that the message came from."""
        return self._status.Get_source()

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:
        future = torch.futures.Future()
        try:
            future.set_result(self.result())
        except RuntimeError as error:
            future.set_exception(error)
        return future

    def cancel(self, why: str) -> None:
        """Withdraw a receive that nobody answers (MPI cannot withdraw a send)."""
        with self._lock:
            if not self._ended:
                if self._label.startswith("recv"):
                    self._request.Cancel()
                    deadline = deadline_after(WITHDRAWN)
                    while not self._request.Test() and deadline > time.monotonic():
                        time.sleep(POLL)
                self._ended = True
                self._live.discard(self)
                self._error = RuntimeError(f"{self._label}: {why}")


class Pump:
    """A thread that visits MPI while long messages are under way and the caller computes."""

    def __init__(self, name: str):
        self._name = name
        self._messages: list[Message] = []
        self._lock = threading.Lock()
        self._more = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, message: Message) -> None:
        """Keep ``message`` moving until it has arrived."""
        with self._lock:
            self._messages.append(message)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
        self._more.set()

    def _serve(self) -> None:
        while not self._closed:
            self._more.wait()
            time.sleep(POLL)
            with self._lock:
                self._messages = [message for message in self._messages if not message.poll()]
                if not self._messages and not self._closed:
                    self._more.clear()

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._more.set()
        if self._thread is not None:
            self._thread.join(1.0)


class PointToPoint:
    """send and recv of one group over its communicator."""

    def __init__(self, comm: MPI.Intracomm, name: str, timeout: float):
        self._comm, self._timeout = comm, timeout
        self._pump = Pump(name)
        self._highest_tag = comm.Get_attr(MPI.TAG_UB)
        self._live: set[Message] = set()

    def _check(self, tag: int) -> None:
        if not 0 <= tag <= self._highest_tag:
            raise ValueError(f"a tag must be between 0 and {self._highest_tag}; got {tag}")

    def send(self, tensor: torch.Tensor, rank: int, tag: int) -> Message:
        """Begin to send ``tensor`` to ``rank`` of the group."""
        self._check(tag)
        buffer = tensor.contiguous()
        request = self._comm.Isend([memory(buffer), MPI.BYTE], rank, tag)
        return self._message(request, buffer, buffer, "send", rank, tag)

    def receive(self, tensor: torch.Tensor, rank: int, tag: int) -> Message:
        """Begin to receive into ``tensor`` from ``rank`` of the group (or ``MPI.ANY_SOURCE``)."""
        self._check(tag)
        buffer = tensor if tensor.is_contiguous() else torch.empty_like(tensor).contiguous()
        request = self._comm.Irecv([memory(buffer), MPI.BYTE], rank, tag)
        return self._message(request, buffer, tensor, "recv", rank, tag)

    def _message(self, request, buffer, target, call: str, peer: int, tag: int) -> Message:
        if len(self._live) > MANY:  # handles that nobody kept
            for old in list(self._live):
                old.poll()
        told = (self._comm, call, peer, tag)
        message = Message(request, buffer, target, told, self._timeout, self._live)
        if buffer.nbytes > EAGER:
            self._pump.add(message)
        return message

    def close(self) -> None:
        """Withdraw what is unfinished and end the thread."""
        self._pump.close()
        for message in list(self._live):
            if not message.poll():
                message.cancel("the process group was destroyed")


def monitored_barrier(
    comm: MPI.Intracomm, ranks: list[int], turn: int, timeout: float, wait_all_ranks: bool = False
) -> None:
    """Return once every rank of ``comm`` has called this; rank 0 names those that have not.

    ``ranks`` are their global ranks; ``turn`` counts the calls, so that a rank that comes too late
    is not taken for one that comes to the next barrier. Raises RuntimeError after ``timeout``
    seconds: on rank 0 with the first missing rank, or with all of them when ``wait_all_ranks``;
    elsewhere because rank 0 did not answer.
    """
    token, deadline = bytearray(1), deadline_after(timeout)
    arrive, leave = 2 * turn % 32_000, 2 * turn % 32_000 + 1  # tags: every MPI has 32 767

    def finish(request, other: int) -> bool:
        try:
            until(
                request.Test,
                deadline,
                lambda: TimeoutError("missing"),
                lambda: Told(comm, "monitored_barrier", other),
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
    missing = []
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
