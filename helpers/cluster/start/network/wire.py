"""Links with a rate and a delay, where the kernel has no netem: a switch of our own.

Each host's link ends in a device here. What comes out of one is a frame, of which the kernel has
joined several into one (the header before it tells how they are to be cut again). It leaves for its
host when its sender's link has carried it, the delay has passed, and its receiver's link has
carried it. So every frame is copied twice by this process, and held for as long as the links that a
reader asked for would take.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import itertools
import os
import select
import socket
import struct
import time

from helpers.machine.prctl import PR_SET_TIMERSLACK, prctl

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
SO_RCVBUFFORCE, SO_SNDBUFFORCE = 33, 32
ETH_P_ALL = 3
# of virtio: flags, kind, length of headers, length of a piece, place of the checksum
VNET = struct.Struct("=BBHHHH")
# of sched_setattr: size, policy, flags, nice, priority, turn, deadline, period
SCHED_ATTR = struct.Struct("=IIQiIQQQ")
SYS_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine, -1)
SHORTEST_TURN_NS = 100_000
LARGEST = 1 << 17  # bytes of a joined frame
BUFFER = 64 << 20


class Wire:
    """A switch between devices of this process's network, one device for each host.

    What is for 02:77:00:00:00:0k leaves by the k-th. `rate` is each link's and direction's in
    bit/s, `delay` from one host to another in seconds.
    """

    def __init__(self, devices: list[str], rate: float | None, delay: float) -> None:
        self.delay = delay
        self.seconds_per_byte = 0.0 if rate is None else 8 / rate
        self.ends = [_open(device) for device in devices]
        self._into = [0.0] * len(devices)  # when each host's link to the switch is free
        self._out_of = [0.0] * len(devices)  # and from it
        self._due: list[tuple[float, int, int, bytes]] = []
        self._order = itertools.count()

    def run(self) -> None:
        """Carry frames for ever, before what else wants a core: in a process of its own."""
        _be_prompt()
        poll = select.epoll()
        numbers = {end.fileno(): number for number, end in enumerate(self.ends)}
        for file in numbers:
            poll.register(file, select.EPOLLIN)
        while True:
            left = self._due[0][0] - time.monotonic() if self._due else None
            select.select([poll], [], [], None if left is None else max(0.0, left))
            for file, _ in poll.poll(0):
                self.take(numbers[file])
            self.deliver(time.monotonic())

    def take(self, source: int) -> None:
        """Take all that has come from a host."""
        while True:
            try:
                frame = self.ends[source].recv(LARGEST)
            except BlockingIOError:
                return
            now = time.monotonic()
            for target in self._targets(source, frame):
                due = self.arrival(source, target, frame, now)
                heapq.heappush(self._due, (due, next(self._order), target, frame))

    def arrival(self, source: int, target: int, frame: bytes, now: float) -> float:
        """Return when a frame will have passed both links, which it occupies till then."""
        took = wire_size(frame) * self.seconds_per_byte
        begin = max(now, self._into[source])
        self._into[source] = begin + took
        # it reaches the other link as it comes out of the first, not when all of it has
        self._out_of[target] = max(begin + self.delay, self._out_of[target]) + took
        return self._out_of[target]

    def deliver(self, now: float) -> None:
        """Send what is due."""
        while self._due and self._due[0][0] <= now:
            _, _, target, frame = heapq.heappop(self._due)
            with contextlib.suppress(OSError):  # a full queue drops, as a switch does
                self.ends[target].send(frame)

    def _targets(self, source: int, frame: bytes) -> list[int]:
        address = frame[VNET.size : VNET.size + 6]
        if address[0] & 1:  # for all
            return [number for number in range(len(self.ends)) if number != source]
        return [address[5]] if address[5] < len(self.ends) else []


def wire_size(frame: bytes) -> int:
    """Return the bytes of a joined frame on a wire, where each of its frames has headers."""
    _, kind, header, piece, *_ = VNET.unpack_from(frame)
    size = len(frame) - VNET.size
    if not kind or not piece:
        return size
    return size + (-(-(size - header) // piece) - 1) * header


def _be_prompt() -> None:
    """Get a core at once when there is something to do, even if ranks spin on all of them."""
    prctl(PR_SET_TIMERSLACK, 1)
    with contextlib.suppress(OSError):  # for root
        own = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, own, os.sched_param(1))
        return
    # for anybody, since Linux 6.12: who asks for a short turn gets it soon; else without effect
    wanted = SCHED_ATTR.pack(SCHED_ATTR.size, 0, 0, 0, 0, SHORTEST_TURN_NS, 0, 0)
    ctypes.CDLL(None).syscall(SYS_SCHED_SETATTR, 0, wanted, 0)


def _open(device: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    for force, name in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            end.setsockopt(socket.SOL_SOCKET, force, BUFFER)
        except PermissionError:
            end.setsockopt(socket.SOL_SOCKET, name, BUFFER)
    end.setblocking(False)
    end.bind((device, ETH_P_ALL))
    return end
