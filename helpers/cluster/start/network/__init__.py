"""Several hosts in one machine: ranks in networks of their own, on links of a chosen speed.

A host is a set of the kernel's namespaces: a network, shared memory, a name, and a view of the
files in which ``/sys`` shows that network alone. MPI finds what it would find on a cluster: memory
inside a host, TCP between hosts. All namespaces hang on processes and vanish with them.

A :class:`Network` is what a reader asks for. ``keeper``, a forked process, makes the hosts and
keeps them, and makes a rank a process of its host; ``system`` is what it asks of Linux.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass

from helpers.cluster.errors import whole_number

MAX_HOSTS = 64
RATES = 1e3, 1e12  # bit/s
PLACEMENTS = "block", "cyclic"
HEADERS = 66  # bytes of Ethernet, IP and TCP (with its time stamps) in each frame
FRAME = 1514  # bytes of a full one


@dataclass(frozen=True)
class Network:
    """Hosts within this machine, each joined to one switch by a link of its own.

    Parameters
    ----------
    hosts : int
        How many; the ranks are shared out evenly.
    rate : float, optional
        Of each link, in bit/s, in each direction; None: as fast as this machine can.
    placement : {"block", "cyclic"}
        Ranks 0, 1, 2, 3 on two hosts: on hosts 0, 0, 1, 1 or on hosts 0, 1, 0, 1.

    Examples
    --------
    >>> Network(hosts=3, rate=100e6).places(6)
    (0, 0, 1, 1, 2, 2)
    >>> Network(hosts=3, rate=100e6)
    Network(3 hosts, 100 Mbit/s)
    """

    hosts: int = 2
    rate: float | None = None
    placement: str = "block"

    def __post_init__(self) -> None:
        whole_number("hosts", self.hosts, MAX_HOSTS)
        low, high = RATES
        number = isinstance(self.rate, numbers.Real) and not isinstance(self.rate, bool)
        if self.rate is not None and not (number and low <= self.rate <= high):
            raise ValueError(
                f"rate={self.rate!r}: expected bit/s from {low:g} to {high:g}, such as 100e6, or "
                "None for no limit"
            )
        if self.placement not in PLACEMENTS:
            raise ValueError(f"placement={self.placement!r}: expected 'block' or 'cyclic'")

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts' names."""
        return tuple(f"host{number}" for number in range(self.hosts))

    @property
    def payload(self) -> float | None:
        """What a link carries of a long message, in bytes/s: the rest of each frame is headers."""
        return None if self.rate is None else self.rate / 8 * (FRAME - HEADERS) / FRAME

    def places(self, n: int) -> tuple[int, ...]:
        """Return the host of each rank; ValueError if the ranks cannot be shared out evenly."""
        if self.hosts > n:
            raise ValueError(f"hosts={self.hosts} with n={n}: each host needs at least one rank")
        if n % self.hosts:
            fitting = [str(m) for m in range(self.hosts, n + self.hosts, self.hosts)][-2:]
            raise ValueError(
                f"n={n} ranks on hosts={self.hosts}: expected as many on each, such as n="
                f"{' or '.join(fitting)}"
            )
        each = n // self.hosts
        if self.placement == "block":
            return tuple(rank // each for rank in range(n))
        return tuple(rank % self.hosts for rank in range(n))

    def mapping(self, n: int) -> str:
        """Return the same as MPICH wants to hear it: (first host, hosts, ranks on each) blocks."""
        each = n // self.hosts
        if self.placement == "block":
            return f"(vector,(0,{self.hosts},{each}))"
        return f"(vector,{','.join(each * [f'(0,{self.hosts},1)'])})"

    def __repr__(self) -> str:
        told = [f"{self.hosts} host{'s' if self.hosts > 1 else ''}"]
        if self.rate is not None:
            told.append(readable(self.rate))
        if self.placement != "block":
            told.append(self.placement)
        return f"Network({', '.join(told)})"


def readable(rate: float) -> str:
    """Put a rate in bit/s into words.

    >>> readable(1e9), readable(2.5e6)
    ('1 Gbit/s', '2.5 Mbit/s')
    """
    for size, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if rate >= size:
            return f"{rate / size:g} {unit}"
    return f"{rate:g} bit/s"
