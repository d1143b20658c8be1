"""``%%ranks``: run a cell on every rank of a cluster."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from helpers.cluster import remote, report
from helpers.cluster.arguments import positive
from helpers.cluster.cluster import DEFAULT_TIMEOUT, Cluster
from helpers.cluster.gathering import Reply

if TYPE_CHECKING:
    from helpers.tracing.trace import Trace

LIVE_AFTER = 1.0  # seconds: output of a longer cell is shown while it runs
LIVE_EVERY = 0.5


@magics_class
class RanksMagics(Magics):
    """The cell magic ``%%ranks``."""

    @magic_arguments()
    @argument("cluster", nargs="?", help="a variable that holds a Cluster (default: the only one)")
    @argument("--timeout", type=float, default=DEFAULT_TIMEOUT, help="time limit in seconds")
    @argument("--only", default=None, help="ranks that run the cell, such as 0,2 (default: all)")
    @argument("--trace", default=None, help="record the MPI calls into a variable of this name")
    @cell_magic
    def ranks(self, line: str, cell: str) -> None:
        """Run the cell on MPI ranks; show what each prints, in rank order.

        The cell sees ``MPI``, ``comm``, ``rank`` and ``size``; its variables stay on the ranks.

        Parameters
        ----------
        line : str
            The options behind ``%%ranks``.
        cell : str
            The lines below it.
        """
        options = parse_argstring(self.ranks, line)
        try:
            cluster = self._cluster(options.cluster)
            only = cluster.some_ranks(_rank_list(options.only))
            timeout = positive("timeout", options.timeout)
            if options.trace is not None and not options.trace.isidentifier():
                raise ValueError(f"--trace {options.trace}: expected a name for a variable")
        except ValueError as error:
            raise UsageError(f"%%ranks {line}: {error}") from None  # without a traceback
        clocks = cluster.clocks() if options.trace else {}
        live = _Live()
        # a first line in place of the magic's: line numbers are those that the reader sees
        outcome = cluster.submit(
            remote.execute,
            f"# %%ranks {line}\n{cell}",
            bool(options.trace),
            timeout=timeout,
            only=only,
            on_progress=live.update,
        )
        live.clear()
        report.show(outcome.replies)
        if options.trace:
            self._variables[options.trace] = _trace(outcome.replies, clocks)
        cluster.settle(outcome, timeout)

    def _cluster(self, name: str | None) -> Cluster:
        if name is None:
            return Cluster.only_live()
        value = self._variables.get(name)
        if not isinstance(value, Cluster):
            found = f"it is {value!r}" if name in self._variables else "there is none"
            raise ValueError(f"expected a variable that holds a Cluster; {found}")
        return value

    @property
    def _variables(self) -> dict:
        assert self.shell is not None
        return self.shell.user_ns


def _trace(replies: dict[int, Reply], clocks: dict) -> Trace:
    """Make one Trace of what the ranks that replied have recorded."""
    from helpers.tracing import build

    replied = {rank: reply for rank, reply in replies.items() if reply.events is not None}
    return build(
        {rank: reply.events or [] for rank, reply in replied.items()},
        {rank: clocks[rank] for rank in replied},
        {rank: reply.dropped for rank, reply in replied.items()},
    )


def _rank_list(text: str | None) -> list[int] | None:
    """Read ``"0,2"``; None stands for all.

    >>> _rank_list("0,2")
    [0, 2]
    """
    if text is None:
        return None
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise ValueError(f"--only {text}: expected ranks with commas between, such as 0,2")
    return [int(part) for part in text.split(",")]


class _Live:
    """Shows the output so far of a cell that takes long, and takes it away for the final one."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._next = self._begin + LIVE_AFTER
        self._shown = ""

    def update(self, replies: dict[int, Reply]) -> None:
        """Print what the ranks have printed so far, if there is something new.

        Parameters
        ----------
        replies : dict of int to Reply
            As far as they are known.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LIVE_EVERY
        text = "\n".join(
            report.label(rank, part)
            for rank, reply in replies.items()
            for kind, part in reply.parts
            if kind == "stdout"
        )
        if text and text != self._shown:
            self.clear()
            print(text, flush=True)
            self._shown = text

    def clear(self) -> None:
        """Take the shown text away as soon as something else is printed."""
        if self._shown:
            from IPython.display import clear_output

            clear_output(wait=True)
            self._shown = ""
