"""``%%ranks``: run a cell on every rank of a cluster; and Tab and Shift+Tab in such cells."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from helpers.cluster.errors import ClusterError, positive
from helpers.cluster.kernel import folding
from helpers.cluster.kernel.calls import DEFAULT_TIMEOUT, Calls
from helpers.cluster.kernel.live import Live
from helpers.cluster.rank import remote

if TYPE_CHECKING:
    from helpers.cluster.kernel.gathering import Reply
    from helpers.tracing.trace import Trace

MAGIC = "%%ranks"
# given the code of a cell, who runs it: a cluster and its first rank that does; None: the kernel
Whose = Callable[[str], "tuple[Calls, int] | None"]
_Answer = dict[str, Any]


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
        """
        options, cluster, only = self._read(line)
        timeout = options.timeout
        clocks = cluster.clocks() if options.trace else {}
        live = Live()
        # A first line in place of the magic's: line numbers are those that the reader sees. Before
        # another cell magic IPython takes an empty line only.
        first = "" if cell.lstrip().startswith("%%") else f"# %%ranks {line}"
        source = f"{first}\n{cell}"
        if len(only) == cluster.n:
            cluster.remember(source)
        outcome = cluster.submit(
            remote.side,
            "execute",
            source,
            bool(options.trace),
            timeout=timeout,
            only=only,
            on_progress=live.update,
            on_input=live.read_input,
        )
        live.clear()
        folding.show(outcome.replies)
        if options.trace:
            self._variables[options.trace] = _trace(outcome.replies, clocks)
        cluster.settle(outcome, timeout)

    def who_runs(self, code: str) -> tuple[Calls, int] | None:
        """Return a cell's cluster and the first rank that runs it; None if the kernel does."""
        first, _, _ = code.partition("\n")
        if first.split()[:1] != [MAGIC]:
            return None
        try:
            _, cluster, only = self._read(first.strip().removeprefix(MAGIC).strip())
        except (UsageError, ClusterError):
            return None
        return cluster, only[0]

    def _read(self, line: str) -> tuple[argparse.Namespace, Calls, list[int]]:
        """Return the options of a cell, its cluster and its ranks."""
        options = parse_argstring(self.ranks, line)
        try:
            cluster = self._cluster(options.cluster)
            only = cluster.some_ranks(_rank_list(options.only))
            options.timeout = positive("timeout", options.timeout)
            if options.trace is not None and not options.trace.isidentifier():
                raise ValueError(f"--trace {options.trace}: expected a name for a variable")
        except ValueError as error:
            raise UsageError(f"%%ranks {line}: {error}") from None  # without a traceback
        return options, cluster, only

    def _cluster(self, name: str | None) -> Calls:
        if name is None:
            return Calls.only_live()
        value = self._variables.get(name)
        if not isinstance(value, Calls):
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


# -- Tab and Shift+Tab ----------------------------------------------------------------------------


def install(kernel: Any, whose: Whose) -> None:
    """Let a kernel ask the ranks for completions and explanations in cells that are theirs."""
    kernel.do_complete = partial(_complete, type(kernel).do_complete.__get__(kernel), whose)
    kernel.do_inspect = partial(_inspect, type(kernel).do_inspect.__get__(kernel), whose)


def _complete(here: Callable, whose: Whose, code: str, cursor_pos: int | None) -> _Answer:
    at = len(code) if cursor_pos is None else cursor_pos
    ranks = _runs(whose, code, at)
    if ranks is None:
        return here(code, cursor_pos)
    answer = ranks[0].query(remote.complete, _without_magic(code), at, rank=ranks[1])
    nothing = {"matches": [], "cursor_start": at, "cursor_end": at, "metadata": {}, "status": "ok"}
    return answer or nothing  # the kernel's own names would be wrong ones


def _inspect(
    here: Callable,
    whose: Whose,
    code: str,
    cursor_pos: int,
    detail_level: int = 0,
    omit_sections: Any = (),
) -> _Answer:
    ranks = _runs(whose, code, cursor_pos)
    if ranks is not None:
        asked = _without_magic(code), cursor_pos, detail_level, tuple(omit_sections)
        answer = ranks[0].query(remote.inspect, *asked, rank=ranks[1])
        return answer or {"status": "ok", "found": False, "data": {}, "metadata": {}}
    return here(code, cursor_pos, detail_level, omit_sections)


def _runs(whose: Whose, code: str, at: int) -> tuple[Calls, int] | None:
    """Return who runs the line that the cursor is in; the line of the magic is the kernel's."""
    if code.startswith(MAGIC) and "\n" not in code[:at]:
        return None
    return whose(code)


def _without_magic(code: str) -> str:
    """Make a remark of the magic's line; what follows stays where it is."""
    first, end, rest = code.partition("\n")
    return f"#{' ' * (len(first) - 1)}{end}{rest}" if first.startswith(MAGIC) else code
