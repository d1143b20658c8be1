"""A rank as a device of a stated speed, when its arithmetic has messages inside.

``helpers.pace`` lets a block take a stated time; here the time that the block waited for messages
is added to it, so that the arithmetic keeps its pace and the messages cost what they cost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Device:
    """Counts waiting, and paces arithmetic.

    Parameters
    ----------
    speed : float, optional
        Floating-point operations in a second; None: as fast as the machine is.

    Attributes
    ----------
    waited : float
        Seconds in messages so far; :class:`helpers.sharded.messages.Patient` adds to it.
    late : int
        How many blocks had more arithmetic than their pace allows.

    Raises
    ------
    ValueError
        For no speed above 0.
    """

    def __init__(self, speed: float | None = None):
        if speed is not None and not speed > 0:
            raise ValueError(f"Device expects a speed above 0 flop/s, or None; got {speed!r}")
        self.speed, self.waited, self.late = speed, 0.0, 0

    @contextmanager
    def compute(self, flops: float) -> Iterator[None]:
        """Let a block take as long as its operations on this device, and its messages.

        Parameters
        ----------
        flops : float
            Of its arithmetic.

        Yields
        ------
        None
        """
        began, before = time.perf_counter(), self.waited
        yield
        if self.speed is None:
            return
        end = began + flops / self.speed + self.waited - before
        left = end - time.perf_counter()
        if left > 0:
            time.sleep(left)
        else:
            self.late += 1


class Metered:
    """A communicator whose waits are counted by a device.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        Everything else is its own.
    device : Device
        Which counts.
    """

    def __init__(self, comm: object, device: Device):
        self._comm, self.device = comm, device

    def __getattr__(self, name: str) -> object:
        return getattr(self._comm, name)
