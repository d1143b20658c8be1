"""Which collectives there are: each module enters its own here, and all else asks this table.

An allreduce algorithm is one object in one module: its messages, the path that its time follows
from, the bytes that it sends and its title. Once entered it can be called by name, and it is in the
cost model, the schedules, the tables and the animation::

    register(Allreduce("star", "allreduce: star", allreduce, path, sent))

A module of :mod:`helpers.collectives` that does so is imported in the package's ``__init__``; one
of the reader's own works as well, provided that the ranks import it too.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from helpers.collectives.parts import Combine, Communicator, Hosts, hosts_of

Chunks = Callable[[int, int], int]

# -- how arrays are cut, and who has what, before a collective begins ------------------------------


def one_a_piece(ranks: int, pieces: int) -> int:
    """Return how many chunks an array has that is cut into ``pieces`` messages."""
    return pieces


def pieces_a_rank(ranks: int, pieces: int) -> int:
    """Return how many chunks an array has whose part for each rank is cut into ``pieces``."""
    return ranks * pieces


def one_a_rank(ranks: int, pieces: int) -> int:
    """Return how many chunks an array has that is handed out or collected, one part a rank."""
    return ranks


def from_everybody(rank: int, chunk: int, owner: int) -> set[int]:
    """Tell whose contributions a rank has before a reduction: its own, to every chunk."""
    return {rank}


def from_rank_0(rank: int, chunk: int, owner: int) -> set[int]:
    """Tell whose contributions a rank has before rank 0 sends to all: only rank 0 has any."""
    return {0} if rank == 0 else set()


def from_owner(rank: int, chunk: int, owner: int) -> set[int]:
    """Tell whose contributions a rank has before parts are collected: its own, to its own part."""
    return {rank} if rank == owner else set()


def added(mine: np.ndarray, theirs: np.ndarray, theirs_first: bool = True) -> None:
    """Add ``theirs`` to ``mine``."""
    mine += theirs


# -- collectives -----------------------------------------------------------------------------------


class CriticalPath(NamedTuple):
    """What lies one after another, from which an algorithm's time follows.

    Each of ``messages`` costs α; ``sent`` and ``added`` are bytes, as multiples of the array's K.
    ``between`` is what of it, in addition, lies between hosts, where an algorithm tells hosts
    apart: its ``sent`` counts what goes through the link of one host, for all its ranks.
    """

    messages: float
    sent: float
    added: float
    between: Any = None  # CriticalPath | None: a NamedTuple cannot name itself to mypy

    @property
    def steps(self) -> int:
        """How many messages follow one another, inside and between hosts."""
        return int(self.messages + (self.between.messages if self.between else 0))


@dataclass(frozen=True)
class Collective:
    """One collective by one algorithm, as schedules and animations see it.

    ``messages(comm, chunks, pieces)`` runs it on one rank, with rank 0 as root and one number for
    each chunk. ``chunks(ranks, pieces)`` says into how many chunks the array is cut, and
    ``held(rank, chunk, owner)`` whose contributions a rank has before the first message.
    """

    name: str
    title: str
    messages: Callable[[Communicator, int, int], None]
    chunks: Chunks
    held: Callable[[int, int, int], set[int]]

    def perform(self, comm: Communicator, pieces: int, hosts: Hosts | None = None) -> None:
        """Run it on this rank, with one number for each chunk."""
        self.messages(comm, self.chunks(comm.Get_size(), pieces), pieces)


@dataclass(frozen=True)
class Allreduce:
    """One algorithm for an allreduce: all that anything here needs to know about it.

    ``run(work, comm, combine, pieces)`` reduces the contiguous array ``work`` in place. It sends on
    ``comm`` alone, chunk c under tag ``FIRST_TAG + c``; the chunks after c may travel in the same
    message. ``path(ranks, pieces)`` is the :class:`CriticalPath` of two ranks or more, and
    ``sent(ranks)`` the bytes that the busiest of them sends, as a multiple of the array's K.
    ``chunks(ranks, pieces)`` says into how many chunks the array is cut, and ``pieces(size,
    ranks)`` into how many pieces it is best cut.

    Where ``knows_hosts``, each of ``run``, ``path`` and ``sent`` takes a further keyword ``hosts``,
    the host of every rank in order, such as ``(0, 0, 1, 1)``.
    """

    name: str
    title: str
    run: Callable[..., None]
    path: Callable[..., CriticalPath]
    sent: Callable[..., float]
    chunks: Chunks = one_a_piece
    pieces: Callable[[int, int], int] = lambda size, ranks: 1
    knows_hosts: bool = False

    held = staticmethod(from_everybody)

    def on_hosts(self, hosts: Hosts | Callable[[], Hosts]) -> dict[str, Hosts]:
        """Return the keyword that ``run``, ``path`` and ``sent`` take besides, if any.

        ``hosts`` may be how to find out, which may cost messages.
        """
        if not self.knows_hosts:
            return {}
        return {"hosts": hosts() if callable(hosts) else hosts}

    def perform(self, comm: Communicator, pieces: int, hosts: Hosts | None = None) -> None:
        """Run it on this rank, with one number for each chunk; without ``hosts`` it may ask MPI."""
        self.start(np.ones(self.chunks(comm.Get_size(), pieces)), comm, added, pieces, hosts)

    def start(
        self,
        work: np.ndarray,
        comm: Any,
        combine: Combine,
        pieces: int,
        hosts: Hosts | None = None,
    ) -> None:
        """Call ``run``, with the host of every rank where it takes it; None asks MPI."""
        where = self.on_hosts((lambda: hosts_of(comm)) if hosts is None else hosts)
        self.run(work, comm, combine, pieces, **where)

    def in_place(self, array: np.ndarray, comm: Any, hosts: Hosts | None = None) -> None:
        """Replace an array by its sum over all ranks, and compare nothing: what is timed.

        Arrays of another shape or dtype on another rank hang all.
        """
        work = array.reshape(-1)
        self.start(work, comm, added, self.pieces(work.nbytes, comm.Get_size()), hosts)


ALGORITHMS: dict[str, Allreduce] = {}  # of allreduce, by name, in the order of tables and pictures
_OTHERS: dict[str, Collective] = {}
COLLECTIVES: Mapping[str, Collective | Allreduce] = ChainMap(ALGORITHMS, _OTHERS)  # type: ignore[arg-type]

Entry = TypeVar("Entry", bound=Collective | Allreduce)


def register(*entries: Collective | Allreduce) -> None:
    """Enter collectives and allreduce algorithms: ValueError for a name that is taken."""
    for entry in entries:
        if entry.name in COLLECTIVES:
            raise ValueError(
                "register expects a name that is not taken "
                f"({', '.join(map(repr, COLLECTIVES))}); got {entry.name!r}"
            )
        into: dict = ALGORITHMS if isinstance(entry, Allreduce) else _OTHERS
        into[entry.name] = entry


def find(name: str, among: Mapping[str, Entry]) -> Entry:
    """Return the entry called ``name``: ValueError, with the names, if there is none."""
    if name not in among:
        raise ValueError(f"expected one of {', '.join(map(repr, among))}; got {name!r}")
    return among[name]
