"""What the notebook calls on a rank, by name: the kernel imports this, and never MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from helpers.waiting import at_most

if TYPE_CHECKING:
    from helpers.cluster.rank.rankside import RankSide

ANSWER_SECONDS = 0.8  # what a reader waits for names


def hello() -> dict:
    """Tell who this rank is."""
    return _side().hello()


def clock() -> dict:
    """Measure this rank's clock against rank 0's; every rank must do so."""
    return _side().clock()


def execute(source: str, trace: bool) -> dict:
    """Run a cell on this rank."""
    return _side().execute(source, trace)


def call(blob: bytes, trace: bool) -> dict:
    """Call a function on this rank."""
    return _side().call(blob, trace)


def complete(code: str, cursor: int) -> dict:
    """Reply to Tab as a kernel does; empty if that takes too long."""
    from IPython import get_ipython

    shell = get_ipython()
    shell.Completer.use_jedi = False  # takes a second to load; the names can be looked at
    return _soon(lambda: shell.kernel.do_complete(code, cursor))


def inspect(code: str, cursor: int, detail: int, omitted: tuple[str, ...]) -> dict:
    """Reply to Shift+Tab as a kernel does; empty if that takes too long."""
    from IPython import get_ipython

    return _soon(lambda: get_ipython().kernel.do_inspect(code, cursor, detail, omitted))


def _soon(work: Callable[[], dict]) -> dict:
    """Return what there is within the time that somebody waits for it, who runs cells here."""
    try:
        with at_most(ANSWER_SECONDS, TimeoutError):
            return work()
    except TimeoutError:
        return {}


def _side() -> RankSide:
    from ipyparallel.engine.app import IPEngine

    return IPEngine.instance().side
