"""``Cluster``: real MPI ranks that a notebook starts, calls, and always gets rid of."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from helpers.cluster.errors import StartError, positive, whole_number, words
from helpers.cluster.kernel import folding
from helpers.cluster.kernel.calls import DEFAULT_TIMEOUT, Calls
from helpers.cluster.kernel.gathering import uninterrupted
from helpers.cluster.rank import remote
from helpers.cluster.rank.names import hidden
from helpers.cluster.start.forked import (
    VARIABLE,
    Forked,
    Spawned,
    remember_not_to_fork_here,
    way_here,
    why_not_to_fork_here,
)
from helpers.cluster.start.forkserver.handle import CannotFork
from helpers.cluster.start.guarded import Mpiexec
from helpers.cluster.start.network import Network
from helpers.cluster.start.processes import Processes
from helpers.cluster.start.slurm import Slurm
from helpers.cluster.start.ssh import Ssh

if TYPE_CHECKING:
    import ipyparallel

Way = Forked | Spawned | Mpiexec | Slurm | Ssh
WAYS = {each.way: each for each in (Forked, Spawned, Mpiexec, Slurm)}  # by COURSE_RANKS
MODULES = "names of modules, such as ('torch',)"


class Cluster(Calls):
    """``n`` MPI ranks, each a Python process that keeps its variables between calls.

    Parameters
    ----------
    start : Forked, Spawned, Mpiexec, Slurm or Ssh, optional
        How the ranks come to life. None: forked where that is possible (MPICH on Linux), each
        afresh on macOS, else by mpiexec, all on this machine; or as ``COURSE_RANKS`` in the
        environment says (``fork``, ``spawn``, ``mpiexec`` or ``slurm``).
    network : Network, optional
        Hosts within this machine, which the ranks are shared out to; None: all are on one.
    preload : iterable of str
        Modules that forked ranks have imported when they begin, and share the memory of; a warning
        says so where ranks are not forked.
    threads : int
        What numerical libraries may use on each rank.
    start_timeout : float
        In seconds; time in a queue does not count.

    Raises
    ------
    ValueError
        For an impossible ``n``, ``threads``, ``start_timeout`` or ``network``.
    StartError
        With the reason, when the ranks cannot be started.

    Examples
    --------
    >>> with Cluster(n=4) as cluster:
    ...     cluster.run(lambda: comm.allreduce(rank))
    [6, 6, 6, 6]
    """

    def __init__(
        self,
        n: int = 4,
        *,
        start: Way | None = None,
        network: Network | None = None,
        preload: Iterable[str] = (),
        threads: int = 1,
        start_timeout: float = 60.0,
    ) -> None:
        super().__init__()
        if start is not None and not isinstance(start, Way):
            ways = "Forked(), Spawned(), Mpiexec(), Slurm(...) or Ssh(...)"
            raise TypeError(f"start={start!r}: expected {ways}")
        way = WAYS[way_here()]() if start is None else start
        self.n = whole_number("n", n, way.most)
        self.threads = whole_number("threads", threads, 4096)
        self.start_timeout = positive("start_timeout", start_timeout)
        self.network = network
        modules = words("preload", preload, MODULES, r"[^\W\d]\w*(\.[^\W\d]\w*)*")
        if network is not None:
            _check_network(network, self.n, start)
        try:
            if isinstance(way, Forked):
                self._begin(way.processes(self.n, self.threads, modules, network))
        except CannotFork as error:
            if network is not None:
                raise StartError(f"{network!r} needs forked ranks: {error}.") from None
            if start is not None:
                raise
            remember_not_to_fork_here(str(error))
            way = Mpiexec()
        if modules and way.way != "fork" and (start is not None or way.way != "slurm"):
            why = repr(start) if start else why_not_to_fork_here() or _asked_otherwise()
            warnings.warn(
                f"preload={modules!r} changes nothing here: only ranks that are forked share what "
                f"was imported before, and these are not: {why}",
                stacklevel=2,
            )
        if not isinstance(way, Forked):
            self._begin(way.processes(self.n, self.threads))
        Cluster._live.add(self)

    def _begin(self, processes: Processes) -> None:
        self._processes = processes
        self._finalizer = weakref.finalize(self, _stop, processes, os.getpid())
        try:
            processes.start()
            self._wait_ready()
        except BaseException:
            self.stop()
            raise

    # -- what a notebook calls ------------------------------------------------------------------

    def run(
        self,
        function: Callable[..., Any],
        /,
        *args: object,
        timeout: float = DEFAULT_TIMEOUT,
        **kwargs: object,
    ) -> list:
        """Call a function on every rank; show what the ranks print, labelled, in rank order.

        Parameters
        ----------
        function : callable
            It sees ``MPI``, ``comm``, ``rank``, ``size`` and the ranks' variables.

        Raises
        ------
        RankError
            If the function raised on some rank.
        RankTimeoutError
            After ``timeout`` seconds.
        RankDiedError
            If a rank's process ended.
        RanksInterrupted
            If the reader pressed stop.
        ValueError
            For a bad ``timeout``.
        """
        import linecache
        import pickle

        import cloudpickle

        if not callable(function):
            raise TypeError(f"run expects a function to call on the ranks, got {function!r}")
        for sentence in hidden(function):
            print(sentence)
        blob = cloudpickle.dumps((function, args, kwargs))
        # of the notebook's cells: a rank quotes their lines in errors and in who waits for whom
        lines = {
            name: entry
            for name, entry in linecache.cache.items()
            if "ipykernel_" in name and name.encode() in blob
        }
        outcome = self.submit(remote.side, "call", blob, lines, timeout=timeout)
        folding.show(outcome.replies)
        self.settle(outcome, timeout)
        return [pickle.loads(reply.value) for reply in outcome.replies.values()]

    def restart(self) -> None:
        """End all ranks and start as many new ones.

        Their variables are lost; what ``%%ranks`` cells imported and defined is there again.
        """
        with self._exclusive():
            self._relaunch()
            self._wait_ready()

    def stop(self) -> None:
        """End the ranks and everything else that was started; safe to call again."""
        Cluster._live.discard(self)
        self._engine_ids = []
        self._finalizer()

    @property
    def running(self) -> bool:  # type: ignore[override]
        """Whether the cluster was started and not yet stopped."""
        return self._finalizer.alive

    @property
    def pids(self) -> list[int]:
        """The ranks' process ids, in rank order."""
        return [self._pids[rank] for rank in sorted(self._pids)]

    @property
    def hosts(self) -> list[str]:
        """The name of each rank's host, in rank order."""
        return [self._hosts[rank] for rank in sorted(self._hosts)]

    @property
    def client(self) -> ipyparallel.Client:
        """The ipyparallel Client underneath, for what this class does not offer.

        Ask for it again after a restart: now and then it is another one.
        """
        self._ensure_ready()
        return self._processes.connect()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self.running else "stopped"
        where = f" on {self.network!r}" if self.network else ""
        return f"<Cluster: {self.n} ranks{where}, {self._library or 'no MPI yet'}, {state}>"


def _check_network(network: Any, n: int, start: Way | None) -> None:
    """Raise where ranks cannot be shared out so."""
    if not isinstance(network, Network):
        raise TypeError(f"network={network!r}: expected a Network, such as Network(hosts=2)")
    if start is not None and start.way != "fork":
        raise ValueError(f"start={start!r} with {network!r}: hosts within this machine need a fork")
    network.places(n)
    why = why_not_to_fork_here() or (None if start else _asked_otherwise())
    if why is not None:
        raise StartError(f"{network!r} cannot be had here: {why}.")


def _asked_otherwise() -> str | None:
    return None if (way := way_here()) == "fork" else f"{VARIABLE}={way!r}, and it needs a fork"


def _stop(processes: Processes, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not end its parent's ranks
        with uninterrupted():
            processes.stop()
