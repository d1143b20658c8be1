"""Messages between two ranks of a group: torch's handles of them, and what keeps them moving.

A receive from any rank begins when its message has been found: where ranks are on several hosts,
MPICH 5.0 may lose a message for a receive from ``ANY_SOURCE`` that is posted. A matched probe finds
it (:func:`helpers.tracing.point_to_point.come`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import torch
from mpi4py import MPI

from helpers.machine.waiting import until
from helpers.torch_mpi.handles import Announced, Handle
from helpers.torch_mpi.runner import deadline_after
from helpers.torch_mpi.two_level import memory

WITHDRAWN = 1.0  # seconds for MPI to withdraw a receive: longer only if its message is under way
POLL = 500e-6  # seconds between the thread's visits to MPI while long messages are under way
EAGER = 16 << 10  # bytes: a longer message moves only while both sides are inside MPI
MANY = 64  # messages under way before those are looked for that have ended unnoticed
UNDERWAY = 1.0  # seconds for what a rank had sent before it left: then nothing of it comes any more


class Message(Handle):
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
        owner: PointToPoint,
    ):
        super().__init__()
        self.request, self._buffer, self._target = request, buffer, target
        self._tensors = [target]
        self.peer, self.tag = peer, tag
        self.room, self.nbytes = memory(buffer), buffer.nbytes
        self._call, self._owner = call, owner
        whom = "any rank" if peer == MPI.ANY_SOURCE else f"rank {peer}"
        self._label = f"{call} {'to' if call == 'send' else 'from'} {whom}, tag {tag}"
        self._status = MPI.Status()
        self._lock = threading.Lock()
        self._ended = False
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

    def is_completed(self) -> bool:
        """Return whether it has arrived, been sent, or failed."""
        return self.poll()

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


class FromAnyone:
    """The receives of a communicator that have not begun, in the order in which they were asked.

    MPI gives a message to the receive that was asked for first of those that it fits. So behind one
    from anyone, others of its tag wait too.
    """

    def __init__(self, comm: MPI.Intracomm):
        self._comm = comm
        self._waiting: list[Message] = []
        self._lock = threading.Lock()

    def add(self, receive: Message) -> None:
        """Begin a receive, or keep it till its message has come."""
        with self._lock:
            self._waiting.append(receive)
        self.look()

    def remove(self, receive: Message) -> None:
        """Forget a receive."""
        with self._lock:
            if receive in self._waiting:
                self._waiting.remove(receive)

    def look(self) -> None:
        """Begin the receives that may be begun."""
        with self._lock:
            if not self._waiting:
                return
            nothing: set[int] = set()  # tags with which nobody has sent anything
            for receive in list(self._waiting):
                if receive.tag in nothing:
                    continue
                peer, tag, found = receive.peer, receive.tag, None
                if peer == MPI.ANY_SOURCE and not (found := self._comm.Improbe(peer, tag)):
                    nothing.add(tag)
                    continue
                self._waiting.remove(receive)  # first: one that fails must not stand in the way
                room = [receive.room, MPI.BYTE]
                begun = found.Irecv(room) if found else self._comm.Irecv(room, peer, tag)
                receive.request = begun


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
        return self._under_way(Message(request, buffer, buffer, "send", rank, tag, self))

    def receive(self, tensor: torch.Tensor, rank: int, tag: int) -> Message:
        """Begin to receive into a tensor of the shape and dtype that is sent.

        ValueError if MPI has no such tag, or the group no such rank.
        """
        self._check(tag)
        size = self.comm.Get_size()
        if rank != MPI.ANY_SOURCE and not 0 <= rank < size:
            raise ValueError(f"a rank expects a number from 0 to {size - 1}; got {rank}")
        buffer = tensor if tensor.is_contiguous() else torch.empty_like(tensor).contiguous()
        return self._under_way(Message(None, buffer, tensor, "recv", rank, tag, self))

    def _under_way(self, message: Message) -> Message:
        if len(self.live) > MANY:  # handles that nobody kept
            for old in list(self.live):
                old.poll()
        if message.nbytes > EAGER:
            self._thread.add(message)
        return message

    def close(self) -> None:
        """Withdraw what is unfinished and end the thread."""
        self._thread.close()
        for message in list(self.live):
            if not message.poll():
                message.cancel("the process group was destroyed")
