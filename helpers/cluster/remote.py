"""What the notebook calls on a rank, by name: the kernel imports this, and never MPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.cluster.rankside import RankSide


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


def _side() -> RankSide:
    from helpers.cluster.engine import RankEngine

    return RankEngine.instance().side
