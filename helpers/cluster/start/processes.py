"""What a cluster asks of its processes, however they are started."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.cluster.errors import AFTER_LOSS
from helpers.cluster.rank import stacks, state
from helpers.cluster.start import stuck
from helpers.cluster.start.stuck import Wait

if TYPE_CHECKING:
    import ipyparallel


class Processes(ABC):
    """The controller and the ranks of one cluster, and the folder they share."""

    may_rest = False  # whether a stopped rank is not taken for a dead one
    starter = "mpiexec"  # who starts the ranks, for a sentence

    def __init__(self, n: int, threads: int, folder: Path, local: bool = True) -> None:
        self.n = n
        self.threads = threads
        self.local = local
        self.client: ipyparallel.Client | None = None
        self.host_names: list[str] = []  # of each rank, where there are several
        self.folder = folder.resolve()
        self.state_dir = self.folder / "state"
        self.keep_folder()

    def keep_folder(self) -> None:
        """Make the folder again if somebody removed it: ranks are watched and interrupted there."""
        self.state_dir.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def start(self) -> None:
        """Start the controller and the ranks together; neither waits for the other."""

    @abstractmethod
    def start_ranks(self) -> None:
        """Start a set of ranks under the controller that is there already."""

    @abstractmethod
    def connect(self) -> ipyparallel.Client:
        """Wait for the controller, and return the client, the same one at each call."""

    def await_ranks(self) -> None:  # noqa: B027 (most have put nothing off)
        """Do what was put off until somebody waits for ranks: ask a batch system for nodes."""

    def queue(self) -> str:
        """Say for what the ranks wait before they can start; empty if they do not."""
        return ""

    @abstractmethod
    def registered(self) -> list[int]:
        """Return ipyparallel's numbers of the ranks started last that have registered."""

    def ask_again(self) -> None:
        """Have the controller say again which engines it knows; wait for nothing.

        A client hears of an engine by a subscription. What the controller publishes before it has
        that subscription is lost.
        """
        client = self.connect()

        def note(answer: Any) -> None:
            client._update_engines(dict(answer.result()["content"]["engines"]))

        client._send(client._query_stream, "connection_request").add_done_callback(note)

    @abstractmethod
    def ranks_exited(self) -> bool:
        """Whether all ranks have ended, or none were started; one takes the others along."""

    def how_ranks_ended(self) -> str:
        """Say how ranks ended that should have got ready."""
        return "it ended at once"

    @abstractmethod
    def controller_exited(self) -> bool:
        """Whether the controller has ended, or was not started."""

    @abstractmethod
    def dead_rank(self) -> tuple[int | None, str]:
        """Return which rank ended first, and how; None for the rank if it was none of them."""

    def lost_rank(self, ranks: list[int]) -> tuple[int | None, str]:
        """Return which rank is lost, and how, of ranks that nobody saw end."""
        why = "or is stopped: the controller hears no more of it"
        return ranks[0], f"{self.where(ranks[0])}{why}"

    def where(self, rank: int) -> str:
        """Return the beginning of a sentence that names a rank's host, where there are several."""
        return f"on {self.host_names[rank]}, " if self.host_names else ""

    @property
    def after_loss(self) -> str:
        """What becomes of the reader's work when ranks are lost."""
        return AFTER_LOSS

    @abstractmethod
    def ranks_output(self) -> str:
        """Return what the ranks wrote before they had a notebook to write to."""

    @abstractmethod
    def controller_output(self) -> str:
        """Return what the controller wrote."""

    @abstractmethod
    def kill_ranks(self) -> None:
        """End the ranks now, whatever they are doing."""

    @abstractmethod
    def stop(self) -> None:
        """End every process and remove the folder; safe to call again."""

    def rest(self, pids: list[int]) -> None:
        """Have ranks wait without a core while the reader thinks, where that does them no harm."""
        if self.may_rest:
            _signal(pids, signal.SIGSTOP)

    def go_on(self, pids: list[int]) -> None:
        """End that rest."""
        if self.may_rest:
            _signal(pids, signal.SIGCONT)

    def waits(self, running: Collection[int], pids: dict[int, int]) -> list[Wait]:
        """Return what each of the running ranks is doing."""
        now = time.time()
        waits = {wait.rank: wait for wait in stuck.read(self.state_dir, running, now)}
        silent = [rank for rank in stuck.silent(self.state_dir, running, now) if rank in pids]
        if silent and self.local:
            since = {rank: now - state.confirmed(self.state_dir, rank) for rank in silent}
            asked = stacks.dump(self.state_dir, {rank: pids[rank] for rank in silent})
            for rank, text in asked.items():
                waits[rank] = stuck.from_stack(text, rank, since[rank])
        names = tuple(self.host_names)
        return [replace(wait, hosts=names) for wait in waits.values()]

    def interrupt_ranks(self) -> None:
        """Ask every busy rank to raise KeyboardInterrupt (its watcher looks every 0.1 s)."""
        self.keep_folder()
        state.ask_to_stop(self.state_dir)


def how(status: int) -> str:
    """Put the exit code of a process, or minus the signal that ended it, into words after a comma.

    >>> how(7), how(-15)
    ('it ended with exit code 7', 'killed by signal 15 (SIGTERM)')
    """
    if status == -signal.SIGKILL:
        return "killed by signal 9 (SIGKILL): by someone, or by the system for lack of memory"
    if -status in signal.valid_signals():
        return f"killed by signal {-status} ({signal.Signals(-status).name})"
    return f"it ended with exit code {status}"


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def close(client: ipyparallel.Client) -> None:
    """Close a client, and let nothing keep it alive."""
    from ipyparallel import AsyncResult

    client.close()
    for member in vars(AsyncResult).values():  # its last 128 results know it, and are in caches
        if (clear := getattr(member, "cache_clear", None)) is not None:
            clear()
