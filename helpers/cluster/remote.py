"""What the notebook calls on a rank, by name: the kernel imports this, and never MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from helpers.waiting import at_most

if TYPE_CHECKING:
    from helpers.cluster.rankside import RankSide

ANSWER_SECONDS = 0.8  # what a reader waits for names


def hello() -> dict:
    """Tell who this rank is.

    Returns
    -------
    dict
        ``rank``, ``size``, ``pid``, ``host`` and ``library``.
    """
    return _side().hello()


def clock() -> dict:
    """Measure this rank's clock against rank 0's; every rank must do so.

    Returns
    -------
    dict
        The fields of a :class:`~helpers.cluster.gathering.Reply`; the value is a Clock.
    """
    return _side().clock()


def execute(source: str, trace: bool) -> dict:
    """Run a cell on this rank.

    Parameters
    ----------
    source : str
        The cell.
    trace : bool
        Whether to record its MPI calls.

    Returns
    -------
    dict
        The fields of a :class:`~helpers.cluster.gathering.Reply`.
    """
    return _side().execute(source, trace)


def call(blob: bytes, trace: bool) -> dict:
    """Call a function on this rank.

    Parameters
    ----------
    blob : bytes
        ``(function, args, kwargs)``, pickled.
    trace : bool
        Whether to record its MPI calls.

    Returns
    -------
    dict
        The fields of a :class:`~helpers.cluster.gathering.Reply`; the value is pickled.
    """
    return _side().call(blob, trace)


def complete(code: str, cursor: int) -> dict:
    """Tell which names of this rank may stand at the cursor.

    Parameters
    ----------
    code : str
        Of a cell.
    cursor : int
        Where, in characters.

    Returns
    -------
    dict
        As a kernel replies to Tab; empty if that takes too long.
    """
    from IPython import get_ipython

    shell = get_ipython()
    shell.Completer.use_jedi = False  # takes a second to load; the names can be looked at
    return _soon(lambda: shell.kernel.do_complete(code, cursor))


def inspect(code: str, cursor: int, detail: int, omitted: tuple[str, ...]) -> dict:
    """Explain the name at the cursor.

    Parameters
    ----------
    code : str
        Of a cell.
    cursor : int
        Where, in characters.
    detail : int
        1 for the source.
    omitted : tuple of str
        What is not asked for.

    Returns
    -------
    dict
        As a kernel replies to Shift+Tab; empty if that takes too long.
    """
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
    from helpers.cluster.engine import RankEngine

    return RankEngine.instance().side
