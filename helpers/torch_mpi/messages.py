"""One message under way, as torch's handle of it, and the thread that keeps long ones moving."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

import torch
from mpi4py import MPI
from torch.distributed import Work

from helpers.machine.waiting import until
from helpers.torch_mpi.announced import Announced
from helpers.torch_mpi.anyone import FromAnyone
from helpers.torch_mpi.network import memory
from helpers.torch_mpi.runner import deadline_after

WITHDRAWN = 1.0  # seconds for MPI to withdraw a receive: longer only if its message is under way
POLL = 500e-6  # seconds between the thread's visits to MPI while long messages are under way
UNDERWAY = 1.0  # seconds for what a rank had sent before it left: then nothing of it comes any more


class Owner(Protocol):
    """The messages of a group, of which each is one until it has ended.

    ``live`` are those that MPI still works on, ``seconds`` how long a wait may take that has no
    limit of its own, and ``departed()`` the ranks that are known to have left the group.
    """

    comm: MPI.Intracomm
    seconds: float
    live: set[Message]
    departed: Callable[[], list[int]]
    from_anyone: FromAnyone

    def alone(self, departed: list[int]) -> bool:
        """Tell whether nobody is left who could send."""
        ...


class Message(Work):
    """The handle of one ``isend`` or ``irecv``: polls MPI's request.

    ``request`` is None for a receive that is not to begin before its message has been found. MPI
    reads or writes ``buffer``, contiguous, which is copied to ``target`` at the end where that is
    another tensor. ``call`` is ``"send"`` or ``"recv"``.
    """

    def __init__(
        self,
        request: MPI.Request | None,
        buffer: torch.Tensor,
        target: torch.Tensor,
        call: str,
        peer: int,
        tag: int,
        owner: Owner,
    ):
        super().__init__()
        self.request, self._buffer, self._target = request, buffer, target
        self.peer, self.tag = peer, tag
        self.room = memory(buffer)
        self._call, self._owner = call, owner
        whom = "any rank" if peer == MPI.ANY_SOURCE else f"rank {peer}"
        self._label = f"{call} {'to' if call == 'send' else 'from'} {whom}, tag {tag}"
        self._status = MPI.Status()
        self._lock = threading.Lock()
        self._ended = False
        self._error: BaseException | None = None
        self._left_at: float | None = None  # when it was first seen that the peer has left
        if request is None:
            owner.from_anyone.add(self)
        owner.live.add(self)  # MPI uses the buffer to the end, whether or not the caller keeps this

    def poll(self) -> bool:
        """Let MPI move this message; return whether it has arrived, or been sent, or failed."""
        with self._lock:
            if not self._ended:
                try:
                    if self.request is None:
                        self._owner.from_anyone.look()
                    self._ended = self.request is not None and self.request.Test(self._status)
                except MPI.Exception as error:
                    self._ended = True
                    self._error = RuntimeError(f"{self._label}: {error}")
                if self._ended and self._error is None and self._target is not self._buffer:
                    self._target.copy_(self._buffer.view(self._target.shape))
                if self._ended:
                    self._owner.live.discard(self)
        return self._ended

    def _hopeless(self) -> str:
        """Raise if the other rank has left, and what it had sent before would have come."""
        left = self._owner.departed()
        if self.peer in left or (self.peer == MPI.ANY_SOURCE and self._owner.alone(left)):
            now = time.monotonic()
            self._left_at = self._left_at or now
            if now - self._left_at > UNDERWAY:
                who = "every rank" if self.peer == MPI.ANY_SOURCE else f"rank {self.peer}"
                raise RuntimeError(f"{self._label}: {who} of this group has left it")
        return ""

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return once the message has arrived, or been sent; zero waits for the group's time limit.

        RuntimeError if it takes longer, or the other rank has left, or MPI has failed.
        """
        seconds = timeout.total_seconds() if timeout else 0
        seconds = seconds if seconds > 0 else self._owner.seconds
        comm = self._owner.comm
        try:
            until(
                self.poll,
                deadline_after(seconds),
                lambda: RuntimeError(f"{self._label}: timed out after {seconds} s"),
                lambda: Announced(comm, self._call, self.peer, self.tag),
                closed=self._hopeless,
            )
        except KeyboardInterrupt:
            self.cancel("interrupted")  # or it would take a later message in its buffer's stead
            raise
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """Return once the message has arrived, or been sent."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether it has arrived, been sent, or failed."""
        return self.poll()

    def is_success(self) -> bool:
        """Return whether it has arrived, or been sent."""
        return self.poll() and self._error is None

    def exception(self) -> BaseException | None:
        """Return what went wrong, if something has."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """Return the caller's tensor once the message has arrived, or been sent."""
        self.wait()
        return [self._target]

    def source_rank(self) -> int:
        """Return the rank in the group that the message came from."""
        return self._status.Get_source()

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:
        """Wait, and return a future that is complete."""
        promise: torch.futures.Future = torch.futures.Future()
        future = promise.then(lambda _: self.result())  # what raises here is an error to C++, too
        promise.set_result(None)
        return future

    def cancel(self, why: str) -> None:
        """Withdraw a receive that nobody answers (MPI cannot withdraw a send)."""
        with self._lock:
            if not self._ended:
                if self.request is None:
                    self._owner.from_anyone.remove(self)
                if self.request is not None and self._call == "recv":  # another thread began it
                    self.request.Cancel()
                    deadline = deadline_after(WITHDRAWN)
                    while not self.request.Test() and deadline > time.monotonic():
                        time.sleep(POLL)
                self._ended = True
                self._owner.live.discard(self)
                self._error = RuntimeError(f"{self._label}: {why}")


class MessageThread:
    """A thread that visits MPI while long messages are under way and the caller computes."""

    def __init__(self, name: str):
        self._name = name
        self._messages: list[Message] = []
        self._lock = threading.Lock()
        self._more = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, message: Message) -> None:
        """Keep a message moving until it has arrived."""
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
